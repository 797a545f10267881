"""The folder of a trained tagger: weights, configuration, tokenizer, model card, manifest."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from srrag.core.provenance import KEY
from srrag.lab.train.checkpoint import trained_weights
from srrag.lab.train.encoder_files import load_classifier, tokenizer_file
from srrag.lab.train.tagger.task import TaggerSettings
from srrag.model.tagger import FACTS, reading_json
from srrag.storage.atomic_write import commit_json
from srrag.storage.sealed_folder import seal


def write_tagger(
    out: Path,
    settings: TaggerSettings,
    weights: Path,
    lean: Sequence[float],
    facts: Mapping[str, Any],
) -> None:
    """Write the folder `out` in one move, in the place of an earlier one.

    `weights` is the last checkpoint of a training; `facts` are for the card and the manifest.
    """
    beside = out.with_name(f".{out.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    model = load_classifier(settings.encoder, settings.revision)
    parameters = dict(model.named_parameters())
    for name, tensor in trained_weights(weights).items():
        parameters[name].data.copy_(tensor)
    model.config._name_or_path = ""
    model.save_pretrained(beside)
    (beside / "model.safetensors").chmod(0o644)  # as all files beside it; the library says 600
    tokenizer = tokenizer_file(settings.encoder, settings.revision)
    shutil.copyfile(tokenizer, beside / "tokenizer.json")
    fitted = {KEY: facts[KEY]} if KEY in facts else {}
    commit_json(beside / FACTS, {**reading_json(settings.reading(lean)), **fitted})
    write_card(beside, settings, facts)
    shutil.rmtree(out, ignore_errors=True)
    beside.rename(out)


def write_card(folder: Path, settings: TaggerSettings, facts: Mapping[str, Any]) -> None:
    """Write the model card, then the manifest of the whole folder."""
    (folder / "README.md").write_text(card(settings, facts), "utf-8")
    seal(folder, {"training": {key: value for key, value in facts.items() if key != KEY}})


def card(settings: TaggerSettings, facts: Mapping[str, Any]) -> str:
    """The model card, in Markdown."""
    held, expert = facts["held_out"], facts["expert"]
    lines = [
        "# PICO tagger",
        "",
        f"Labels the words of a medical text P (population, condition), I (intervention, "
        f"comparator), O (outcome) or none. `{settings.encoder}` with a linear map on top, trained "
        f"by `{facts['command']}`.",
        "",
        f"- Trained on {facts['training_abstracts']} crowd-labelled abstracts of EBM-NLP, "
        f"{settings.epochs} epochs; {facts['held_out_abstracts']} others were held out and chose "
        f"the seed ({facts['seed']}) and the lean ({', '.join(map(str, facts['lean']))} nats for "
        "P, I, O).",
        "- English abstracts of trials alone: other kinds of text, full texts and other languages "
        "were not looked at. One label a word: overlapping spans are lost. Not for clinical use.",
        "- EBM-NLP states no licence; the words of its abstracts belong to their publishers. "
        "Check both before you pass these weights on.",
        "",
        "| tokens of | macro F1 | P | I | O |",
        "|---|---|---|---|---|",
        _row("held-out crowd abstracts", held),
    ]
    if expert:
        macro = expert["tokens"]["metrics"]["token_macro_F1"]
        scored = expert["documents"]
        name = f"{scored} expert abstracts, 95 % interval [{macro['low']:.3f}, {macro['high']:.3f}]"
        lines += [
            _row(name, _values(expert["tokens"])),
            _row("the same, after the rules typed its mentions", _values(expert["mentions"])),
        ]
    return "\n".join(
        [*lines, "", "`srrag build mentions=tagger mentions.model=FOLDER` uses it.", ""]
    )


def _values(scored: Mapping[str, Any]) -> dict[str, float]:
    return {name: each["value"] for name, each in scored["metrics"].items()}


def _row(name: str, figures: Mapping[str, Any]) -> str:
    cells = (figures[key] for key in ("token_macro_F1", "P_F1", "I_F1", "O_F1"))
    return f"| {name} | " + " | ".join(f"{value:.3f}" for value in cells) + " |"
