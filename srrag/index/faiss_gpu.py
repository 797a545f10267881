"""FAISS on GPUs: where the place is one, and the installed FAISS is built for it."""

from __future__ import annotations

import functools
import logging
from typing import Any

import faiss

MAX_DEPTH = 2048
"""Hits of a search, and lists that are probed: FAISS's kernels on GPUs select no more."""

_TEMPORARY_BYTES = 256 * 2**20
_SHARED_TABLE_CODES = 48
_log = logging.getLogger(__name__)


@functools.cache
def gpus(device: str) -> int:
    """How many GPUs FAISS may use in a place; says so, once, if the place is one without any."""
    if device == "cpu":
        return 0
    found = int(faiss.get_num_gpus())
    if not found:
        _log.warning(
            "device=%s, but FAISS finds no GPU (faiss-gpu, and a GPU of this process): "
            "the dense index is on the CPU",
            device,
        )
    return found


def to_gpu(index: faiss.Index, number: int) -> faiss.Index:
    """Copy an index to a GPU; lists that are probed go with it, 2048 at most."""
    options = faiss.GpuClonerOptions()
    if isinstance(index, faiss.IndexIVF):
        index.nprobe = min(index.nprobe, MAX_DEPTH)
    if isinstance(index, faiss.IndexIVFPQ):
        # The tables of longer codes fit a block's shared memory (48 KiB) as float16 only.
        options.useFloat16 = index.pq.M > _SHARED_TABLE_CODES
    return faiss.index_cpu_to_gpu(_resources(number), number, index, options)


def to_cpu(index: faiss.Index) -> faiss.Index:
    """Copy an index back, as it is written to disk."""
    return faiss.index_gpu_to_cpu(index)


@functools.cache
def _resources(number: int) -> Any:
    """The scratch memory of a GPU, shared by all indexes on it; the models beside need the rest."""
    resources = faiss.StandardGpuResources()
    resources.setTempMemory(_TEMPORARY_BYTES)
    return resources
