"""What the engine of `srrag doctor` would cost in a root: a question to it, and a build of it."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from srrag.config import factory
from srrag.config.compose import configure
from srrag.corpus.record import RawRecord
from srrag.engine.base import Model
from srrag.lab.experiment.estimate import estimate
from srrag.retrieve.questions import question_table
from srrag.runner.doctor import outcome
from srrag.runner.estimate import EstimateJob
from srrag.storage.store import Store

SAMPLE = 20
"""Documents whose prompts are rendered for a price."""


def prices(config: dict[str, Any]) -> list[dict[str, Any]]:
    """What a question to the build of a root, and a build of its documents, would take.

    Nothing of rules, which cost nothing, and of files of a batch, which are asked nothing now.
    """
    engine, store = factory.make(config["engine"], "engine"), Store(config["root"])
    asks = isinstance(engine, Model) and not engine.deferred
    if not asks or not store.pointer_path(config["build"]).exists():
        return []
    priced = {"question": of_question, "build": of_build}
    return [{"check": n, **outcome(partial(p, config))} for n, p in priced.items()]


def of_question(config: dict[str, Any]) -> str:
    """What one question to the build would take."""
    with redirect_stderr(io.StringIO()):
        told = _composed("answer", config, "queries=none")
        bound = factory.pipeline_run(told, factory.answering(told))
        asked = question_table([{"query_id": "q", "text": _sample(config)[1]}])
        found = estimate({"answers": bound}, asked, factory.place(told))
    calls, tokens_in, tokens_out, usd = (
        found[name] and found[name]["value"] for name in ("calls", "tokens_in", "tokens_out", "usd")
    )
    return f"{calls:.0f} calls, {_cost(tokens_in, tokens_out, usd)}"


def of_build(config: dict[str, Any]) -> str:
    """What a whole build of the root's documents would take, by those of a sample.

    What the root's log answers is not left out: it holds the first documents before any other.
    """
    sample, _, total = _sample(config)
    with redirect_stderr(io.StringIO()), TemporaryDirectory() as empty:
        told = _composed("build", config)
        reader = factory.make(told["corpus"], "corpus")
        job = EstimateJob(Store(empty), factory.plan(told, reader))
        at = factory.place(told)
        unanswered = replace(at.account, log=Path(empty) / "completions")
        found = job.run(sample, replace(at, account=unanswered))
    times = total / len(sample)
    usd = None if found["usd"] is None else found["usd"] * times
    cost = _cost(found["tokens_in"] * times, found["tokens_out"] * times, usd)
    return f"{total:,} documents, of which {len(sample)} were rendered: {cost}"


def _composed(job: str, config: dict[str, Any], *more: str) -> dict[str, Any]:
    """Another job's configuration for the same root and engine; tokens are counted somehow."""
    given = [each for each in config["overrides"] if each.startswith(("engine", "root=", "build="))]
    counted = config["engine"].get("tokenizer") or "folder" in config["engine"]
    return configure(job, [*given, *([] if counted else ["engine.tokenizer=utf8"]), *more])


def _sample(config: dict[str, Any]) -> tuple[list[RawRecord], str, int]:
    """Some documents of the root, a question on one of them, and the number of all."""
    store = Store(config["root"])
    stages = store.read_pointer(config["build"])["stages"]
    raw, documents = (_rows(store, name, stages[name]) for name in ("raw", "documents"))
    total = sum(
        store.read_receipt("raw", stages["raw"]["fingerprint"], part).rows_out
        for part in stages["raw"]["parts"]
    )
    names = ("source", "source_id", "format", "body")
    records = [RawRecord(**{name: row[name] for name in names}) for row in raw]
    title = next((row["title"] for row in documents if row["title"]), "the treatment")
    return records, f"What is known about {title}?"[:300], total


def _rows(store: Store, name: str, stage: dict[str, Any]) -> list[dict[str, Any]]:
    """The first SAMPLE rows of a stage."""
    rows: list[dict[str, Any]] = []
    for part in stage["parts"]:
        table = store.read_part(name, stage["fingerprint"], part)
        rows += table.slice(0, SAMPLE - len(rows)).to_pylist()
        if len(rows) >= SAMPLE:
            break
    return rows


def _cost(tokens_in: float, tokens_out: float, usd: float | None) -> str:
    unknown = "no price known (engine.usd_per_mtok_in, _out)"
    price = unknown if usd is None else f"{usd:,.4f} USD"
    return f"about {tokens_in:,.0f} tokens in, {tokens_out:,.0f} out, {price}"
