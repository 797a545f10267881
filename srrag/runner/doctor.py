"""Is this machine ready: Python, packages, model, device, memory and disk?

A probe returns what it found in one line, or raises ValueError, OSError, RuntimeError or
ImportError with what is missing.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from srrag.core.step import usable_cpus
from srrag.runner.summary import summarise
from srrag.storage import mirror
from srrag.storage.atomic_write import commit_json, read_json
from srrag.storage.store import Store

Probe = Callable[[], str]

_EXTRAS = {"pdf": "docling", "vllm": "vllm", "wandb": "wandb"}
_MIN_FREE_GB = 5.0
PACKAGES = ("srrag", "ray", "torch", "transformers", "sentence-transformers", "pyarrow", "numpy")
"""What shapes the output of a build, and has to be the same on all nodes of a cluster."""


def probes(
    model: Probe, root: Path, *, device: str, on_cluster: bool, cpus: float
) -> dict[str, Probe]:
    """Return the probes of this machine.

    `model` probes the encoder; `cpus` is what one worker of every stage takes together.
    `on_cluster` says that the device is on the nodes of a cluster, and so not checked here.
    """
    return {
        "python": platform.python_version,
        "packages": lambda: ", ".join(f"{k} {v}" for k, v in installed(PACKAGES).items()),
        "model": model,
        "device": lambda: _device(device, on_cluster),
        "faiss": lambda: _faiss(device, on_cluster),
        "cpus": lambda: _cpus(cpus),
        "disk": lambda: _disk(root),
    }


def extras() -> dict[str, bool]:
    """Whether each optional package is installed."""
    return {name: importlib.util.find_spec(each) is not None for name, each in _EXTRAS.items()}


def outcome(check: Probe) -> dict[str, Any]:
    """Run a probe: whether it passes, and its message."""
    try:
        return {"ok": True, "detail": check()}
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        return {"ok": False, "detail": " ".join(str(error).split())}


def packages() -> dict[str, str]:
    """The versions of Python, the platform, srrag and what is installed of all it can use."""
    here = {"python": platform.python_version(), "platform": platform.platform()}
    asked = importlib.metadata.requires("srrag") or []
    names = sorted({re.split(r"[^\w.-]", each, maxsplit=1)[0] for each in asked})
    return here | installed(("srrag", *names))


def installed(names: Iterable[str]) -> dict[str, str]:
    """The versions of those of some packages that are installed."""
    found = {}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def build(store: Store, name: str) -> dict[str, Any]:
    """What made a build and what its stages count, without a word of its papers; {} for none."""
    if not store.pointer_path(name).exists():
        return {}
    told = {key: value for key, value in summarise(store, name).items() if key != "root"}
    return {**told, "versions": store.read_pointer(name)["versions"]}


def _device(device: str, on_cluster: bool) -> str:
    import torch

    if device == "cpu":
        return "cpu"
    if on_cluster:
        return f"{device}, on the nodes of the cluster"
    if not torch.cuda.is_available():
        raise ValueError(f"profile asks for {device}, but there is no GPU that torch can use")
    return f"{torch.cuda.get_device_name(0)}, {torch.cuda.device_count()} of them"


def _faiss(device: str, on_cluster: bool) -> str:
    import faiss

    version = f"faiss {faiss.__version__}"
    if device == "cpu" or on_cluster:
        return version
    if not (found := faiss.get_num_gpus()):
        raise ValueError(
            f"{version} finds no GPU, so the dense index would be on the CPU; "
            f"install faiss-gpu=={faiss.__version__} in place of faiss-cpu"
        )
    return f"{version}, {found} GPUs"


def _cpus(asked: float) -> str:
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = f"{usable_cpus()} of {os.cpu_count()} cores"
    return f"{cores}, {memory_gb:.0f} GB; one worker a stage takes {asked:g}"


def _disk(root: Path) -> str:
    if mirror.store_at(root):
        probe = root / f".doctor-{uuid.uuid4().hex}"
        commit_json(probe, {})
        try:
            read_json(probe)
        finally:
            mirror.remove(probe)
        return f"{mirror.shown(root)} is written and read; here {_free(root)} stands for it"
    return _free(root)


def _free(root: Path) -> str:
    there = next(path for path in (root.absolute(), *root.absolute().parents) if path.exists())
    free_gb = shutil.disk_usage(there).free / 2**30
    if free_gb < _MIN_FREE_GB:
        raise ValueError(f"{there} has {free_gb:.1f} GB free; {_MIN_FREE_GB:g} GB is the least")
    if not os.access(there, os.W_OK):
        raise ValueError(f"{there} cannot be written")
    return f"{there}: {free_gb:.0f} GB free"
