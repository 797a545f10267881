"""The settings of a root since its start: the embedder of all its commands, and whether a build has
a graph.

The arithmetic of vectors is part of an index's identity, so it cannot follow the machine that a
command happens to run on. `srrag init` writes it into the root's marker.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from srrag.storage.atomic_write import read_json
from srrag.storage.store import Store

EMBEDDERS = {"float32": "minilm", "bfloat16": "minilm_bf16", "int8": "minilm_int8"}
"""The arithmetics of the packaged model, and the files of conf/embedder that have them."""

_BACKENDS = {"torch": "minilm", "torch-bf16": "minilm_bf16", "torch-int8": "minilm_int8"}


def settled_embedder(root: Path) -> str | None:
    """The embedder that was settled for a root; None where `srrag init` settled none.

    Where the marker is damaged or missing, the one that a finished build encoded with.
    """
    try:
        found = Store(root).settled().get("embedder")
    except (OSError, ValueError):
        found = built_embedder(root)
    return found if found in EMBEDDERS.values() else None


def built_embedder(root: Path) -> str | None:
    """The arithmetic of a finished build's vectors, if they are the packaged model's."""
    store = Store(root)
    for name in store.builds():
        with suppress(OSError, ValueError, LookupError, TypeError):
            entry = read_json(store.pointer_path(name))["stages"]["vectors"]
            folder = store.stage_dir("vectors", entry["fingerprint"])
            spec = read_json(folder / "manifest.json")["spec"]
            encoder = spec.get("encoder", {})  # a specification leaves out what is the default
            ours = encoder.get("model", "minilm") == "minilm"
            if spec["_target_"] == "EncodeWindows" and ours:
                return _BACKENDS.get(encoder.get("backend", "torch"))
    return None


def keeps_graph(root: Path, build: str) -> bool:
    """Whether a build has a graph, and so an update that names no plan makes it anew."""
    store = Store(root)
    try:
        return "entities" in store.read_pointer(build)["stages"]
    except (OSError, ValueError):  # no such build, or a damaged one, whose graph repair brings back
        return store.pointer_path(build).exists() and (root / "stages" / "entities").is_dir()
