"""The interface of models of p(yes | question, passage), for training and for inference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

Ints = npt.NDArray[np.int64]
Example = tuple[Ints, Ints]
"""Token ids of a question with a passage, and the side of each token: QUESTION, PASSAGE, OTHER."""

OTHER, QUESTION, PASSAGE = -1, 0, 1


class PairModel(Protocol):
    """A torch module with its tokenizer; `module` holds what can be trained."""

    module: nn.Module

    def examples(self, questions: Sequence[str], passages: Sequence[str]) -> list[Example]:
        """Tokenise pairs, each cut to the model's limit."""
        ...

    def losses(self, examples: Sequence[Example], labels: Tensor) -> Tensor:
        """The loss of each example, (examples,); labels are 1 for yes and 0 for no."""
        ...

    def logits(self, examples: Sequence[Example]) -> Tensor:
        """The log-odds of yes of each example, (examples,)."""
        ...

    def save(self, folder: Path, weights: Mapping[str, Tensor]) -> None:
        """Write what `load_pair_model` reads, with these weights of the trainable parameters."""
        ...


def scores(
    examples: Sequence[Example],
    logits: Callable[[Sequence[Example]], Tensor],
    batch_tokens: int,
) -> npt.NDArray[np.float64]:
    """The log-odds of each example, float64 (examples,), without padding.

    Examples of equal length share a pass, so a score does not depend on its neighbours.
    """
    found = np.zeros(len(examples))
    for rows in equal_lengths([len(ids) for ids, _ in examples], batch_tokens):
        with torch.inference_mode():
            found[rows] = logits([examples[row] for row in rows]).double().cpu().numpy()
    return found


def equal_lengths(lengths: Sequence[int], batch_tokens: int) -> list[Ints]:
    """Rows in groups of one length, at most `batch_tokens` tokens (or one row) each."""
    sizes = np.asarray(lengths, np.int64)
    order = np.argsort(sizes, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1) if len(order) else []
    return [
        group[start : start + step]
        for group in groups
        for step in [max(1, batch_tokens // max(1, int(sizes[group[0]])))]
        for start in range(0, len(group), step)
    ]


def padded(
    examples: Sequence[Example], pad: int, left: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, mask and sides of examples as one batch, each int64 (examples, longest)."""
    shape = len(examples), max(len(ids) for ids, _ in examples)
    ids = np.full(shape, pad, np.int64)
    mask, sides = np.zeros(shape, np.int64), np.full(shape, OTHER, np.int64)
    for row, (some, side) in enumerate(examples):
        place = slice(shape[1] - len(some), None) if left else slice(0, len(some))
        ids[row, place], mask[row, place], sides[row, place] = some, 1, side
    return torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(sides)
