"""The folder of a trained encoder: weights, tokenizer, pooling, provenance, card and manifest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from srrag.core.provenance import KEY
from srrag.lab.train.checkpoint import trained_weights
from srrag.lab.train.encoder.towers import PASSAGE, Towers
from srrag.model.encoder import FACTS, QUERY_TOWER, Encoder
from srrag.storage.atomic_write import commit_json
from srrag.storage.sealed_folder import seal

_KEPT = ("*.json", "vocab.txt", "*.model")
_MODULES = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]


def write_encoder(
    folder: Path, base: Encoder, max_tokens: int, weights: Path, facts: Mapping[str, Any]
) -> None:
    """Write a trained encoder into an empty `folder`, a second tower into a folder within it.

    Both are read as any folder is, by this package and by sentence-transformers.
    """
    towers = Towers(base, max_tokens, "cpu")
    for role, tensors in towers.weights(trained_weights(weights)).items():
        place = folder if role == PASSAGE else folder / QUERY_TOWER
        place.mkdir(parents=True, exist_ok=True)
        for pattern in _KEPT:
            for path in towers.folders[role].glob(pattern):
                if path.name not in (FACTS, "manifest.json"):
                    shutil.copyfile(path, place / path.name)
        save_file(tensors, place / "model.safetensors", {"format": "pt"})
        (place / "model.safetensors").chmod(0o644)
        _write_modules(place, towers.pooling, towers.dim)
        commit_json(place / FACTS, {**stated(base, towers.pooling), KEY: facts[KEY]})
    for place in (folder / QUERY_TOWER, folder):
        if place.is_dir():
            write_encoder_card(place, base, facts)


def stated(base: Encoder, pooling: str) -> dict[str, Any]:
    """Facts for a user of the folder."""
    return {
        "base": base_name(base),
        "pooling": pooling,
        "query_prefix": base.query_prefix,
        "passage_prefix": base.passage_prefix,
        "two_towers": bool(base.query_model),
    }


def base_name(base: Encoder) -> str:
    """What the encoder was made from: an id, or the name of a folder, wherever it lies."""
    return Path(base.model).name if Path(base.model).is_dir() else base.model


def write_encoder_card(folder: Path, base: Encoder, facts: Mapping[str, Any]) -> None:
    """Write the model card, then the manifest of the whole folder."""
    (folder / "README.md").write_text(encoder_card(base, facts), "utf-8")
    seal(folder, {"training": {key: value for key, value in facts.items() if key != KEY}})


def encoder_card(base: Encoder, facts: Mapping[str, Any]) -> str:
    """The model card, in Markdown."""
    lines = [
        "# Encoder of questions and passages",
        "",
        f"`{base_name(base)}`, trained by `{facts['command']}` on {facts['questions']} questions "
        f"with gold passages, {facts['steps']} steps.",
        "",
        "| | before | after | difference |",
        "|---|---|---|---|",
    ]
    for title, found in (("held out", facts["held_out"]), ("gate", facts["gate"])):
        for name, after in found["metrics"].items():
            gain = found["difference"][name]
            lines.append(
                f"| {title}: {name}, {after['n']} questions | "
                f"{found['baseline_metrics'][name]['value']:.3f} | {after['value']:.3f} | "
                f"{gain['value']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}] |"
            )
    two = f" embedder.query_model=FOLDER/{QUERY_TOWER}" if base.query_model else ""
    prefixes = [
        f" embedder.{name}={json.dumps(getattr(base, name))}"
        for name in ("query_prefix", "passage_prefix")
        if getattr(base, name)
    ]
    use = f"embedder=folder embedder.model=FOLDER{two}{''.join(prefixes)}"
    return "\n".join([*lines, "", f"`srrag build {use}`, and the same for `ask`.", ""])


def _write_modules(folder: Path, pooling: str, width: int) -> None:
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": path,
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, (path, kind) in enumerate(_MODULES)
    ]
    commit_json(folder / "modules.json", modules)
    for path, _ in _MODULES[1:]:
        (folder / path).mkdir(exist_ok=True)
    modes = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    commit_json(
        folder / _MODULES[1][0] / "config.json",
        {
            "word_embedding_dimension": width,
            **{name: mode == pooling for name, mode in modes.items()},
        },
    )
