"""`srrag doctor`: is this machine, or the cluster of the profile, ready?"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jobs import doctor_cluster
from srrag.config import factory
from srrag.runner.progress import say
from srrag.spec import build
from srrag.storage import mirror
from srrag.storage.atomic_write import commit_json, read_json

_EXTRAS = {"pdf": "docling", "vllm": "vllm", "wandb": "wandb"}
_MIN_FREE_GB = 5.0


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Check Python, packages, the model, the profile's device, memory and disk."""
    probes: dict[str, Callable[[], str]] = {
        "python": _python,
        "packages": _packages,
        "model": lambda: _model(config),
        "device": lambda: _device(config["profile"]),
        "faiss": lambda: _faiss(config["profile"]),
        "cpus": lambda: _cpus(config),
        "disk": lambda: _disk(Path(config["root"])),
        **doctor_cluster.probes(config),
    }
    checks = [{"check": name, **_outcome(probe)} for name, probe in probes.items()]
    for check in checks:
        say(f"{'ok  ' if check['ok'] else 'FAIL'} {check['check']:<10} {check['detail']}")
    extras = {
        name: importlib.util.find_spec(package) is not None for name, package in _EXTRAS.items()
    }
    say("     extras     " + ", ".join(f"{k}: {'yes' if v else 'no'}" for k, v in extras.items()))
    return {"ok": all(check["ok"] for check in checks), "checks": checks, "extras": extras}


def _outcome(check: Callable[[], str]) -> dict[str, Any]:
    try:
        return {"ok": True, "detail": check()}
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        return {"ok": False, "detail": " ".join(str(error).split())}


def _python() -> str:
    if sys.version_info[:2] != (3, 11):
        raise ValueError(f"Python {sys.version.split()[0]}; 3.11 is what the pins are tested with")
    return sys.version.split()[0]


def _packages() -> str:
    names = ("ray", "torch", "transformers", "sentence-transformers", "pyarrow")
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def _model(config: dict[str, Any]) -> str:
    from srrag.model.embed import load

    encoder = build(config["embedder"])
    model = load(encoder, device="cpu", threads=1)
    vectors = model.encode(["ankle sprain", "sprained ankle", "tax law"])
    near, far = float(vectors[0] @ vectors[1]), float(vectors[0] @ vectors[2])
    if not near > far:
        raise ValueError(f"{encoder.model}: similar texts are not nearer ({near:.2f}, {far:.2f})")
    return f"{encoder.model}: {vectors.shape[1]} dimensions, similar {near:.2f} > unlike {far:.2f}"


def _device(profile: Mapping[str, Any]) -> str:
    import torch

    device = profile["device"]
    if device == "cpu":
        return "cpu"
    if profile["runner"].get("address", "local") != "local":
        return f"{device}, on the nodes of the cluster"
    if not torch.cuda.is_available():
        raise ValueError(f"profile asks for {device}, but there is no GPU that torch can use")
    return f"{torch.cuda.get_device_name(0)}, {torch.cuda.device_count()} of them"


def _faiss(profile: Mapping[str, Any]) -> str:
    import faiss

    version = f"faiss {faiss.__version__}"
    if profile["device"] == "cpu" or profile["runner"].get("address", "local") != "local":
        return version
    if not (found := faiss.get_num_gpus()):
        raise ValueError(
            f"{version} finds no GPU, so the dense index would be on the CPU; "
            f"install faiss-gpu=={faiss.__version__} in place of faiss-cpu"
        )
    return f"{version}, {found} GPUs"


def _cpus(config: dict[str, Any]) -> str:
    asked = sum(
        factory.resources(config, name).cpus
        for name in ("parsed", "documents", "chunks", "windows", "triples", "vectors")
    )
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    hint = "; bf16 instructions: embedder=minilm_bf16 is faster here" if has_bf16() else ""
    return f"{os.cpu_count()} cores, {memory_gb:.0f} GB; one worker a stage takes {asked:g}{hint}"


def has_bf16() -> bool:
    """Whether this CPU multiplies bfloat16 matrices natively (Linux on x86 says so)."""
    path = Path("/proc/cpuinfo")
    flags = set(path.read_text().split()) if path.exists() else set()
    return bool(flags & {"avx512_bf16", "amx_bf16"})


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


if __name__ == "__main__":
    from srrag.config.run_job import launch

    sys.exit(launch("doctor", run, sys.argv[1:]))
