"""`srrag init root=R`: choices beside a root, and the arithmetic of its vectors."""

from __future__ import annotations

from typing import Any

from srrag.config.words import choices_file, choose, read_choices
from srrag.core.errors import UsageError
from srrag.runner.pipeline_run import EMBEDDERS, built_embedder, settled_embedder
from srrag.runner.progress import say
from srrag.storage.store import Store


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Write choices beside the root; settle a new one's arithmetic, the named or the fast one.

    A root that is built keeps the arithmetic that it has.
    """
    from srrag.model import linear  # imports torch

    store, asked = Store(config["root"]), config["arithmetic"]
    if asked not in ("auto", *EMBEDDERS):
        raise UsageError(f"arithmetic={asked}: auto, {', '.join(EMBEDDERS)}")
    chosen = {key: value for key, value in config["choose"].items() if value is not None}
    if chosen or choices_file(config["root"]):
        kept = choose(config["root"], chosen)
        held = ", ".join(f"{key}: {value}" for key, value in read_choices(kept).items())
        say(f"{kept}: {held or 'takes model, pipeline and other keys of all jobs here'}")
    store.create()
    with store.lock():
        begun = any((store.root / name).exists() for name in ("stages", "builds"))
        stands = settled_embedder(store.root) or (built_embedder(store.root) if begun else None)
        if (stands or begun) and asked != "auto" and EMBEDDERS[asked] != stands:
            has = f"has embedder={stands}" if stands else "was begun with another embedder"
            raise UsageError(f"root={store} {has}; another needs another root")
        if begun:
            say(f"root={store} is begun and stays as it is" + f", {stands}" * bool(stands))
            return {"root": str(store), "embedder": stands or "", "texts_per_cpu_s": {}}
        measured = linear.rates()
        name = stands or EMBEDDERS[linear.chosen(measured) if asked == "auto" else asked]
        if not stands:
            store.write_marker({"embedder": name, "texts_per_cpu_s": measured})
    say(f"here {linear.priced(measured)}; root={store} has embedder={name}")
    return {"root": str(store), "embedder": name, "texts_per_cpu_s": measured}
