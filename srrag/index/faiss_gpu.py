"""FAISS on GPUs, if the place has GPUs and the installed FAISS supports them."""

from __future__ import annotations

import functools
import logging
from typing import Any

import faiss

MAX_DEPTH = 2048
"""Maximum of hits and of probed lists of a search: the limit of FAISS's GPU kernels."""

_TEMPORARY_BYTES = 256 * 2**20
_SHARED_TABLE_CODES = 48
_log = logging.getLogger(__name__)


@functools.cache
def gpus(device: str) -> int:
    """Return how many GPUs FAISS may use; warns once if the device is a GPU and there is none."""
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
    """Copy an index to a GPU with its number of probed lists, capped at 2048."""
    options = faiss.GpuClonerOptions()
    if isinstance(index, faiss.IndexIVF):
        index.nprobe = min(index.nprobe, MAX_DEPTH)
    if isinstance(index, faiss.IndexIVFPQ):
        # Tables of longer codes fit a block's shared memory (48 KiB) only as float16.
        options.useFloat16 = index.pq.M > _SHARED_TABLE_CODES
    return faiss.index_cpu_to_gpu(_resources(number), number, index, options)


def to_cpu(index: faiss.Index) -> faiss.Index:
    """Copy an index back to the CPU, to write it to disk."""
    return faiss.index_gpu_to_cpu(index)


@functools.cache
def _resources(number: int) -> Any:
    """Return the scratch memory of a GPU, shared by all its indexes; the models need the rest."""
    resources = faiss.StandardGpuResources()
    resources.setTempMemory(_TEMPORARY_BYTES)
    return resources
