"""Write the results of a training: the sealed model folder with its card, and figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from srrag.lab.train.filter.pairs import JudgedPairs
from srrag.model.filter import (
    FACTS,
    Base,
    Decision,
    FilterFacts,
    base_sha256,
    load_pair_model,
)
from srrag.storage.atomic_write import commit, commit_json
from srrag.storage.manifest import seal

Floats = npt.NDArray[np.float64]
CARD = "README.md"


def write_model(
    folder: Path,
    base: Base,
    weights: Mapping[str, Tensor],
    decision: Decision,
    facts: dict[str, Any],
) -> None:
    """Write weights, tokenizer and filter.json (with further facts), and seal them."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    load_pair_model(base, "cpu").save(folder, weights)
    found = FilterFacts(base, decision, base_sha256(base))
    commit_json(folder / FACTS, {**found.stated(), **facts})
    seal(folder)


def write_card(folder: Path, text: str) -> None:
    """Put the model card beside the weights, and seal it with them."""
    commit(folder / CARD, lambda path: _write(path, text))
    seal(folder)


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


def write_figures(
    out: Path,
    pairs: JudgedPairs,
    probabilities: Floats,
    cosines: Floats,
    decision: Decision,
    training: list[dict[str, float]],
) -> None:
    """Write each judged pair with its probability, and the losses by epoch."""
    table = pa.table(
        {
            "query_id": pairs.query_ids,
            "query": pairs.questions,
            "passage": pairs.passages,
            "label": pairs.labels.astype(np.int8),
            "probability": probabilities,
            "kept": probabilities >= decision.threshold,
            "cosine": cosines,
        }
    )
    commit(out / "predictions.parquet", lambda path: pq.write_table(table, path))
    commit_json(out / "curve.json", training)


def card(base: Base, decision: Decision, stated: Mapping[str, Any]) -> str:
    """The model card as Markdown. `stated` is what the job found."""
    gain, data = stated["difference"]["AUROC"], stated["data"]
    how = "low-rank updates (LoRA)" if base.lora else "all trainable weights"
    lines = [
        "# Evidence filter",
        "",
        "p(yes | question, passage): does the passage hold evidence for the question?",
        f"Made of `{base.model}` (revision {base.revision or 'as packaged or on disk'}, "
        f"{base.kind}), {how}, pairs cut at {base.max_tokens} tokens.",
        "",
        "- **Use**: to drop passages before an answer is written. From "
        f"{decision.threshold:.3f} on a passage is kept. It does not grade evidence and gives no "
        "medical advice.",
        f"- **Trained on** {data['training_pairs']} pairs of {data['training_questions']} "
        f"questions ({data['training_yes_share']:.0%} yes) of `{data['training_file']}`; "
        f"calibrated, and the threshold chosen, on {data['validation_pairs']} pairs whose "
        "questions were held out.",
        f"- **Judged on** {stated['pairs']} pairs of {stated['questions']} questions of "
        f"`{data['file']}`, none of which had a part in training or choosing.",
        "- **Limits**: it learned what those who judged the pairs called evidence; passages that "
        "nobody judged and that count as No teach it to miss some. "
        f"{data['seen_passages']} of the judged passages stood in training too, with another "
        "question.",
        "",
        "| | value | 95 % interval |",
        "|---|---|---|",
    ]
    for name, each in stated["metrics"].items():
        value, low, high = (each[key] for key in ("value", "low", "high"))
        lines.append(f"| {name} | {value:.3f} | {low:.3f} – {high:.3f} |")
    lines += [
        "",
        f"AUROC above that of the packaged encoder's cosine: {gain['value']:+.3f} "
        f"({gain['low']:+.3f} – {gain['high']:+.3f}).",
        "",
        f"`{stated['command']}`",
        "",
    ]
    return "\n".join(lines)
