"""`srrag init root=R`: a new root, and the arithmetic that its texts are encoded in."""

from __future__ import annotations

from typing import Any

from srrag.config.words import choose, read_choices
from srrag.core.errors import UsageError
from srrag.runner.progress import say
from srrag.runner.settled import EMBEDDERS, settled_embedder
from srrag.storage.store import Store


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Measure each arithmetic here; write bfloat16 or float32, or the named one, into the root."""
    from srrag.model import arithmetic  # imports torch

    store, asked = Store(config["root"]), config["arithmetic"]
    if asked not in ("auto", *EMBEDDERS):
        raise UsageError(f"arithmetic={asked}: auto, {', '.join(EMBEDDERS)}")
    if chosen := {key: value for key, value in config["choose"].items() if value is not None}:
        kept = choose(config["root"], chosen)
        say(f"{kept}: " + ", ".join(f"{key}: {value}" for key, value in read_choices(kept).items()))
    store.create()
    with store.lock():
        stands = settled_embedder(store.root)
        if any((store.root / name).exists() for name in ("stages", "builds")):
            if chosen and asked == "auto":  # no arithmetic is asked for, and none can change
                return {"root": str(store), "embedder": stands or "", "texts_per_cpu_s": {}}
            if stands is None:
                raise UsageError(f"root={store} was begun without `srrag init` and stays as it is")
        if stands and asked != "auto" and EMBEDDERS[asked] != stands:
            raise UsageError(f"root={store} has embedder={stands}; another needs another root")
        measured = arithmetic.rates()
        name = stands or EMBEDDERS[arithmetic.chosen(measured) if asked == "auto" else asked]
        if not stands:
            store.write_marker({"embedder": name, "texts_per_cpu_s": measured})
    say(f"here {arithmetic.priced(measured)}; root={store} has embedder={name}")
    return {"root": str(store), "embedder": name, "texts_per_cpu_s": measured}
