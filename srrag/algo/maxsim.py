"""Late interaction: MaxSim over ragged token embeddings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

_BLOCK_ROWS = 1024

_LANES = 16
"""Columns that a vector register multiplies at once: 16 take .6 of the time that 12 or 17 take."""


def maxsim(
    query: np.ndarray,
    values: np.ndarray,
    offsets: np.ndarray,
    scale: np.ndarray | None = None,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Sum over query tokens of the largest cosine with any token of each document.

    SR-RAG Eq. 15. The rows of `query` (m, d) and of `values` × `scale` have unit length. Document i
    owns rows `offsets[i]:offsets[i + 1]` of `values` (T, d; int8 or float), each multiplied by its
    entry of `scale` (T,) if given. `weight` (m,) multiplies the terms of the sum, with the scale of
    a query in int8 in it. Returns float32 (documents,); the score is 0 if the document or the
    query has no tokens. Raises ValueError if the shapes disagree.
    """
    return summed(best_products(query, values, offsets, scale), weight)


def summed(best: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """The scores of documents from the `best_products` of all of them, as `maxsim` sums them."""
    if weight is None:
        return np.asarray(best.sum(axis=0))
    if weight.shape != (len(best),):
        raise ValueError(f"weight {weight.shape} is not one number for each of {len(best)} tokens")
    return np.asarray(weight.astype(np.float32) @ best)


def best_products(
    query: np.ndarray, values: np.ndarray, offsets: np.ndarray, scale: np.ndarray | None = None
) -> np.ndarray:
    """The largest product of each query token with any token of each document: float32 (m, docs).

    The arguments are those of `maxsim`; a document without a token has 0. Products of int8 are
    whole numbers, the same however they are summed: below 2²⁴, and so exact in float32, up to 1,040
    dimensions.
    """
    _check(query, values, offsets, scale)
    best = np.zeros((len(query), len(offsets) - 1), np.float32)
    filled = np.flatnonzero(offsets[1:] > offsets[:-1])
    if not len(query) or not len(values):
        return best
    wide = None if scale is None else scale.astype(np.float32)
    # reduceat gives an empty segment its successor's first row, so it gets non-empty segments only.
    # Their starts stay adjacent, because empty documents hold no rows.
    if query.dtype == values.dtype == np.int8 and (multiply := _int8_product()):
        products = multiply(values, query, wide)
        best[:, filled] = np.maximum.reduceat(products, offsets[filled], axis=0).T
        return best
    products = _products(query, values)
    if wide is not None:
        products *= wide
    best[:, filled] = np.maximum.reduceat(products, offsets[filled], axis=1)
    return best


def _products(query: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Dot product of every query token with every row of values, float32 (m, T).

    It works in blocks that fit the processor's cache as float32, which is twice as fast as widening
    all of `values` first.
    """
    rows = np.ascontiguousarray(query, dtype=np.float32)
    similarity = np.empty((len(query), len(values)), dtype=np.float32)
    wide = np.empty((min(_BLOCK_ROWS, len(values)), values.shape[1]), dtype=np.float32)
    for start in range(0, len(values), _BLOCK_ROWS):
        block = values[start : start + _BLOCK_ROWS]
        np.copyto(wide[: len(block)], block, casting="same_kind")
        similarity[:, start : start + len(block)] = rows @ wide[: len(block)].T
    return similarity


def _int8_product() -> Callable[[np.ndarray, np.ndarray, np.ndarray | None], np.ndarray] | None:
    """Products of int8 rows, times the scale of the first, if torch is there and there is VNNI.

    Without VNNI it is slow, and its sums of pairs would end at 16 bits. The many rows come first:
    the other way round the product takes twice as long.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "_int_mm") or not torch.cpu._is_vnni_supported():
        return None

    def multiply(values: np.ndarray, query: np.ndarray, scale: np.ndarray | None) -> np.ndarray:
        padded = np.zeros((-(-len(query) // _LANES) * _LANES, query.shape[1]), np.int8)
        padded[: len(query)] = query
        found = torch._int_mm(torch.from_numpy(values), torch.from_numpy(padded).t())
        found = found[:, : len(query)]
        by = 1.0 if scale is None else torch.from_numpy(scale)[:, None]
        products: np.ndarray = torch.mul(found, by).numpy()
        return products

    return multiply


def take_ragged(offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Select documents of a ragged array: (indices of their tokens, offsets among those)."""
    lengths = offsets[rows + 1] - offsets[rows]
    chosen = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(lengths, out=chosen[1:])
    shift = np.repeat(offsets[rows] - chosen[:-1], lengths)
    return np.arange(chosen[-1], dtype=np.int64) + shift, chosen


def _check(
    query: np.ndarray, values: np.ndarray, offsets: np.ndarray, scale: np.ndarray | None
) -> None:
    if query.ndim != 2 or values.ndim != 2 or (len(query) and query.shape[1] != values.shape[1]):
        raise ValueError(f"query {query.shape} and values {values.shape} do not share a width")
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(values):
        raise ValueError(f"offsets do not run from 0 to the {len(values)} rows of values")
    if np.any(offsets[1:] < offsets[:-1]):
        raise ValueError("offsets decrease")
    if scale is not None and scale.shape != (len(values),):
        raise ValueError(f"scale {scale.shape} is not one number for each of {len(values)} rows")
