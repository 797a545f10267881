"""`srrag forget root=… doc_id=…`: remove documents, and every trace of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from srrag.config import factory
from srrag.errors import UsageError
from srrag.runner.deletion.delete import ForgetJob
from srrag.runner.deletion.tombstones import Tombstones
from srrag.runner.deletion.vacuum import prune
from srrag.runner.progress import say
from srrag.storage.store import Store


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Forget documents, finish a killed deletion, or undo one."""
    store = Store(config["root"])
    store.check()
    documents, sources = (names(config[key], key) for key in ("doc_id", "source_id"))
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
        say(f"{summary['documents']} documents and {summary['completions']} completions forgotten")
    if config["prune"]:
        with store.lock(), store.whole():
            summary["pruned"] = prune(store)
    return summary


def names(value: Any, key: str) -> list[str]:
    """Parse ids: one id, a list, or @FILE with one id a line."""
    if value is None:
        return []
    given = value if isinstance(value, list) and value else [value]
    if any(isinstance(item, bool) or not isinstance(item, (str, int)) for item in given):
        raise UsageError(f"{key}={value}: ids are texts; put quotes around them")
    if str(given[0]).startswith("@"):
        try:
            given = Path(str(given[0])[1:]).read_text("utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{key}={value}: {error}") from error
    return [str(item).strip() for item in given if str(item).strip()]


if __name__ == "__main__":
    from srrag.config.run_job import launch

    sys.exit(launch("forget", run, sys.argv[1:]))
