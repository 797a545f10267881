"""`srrag forget root=… doc_id=…`: remove documents, and every trace of them."""

from __future__ import annotations

from typing import Any

from srrag.config import factory
from srrag.core.errors import UsageError
from srrag.core.formats import read_ids
from srrag.runner.deletion.delete import ForgetJob
from srrag.runner.deletion.tombstones import Tombstones
from srrag.runner.deletion.vacuum import prune
from srrag.runner.progress import say
from srrag.storage.store import Store


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Forget documents, finish a killed deletion, or undo one."""
    store = Store(config["root"])
    store.check()
    documents, sources = (read_ids(config[key], key) for key in ("doc_id", "source_id"))
    begun = (store.root / "forgetting.json").exists()
    if not (documents or sources or begun or config["prune"]):
        raise UsageError("doc_id or source_id: name what to forget")
    if config["undo"]:
        with store.lock():
            found = Tombstones.of(store.root).take_back(documents, sources)
        return {"taken_back": found}
    summary: dict[str, Any] = {}
    if documents or sources or begun:
        engine = factory.make(config["engine"], "engine")
        job = ForgetJob(store, factory.runner(config), engine)
        summary = job.run(documents, sources, factory.place(config))
        say(f"forgotten: documents {summary['documents']}, completions {summary['completions']}")
    if config["prune"]:
        with store.lock(), store.whole():
            summary["pruned"] = prune(store)
    return summary
