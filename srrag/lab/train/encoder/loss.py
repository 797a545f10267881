"""The contrastive loss of a batch: softmax over cosines, and over MaxSim of tokens."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from srrag.lab.train.encoder.towers import Vectors


def contrastive_loss(
    queries: Vectors,
    passages: Vectors,
    target: Tensor,
    excluded: Tensor,
    *,
    temperature: float,
    late: float,
) -> Tensor:
    """Mean over questions of (1 − late) · CE(cosines / t) + late · CE(MaxSim / t).

    `target` (questions,) is the column of each question's gold passage, `excluded` bool (questions,
    passages) its other gold, which is no negative. InfoNCE (arXiv 1807.03748) with in-batch and
    mined negatives; MaxSim as in ColBERT (Eq. 15 of sr-rag), a mean over the question's tokens.
    """
    total = queries.pooled.new_zeros(())
    parts = ((1 - late, cosines), (late, mean_maxsim))
    for share, similarity in parts:
        if share:
            logits = similarity(queries, passages) / temperature
            logits = logits.masked_fill(excluded, -torch.inf)
            total = total + share * F.cross_entropy(logits, target)
    return total


def cosines(queries: Vectors, passages: Vectors) -> Tensor:
    """The cosine of each question's pooled vector with each passage's: (questions, passages)."""
    return queries.pooled @ passages.pooled.T


def mean_maxsim(queries: Vectors, passages: Vectors) -> Tensor:
    """The mean over a question's tokens of the best cosine with a token of each passage.

    Returns (questions, passages); a text without content tokens has 0.
    """
    number, length = passages.content.shape
    flat = queries.tokens.flatten(0, 1) @ passages.tokens.flatten(0, 1).T
    every = flat.view(*queries.content.shape, number, length)
    best = every.masked_fill(~passages.content, -torch.inf).amax(3)
    best = best.masked_fill(~queries.content.unsqueeze(2), 0.0)
    best = best.masked_fill(~passages.content.any(1), 0.0)
    return best.sum(1) / queries.content.sum(1, keepdim=True).clamp(min=1)
