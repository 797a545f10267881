"""Evaluate a filter on judged pairs against the cosine, and write its folder and card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from srrag.algo.classification import bootstrap_weights, expected_threshold, figures, fit_logistic
from srrag.algo.significance import shifted_p, tails
from srrag.core.figures import measured
from srrag.lab.train.filter.pairs import JudgedPairs
from srrag.model.embed import load
from srrag.model.encoder import Encoder, Role
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


def decide(pairs: JudgedPairs, logits: Floats) -> Decision:
    """Calibrate log-odds, and choose the threshold.

    Calibration is a logistic regression (Platt scaling). The threshold maximises the F1 expected
    under the calibrated probabilities. `pairs` belong to the logits, and none of them was trained
    on.
    """
    scale, bias = fit_logistic(logits[:, None], pairs.labels).tolist()
    calibrated = Decision(scale=scale, bias=bias, threshold=0.5)
    return replace(calibrated, threshold=expected_threshold(calibrated.probabilities(logits)))


def pair_cosines(questions: Sequence[str], passages: Sequence[str]) -> Floats:
    """The packaged encoder's cosine of each question with its passage, float64."""
    if not questions:
        return np.zeros(0)
    encoder = load(Encoder())

    def vectors(texts: Sequence[str], role: Role) -> npt.NDArray[np.float32]:
        place = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        found: npt.NDArray[np.float32] = encoder.encode(list(place), role)
        return found[[place[text] for text in texts]]

    asked, given = vectors(questions, "query"), vectors(passages, "passage")
    found: Floats = np.einsum("nd,nd->n", asked.astype(np.float64), given.astype(np.float64))
    return found


LEVEL, SEED = 0.95, 0
PAIRED = ("F1", "AUROC")


@dataclass(frozen=True)
class Scored:
    """Judged pairs with scores, and the threshold for yes."""

    pairs: JudgedPairs
    scores: Floats
    threshold: float

    def select(self, keep: npt.NDArray[np.bool_]) -> Scored:
        """Some of the pairs."""
        return Scored(self.pairs.select(keep), self.scores[keep], self.threshold)


def judge_filter(
    ours: Scored, cosine: Scored, seen: npt.NDArray[np.bool_], resamples: int
) -> dict[str, Any]:
    """Figures of a filter and of the cosine on the same pairs, and their differences.

    `new_passages` holds the same for the pairs that are not `seen`, if these have both classes.
    """
    found = {
        **judge_pairs(ours, resamples),
        "baseline": "cosine",
        "baseline_metrics": _without_calibration(judge_pairs(cosine, resamples)["metrics"]),
        "difference": difference(ours, cosine, resamples),
    }
    if seen.any() and not seen.all():
        mine, theirs = ours.select(~seen), cosine.select(~seen)
        if 0 < mine.pairs.labels.sum() < len(mine.pairs):
            nobody = np.zeros(len(mine.pairs), bool)
            found["new_passages"] = judge_filter(mine, theirs, nobody, resamples)
    return found


def judge_pairs(scored: Scored, resamples: int) -> dict[str, Any]:
    """Return `metrics`, with intervals of 95 % from drawing whole questions."""
    found = figures(scored.pairs.labels, scored.scores, scored.threshold)
    (drawn,) = _draws([scored], resamples)
    return {
        "pairs": len(scored.pairs),
        "questions": scored.pairs.num_questions,
        "metrics": {
            name: measured(
                (float(value[0]), *tails(drawn[name], LEVEL)),
                scored.pairs.num_questions,
                items=len(scored.pairs),
            )
            for name, value in found.items()
        },
    }


def difference(ours: Scored, theirs: Scored, resamples: int) -> dict[str, dict[str, Any]]:
    """Differences in F1 and AUROC between two scorings of the same pairs, with p-values.

    Both use the same draws of questions, so the intervals are those of the paired difference.
    """
    points = [figures(one.pairs.labels, one.scores, one.threshold) for one in (ours, theirs)]
    first, second = _draws([ours, theirs], resamples)
    found = {}
    for name in PAIRED:
        drawn = first[name] - second[name]
        value = float(points[0][name][0] - points[1][name][0])
        ends = tails(drawn, LEVEL)
        questions = ours.pairs.num_questions
        found[name] = measured((value, *ends), questions, p=shifted_p(value, drawn))
    return found


def _draws(scorings: Sequence[Scored], resamples: int) -> list[dict[str, Floats]]:
    blocks: list[list[dict[str, Floats]]] = [[] for _ in scorings]
    pairs = scorings[0].pairs
    for weights in bootstrap_weights(pairs.groups, resamples=resamples, seed=SEED):
        for place, one in enumerate(scorings):
            blocks[place].append(figures(pairs.labels, one.scores, one.threshold, weights))
    return [
        {name: np.concatenate([block[name] for block in found]) for name in found[0]}
        for found in blocks
    ]


def _without_calibration(metrics: dict[str, Any]) -> dict[str, Any]:
    """Drop the calibration error: a cosine is not a probability."""
    return {name: each for name, each in metrics.items() if name != "ECE"}


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
