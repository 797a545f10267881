"""Make the rules' table of cue weights from crowd-labelled abstracts.

    python -m srrag.lab.fits.lexicon ebmnlp_crowd_dev.jsonl mentions.tsv

The weights are those of a linear-chain conditional random field over the cues of
`rules.tokens`, fitted by AdaGrad, cut to the strongest cues, fitted again and rounded to
sixteenths. The table holds words, word ends and their weights, never text.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from srrag.core.provenance import fitted_on
from srrag.lab.train.tagger.task import read_abstracts
from srrag.reading.tagger import PLACE_SIZES, SCALE, with_fitted
from srrag.reading.tokens import EDGE, LOCAL, TOKEN, Ints, RuleTokens, normal, tokenise, values_of

Floats = npt.NDArray[np.float64]
KINDS = ("word", "suffix3", "suffix4", "prefix4")
MIN_COUNT = 4
NUM_CUES = 9000
EPOCHS = 4
RATE = 0.3
LEAN = (0.0625, 0.3125, 0.25)
"""Bias of P, I, O over none, in nats, with the best macro F1 in crowd cross-validation."""
PIECE_TOKENS = 80
REMARK = (
    "# Weights of cues for P, I, O in sixteenths of a nat, learned from EBM-NLP crowd labels by "
    "srrag.lab.fits.lexicon."
)


@dataclass(frozen=True)
class Examples:
    """Texts with one label for each character (an index into LABELS)."""

    texts: list[str]
    marks: list[npt.NDArray[np.int8]]
    leads: list[bool]


def read_examples(path: Path) -> Examples:
    """Read the abstracts of EBM-NLP, each a lead."""
    found = read_abstracts(path)
    return Examples([a.text for a in found], [a.marks for a in found], [True] * len(found))


def with_pieces(examples: Examples) -> Examples:
    """Add every text again in pieces of PIECE_TOKENS, as the rules also read passages."""
    texts, marks, leads = list(examples.texts), list(examples.marks), list(examples.leads)
    for text, mark in zip(examples.texts, examples.marks, strict=True):
        starts = [match.start() for match in TOKEN.finditer(text)][::PIECE_TOKENS]
        for begin, end in zip(starts, [*starts[1:], len(text)], strict=True):
            texts.append(text[begin:end])
            marks.append(mark[begin:end])
            leads.append(False)
    return Examples(texts, marks, leads)


def known_values(texts: Sequence[str], min_count: int) -> dict[str, dict[str, int]]:
    """Number (from 1) the values of each kind that occur at least `min_count` times."""
    counts: dict[str, dict[str, int]] = {kind: {} for kind in KINDS}
    for text in texts:
        for token in TOKEN.findall(text):
            for kind, value in values_of(normal(token)).items():
                counts[kind][value] = counts[kind].get(value, 0) + 1
    for kind in KINDS:
        counts[kind] = {v: n for v, n in sorted(counts[kind].items()) if n >= min_count}
    counts["word"] = {EDGE: min_count, **counts["word"]}
    return {kind: {v: i for i, v in enumerate(counts[kind], start=1)} for kind in KINDS}


def cue_columns(
    tokens: RuleTokens, values: Mapping[str, Mapping[str, int]]
) -> tuple[Ints, list[str]]:
    """Return one column of cue numbers for each template (0: none), and names `template value`."""
    names, columns = [""], []
    for template in (*LOCAL, *PLACE_SIZES):
        kind = LOCAL[template][0] if template in LOCAL else template
        column = tokens.column(template)
        if kind in values:
            own = list(values[kind])
        else:
            own = [str(i) for i in range(1, PLACE_SIZES.get(template, 16))]
        columns.append(np.where(column > 0, column + len(names) - 1, 0))
        names.extend(f"{template}\t{value}" for value in own)
    return np.stack(columns, axis=1), names


def _log_sum(x: Floats, axis: int) -> Floats:
    top = x.max(axis, keepdims=True)
    return np.asarray((top + np.log(np.exp(x - top).sum(axis, keepdims=True))).squeeze(axis))


def expectations(
    scores: Floats, live: npt.NDArray[np.bool_], moves: Floats
) -> tuple[Floats, Floats]:
    """Return label probabilities (B, T, 4) and expected transitions (4, 4), by forward-backward."""
    length = scores.shape[1]
    ahead, behind = np.zeros_like(scores), np.zeros_like(scores)
    ahead[:, 0] = scores[:, 0]
    for t in range(1, length):
        step = _log_sum(ahead[:, t - 1, :, None] + moves, 1) + scores[:, t]
        ahead[:, t] = np.where(live[:, t, None], step, ahead[:, t - 1])
    norm = _log_sum(ahead[:, -1], 1)
    for t in range(length - 2, -1, -1):
        step = _log_sum(moves + (scores[:, t + 1] + behind[:, t + 1])[:, None, :], 2)
        behind[:, t] = np.where(live[:, t + 1, None], step, 0.0)
    node = np.exp(ahead + behind - norm[:, None, None]) * live[..., None]
    pair = ahead[:, :-1, :, None] + moves + (scores[:, 1:] + behind[:, 1:])[:, :, None, :]
    edge = np.exp(pair - norm[:, None, None, None]) * live[:, 1:, None, None]
    return node, edge.sum((0, 1))


def fit(
    cues: Ints, labels: Ints, first: Ints, *, num_cues: int, l2: float, batch: int = 32
) -> tuple[Floats, Floats]:
    """Fit weights (num_cues, 4) and moves (4, 4), averaged over the second half of the epochs."""
    rng = np.random.default_rng(0)
    weights, moves = np.zeros((num_cues, 4)), np.zeros((4, 4))
    power, move_power = np.full((num_cues, 4), 1e-2), np.full((4, 4), 1e-2)
    kept: list[tuple[Floats, Floats]] = []
    filled = np.flatnonzero(np.diff(first))
    for epoch in range(EPOCHS):
        order = rng.permutation(filled)
        for begin in range(0, len(order), batch):
            texts = order[begin : begin + batch]
            rows = np.concatenate([np.arange(first[i], first[i + 1]) for i in texts])
            used, inverse = np.unique(cues[rows], return_inverse=True)
            inverse = inverse.reshape(len(rows), -1)
            grad, move_grad = _gradient(
                weights[used], inverse, labels[rows], np.diff(first)[texts], moves
            )
            grad += l2 * len(texts) * weights[used]
            grad[used == 0] = 0.0
            power[used] += grad**2
            weights[used] -= RATE * grad / np.sqrt(power[used])
            move_power += move_grad**2
            moves = moves - RATE * move_grad / np.sqrt(move_power)
        if epoch >= EPOCHS // 2:
            kept.append((weights.copy(), moves))
    return np.mean([w for w, _ in kept], axis=0), np.mean([m for _, m in kept], axis=0)


def _gradient(
    weights: Floats, cues: Ints, labels: Ints, lengths: Ints, moves: Floats
) -> tuple[Floats, Floats]:
    live = np.arange(lengths.max()) < lengths[:, None]
    scores = np.zeros((*live.shape, 4))
    scores[live] = weights[cues].sum(1)
    node, edge = expectations(scores, live, moves)
    error = node[live]
    error[np.arange(len(labels)), labels] -= 1.0
    width = cues.shape[1]
    grad = np.stack(
        [np.bincount(cues.ravel(), np.repeat(error[:, k], width), len(weights)) for k in range(4)],
        axis=1,
    )
    gold = np.zeros(live.shape, np.int64)
    gold[live] = labels
    pairs = live[:, 1:]
    seen = np.bincount(gold[:, :-1][pairs] * 4 + gold[:, 1:][pairs], minlength=16).reshape(4, 4)
    return np.asarray(grad, np.float64), edge - seen


def learn(examples: Examples, num_cues: int = NUM_CUES) -> str:
    """Learn the lexicon; returns it as text."""
    whole = with_pieces(examples)
    values = known_values(examples.texts, MIN_COUNT)
    tokens = tokenise(whole.texts, [0] * len(whole.texts), whole.leads, values)
    labels = np.concatenate(
        [
            mark[tokens.start[a:b]].astype(np.int64)
            for mark, a, b in zip(whole.marks, tokens.first[:-1], tokens.first[1:], strict=True)
        ]
    )
    cues, names = cue_columns(tokens, values)
    weights, _ = fit(cues, labels, tokens.first, num_cues=len(names), l2=1e-4)
    counts = np.bincount(cues.ravel(), minlength=len(names))
    strength = np.abs(weights - weights.mean(1, keepdims=True)).max(1) * np.sqrt(counts)
    kept = np.sort(np.argsort(-strength[1:], kind="stable")[:num_cues]) + 1
    renumber = np.zeros(len(names), np.int64)
    renumber[kept] = np.arange(1, len(kept) + 1)
    weights, moves = fit(renumber[cues], labels, tokens.first, num_cues=len(kept) + 1, l2=5e-3)
    return render([names[i] for i in kept], weights[1:], moves)


def render(names: Sequence[str], weights: Floats, moves: Floats) -> str:
    """Render the table that `rules.tagger.parse_lexicon` reads, without all-zero lines."""
    whole = np.rint((weights[:, 1:] - weights[:, :1]) * SCALE).astype(int)
    steps = np.rint((moves - moves.max()) * SCALE).astype(int)
    lines = [REMARK, "lean\t" + "\t".join(str(round(x * SCALE)) for x in LEAN)]
    lines += [f"move\t{a}\t{b}\t{steps[a, b]}" for a in range(4) for b in range(4)]
    lines += [
        f"{name}\t{p}\t{i}\t{o}"
        for name, (p, i, o) in zip(names, whole.tolist(), strict=True)
        if p or i or o
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> None:
    """Read the crowd file, write the table; raises ValueError on wrong usage."""
    if len(arguments) != 2:
        raise ValueError("usage: python -m srrag.lab.fits.lexicon CROWD.jsonl OUT.tsv")
    examples = read_examples(Path(arguments[0]))
    command = "python -m srrag.lab.fits.lexicon"
    block = fitted_on(name="lexicon", command=command, documents=examples.texts)
    Path(arguments[1]).write_text(with_fitted(learn(examples), block), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
