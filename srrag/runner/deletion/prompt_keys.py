"""Find the completions behind the rows of a root by rendering the prompts again, without calls."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from srrag.core.spec import build, spec
from srrag.core.stage import Stage
from srrag.core.step import Build, LLMStep, OpenedLLMStep, Place
from srrag.engine.base import Call, Model, Reply, key_of
from srrag.engine.client import LogClient
from srrag.engine.log.entry import journal_file, list_log
from srrag.engine.log.journal import read_journal
from srrag.llm.completion import Client, Completion, Engine, Prompt
from srrag.runner.engines import engines_of
from srrag.runner.part import live
from srrag.storage.atomic_write import read_json
from srrag.storage.store import Store

_ROWS = 512


def asked_keys(
    store: Store, log: Path, select: Callable[[pa.Table], pa.Table] = live
) -> dict[str, set[bytes]]:
    """Return the prompt keys of all existing rows, by document.

    It covers every configuration that this version of the code and prompts can render. `select`
    chooses rows of a part.
    """
    found: defaultdict[str, set[bytes]] = defaultdict(set)
    for step, engine, inputs in _asking(store):
        recorder = _Recorder(engine, log, _never, keys=found)
        asking = OpenedLLMStep(step, recorder)
        for name in inputs:
            for path in sorted((store.root / "stages" / name).glob("*/part-*.parquet")):
                table = pq.read_table(path, memory_map=True, partitioning=None)
                _ask(asking, recorder, live(select(table)))
    return found


def keys_of_build(stage: Stage, inputs: Mapping[str, Sequence[Path]], log: Path) -> set[bytes]:
    """Return the keys of a build's prompts, by running the build in a temporary folder."""
    found: defaultdict[str, set[bytes]] = defaultdict(set)
    assert isinstance(stage.run, Build)
    models = engines_of([stage.run])
    if models:
        clients: dict[Engine, Client] = {
            model: _Recorder(model, log, _never, keys=found) for model in models
        }
        with tempfile.TemporaryDirectory() as out:
            stage.run.build(inputs, Path(out), Place(clients=clients))
    return set().union(*found.values())


def logged_keys(log: Path) -> set[bytes]:
    """Return every key in a log."""
    listing = list_log(log)
    keys: set[bytes] = set()
    for file in listing.files():
        keys.update(pq.read_table(log / file, columns=["key"])["key"].to_pylist())
    for name in listing.journals:
        keys.update(entry.key for entry in read_journal(log / journal_file(name))[0])
    return keys


def _asking(store: Store) -> Iterator[tuple[LLMStep, Model, list[str]]]:
    """Yield each step that asks a model once, with the model and the names of its inputs."""
    seen = []
    for path in sorted((store.root / "stages").glob("*/*/manifest.json")):
        manifest = read_json(path)
        made_by = (manifest["spec"], manifest["identity"], manifest["inputs"])
        if "files" in manifest or made_by in seen:
            continue
        seen.append(made_by)
        try:
            step = build(manifest["spec"])
            same = (spec(step), step.identity()) == made_by[:2]
        except (ValueError, TypeError):
            continue
        if same and isinstance(step, LLMStep) and isinstance(step.engine, Model):
            yield step, step.engine, manifest["inputs"]


def _ask(asking: OpenedLLMStep, recorder: _Recorder, rows: pa.Table) -> None:
    owner = "doc_id" if "doc_id" in rows.column_names else "raw_id"
    for start in range(0, rows.num_rows, _ROWS):
        batch = rows.slice(start, _ROWS)
        recorder.owners = batch[owner].to_pylist()
        asking.answer(batch, asking.step.prompts(batch))


def _never(calls: Sequence[Call]) -> list[Reply]:
    assert not calls, "what is only recorded is never called for"
    return []


@dataclass
class _Recorder(LogClient):
    """Answers only from the log, and records each key by the document of its row, if any."""

    keys: dict[str, set[bytes]] = field(default_factory=dict)
    owners: list[str] = field(default_factory=list)

    def complete(
        self, prompts: Sequence[Prompt], attempt: int, may_call: Sequence[bool]
    ) -> list[Completion]:
        """Answer the prompts that are in the log."""
        for prompt in prompts:
            owner = self.owners[prompt.row] if self.owners else ""
            self.keys[owner].add(key_of(self.engine, prompt, attempt))
        return super().complete(prompts, attempt, [False] * len(prompts))
