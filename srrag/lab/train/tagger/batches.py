"""Abstracts as batches of windows: cut at other places in each epoch, and little padded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from srrag.model.tagger import Ints, Pieces, PieceTokenizer, batches

POOL_WINDOWS = 64
"""Windows that are sorted by length together, so that a batch holds little padding."""
IGNORED = -100


class Example(NamedTuple):
    """A window of an abstract: ids with special tokens, and the class of each (or IGNORED)."""

    ids: Ints
    labels: Ints


def make_batches(
    texts: Sequence[tuple[Pieces, Ints]],
    tokenizer: PieceTokenizer,
    window: int,
    batch_tokens: int,
    rng: np.random.Generator,
) -> list[list[Example]]:
    """Cut texts with the class of each piece into windows, in batches of so many pieces at most."""
    examples = [
        example for some, labels in texts for example in _cut(some, labels, tokenizer, window, rng)
    ]
    order = rng.permutation(len(examples))
    found = [
        [examples[pool[i]] for i in some]
        for pool in (order[i : i + POOL_WINDOWS] for i in range(0, len(order), POOL_WINDOWS))
        for some in batches([len(examples[i].ids) for i in pool], batch_tokens)
    ]
    return [found[i] for i in rng.permutation(len(found))]


def _cut(
    some: Pieces, labels: Ints, tokenizer: PieceTokenizer, window: int, rng: np.random.Generator
) -> Iterator[Example]:
    """Cut a text into windows of about equal size, at other places in each epoch."""
    size = len(some.ids)
    count = max(1, round(size / window + 0.2))
    shift = (rng.random() - 0.5) * size / count
    cuts = [0, *(round(size * i / count + shift) for i in range(1, count)), size]
    lead, tail = len(tokenizer.before), len(tokenizer.after)
    for start, stop in pairwise(cuts):
        if start < stop:
            marked = np.pad(labels[start:stop], (lead, tail), constant_values=IGNORED)
            yield Example(tokenizer.enclosed(some.ids[start:stop]), marked)


def padded(examples: Sequence[Example]) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, mask and labels of a batch, each (examples, longest)."""
    shape = len(examples), max(len(example.ids) for example in examples)
    ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    labels: npt.NDArray[np.int64] = np.full(shape, IGNORED, np.int64)
    for row, example in enumerate(examples):
        size = len(example.ids)
        ids[row, :size], mask[row, :size], labels[row, :size] = example.ids, 1, example.labels
    return torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(labels)
