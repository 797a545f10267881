"""Search the tables, indexes, logs and outputs of a root for ids, and for the prompts of rows."""

from __future__ import annotations

import base64
import binascii
import contextlib
import mmap
import re
import tempfile
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.core.errors import UsageError
from srrag.core.spec import build, spec
from srrag.core.stage import Stage
from srrag.core.step import Build, LLMStep, OpenedLLMStep, Place
from srrag.engine.base import Call, Model, Reply, key_of
from srrag.engine.client import LogClient
from srrag.engine.log.completion_log import CompletionLog
from srrag.engine.log.entry import journal_file, list_log
from srrag.engine.log.journal import read_journal
from srrag.llm.completion import Client, Completion, Engine, Prompt
from srrag.runner.deletion.tombstones import Tombstones, mark
from srrag.runner.engines import engines_of
from srrag.runner.part import live
from srrag.runner.verify import unexplained
from srrag.storage.atomic_write import read_json, read_object
from srrag.storage.mirror import trash_below
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


_ID_CHARS = 32
_ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
_PACKED = re.compile(rb">([A-Za-z0-9+/]{16,}={0,2})<")
_OURS = ("forgotten.json", "forgotten.copy.json", "forgetting.json", ".lock")

Wanted = Callable[[str], bool]


def traces_of(store: Store, document: str, log: Path) -> list[str]:
    """List the traces of a document, one line a file: its id, units and completions.

    An index that cannot be searched is traced to the parts it was made of. Rows of outputs need not
    hold any id, so every output must be newer than the deletion.
    """
    known = Tombstones.of(store.root)
    forgotten = known.documents.get(mark(document), {})
    marks = {mark(document), *forgotten.get("units", [])}
    problems = [
        f"{path} holds {document} or a unit of it"
        for path in holding([store.root, log], lambda name: mark(name) in marks, document)
    ]
    if (store.root / "forgetting.json").exists():
        problems.append("an interrupted forgetting is not finished: run `srrag forget root=…`")
    keys = [bytes.fromhex(key) for key in forgotten.get("keys", [])]
    if keys and log.exists() and (left := set(CompletionLog(log).lookup(keys))):
        # Another document with the same text has the same prompts.
        left -= set().union(*asked_keys(store, log).values())
        if left:
            problems.append(f"{log} holds {len(left)} answers to prompts with its text")
    before = [path for path in shown(store.root / "jobs") if path.stat().st_mtime < known.at_s]
    problems += [f"{path} is of before the forgetting and may show what it held" for path in before]
    return problems + list(unaccounted(store)) + list(_unexplained(store, known.at_s))


def _unexplained(store: Store, at_s: float) -> Iterator[str]:
    """Yield unexplained files of stages, builds and jobs, and others older than `at_s`."""
    trash = (path for folder in trash_below(store.root) for path in folder.rglob("*"))
    for path in sorted({*unexplained(store), *trash}):
        ours = path.relative_to(store.root).parts[0] in ("stages", "builds", "jobs")
        if path.is_file() and (ours or path.stat().st_mtime < at_s):
            yield f"{path}: no pointer, manifest or receipt explains it; it may hold anything"


def shown(output: Path) -> Iterator[Path]:
    """Yield the files of an output that hold more than figures, such as exports and logs."""
    for path in sorted([output, *output.rglob("*")]):
        if path.is_file() and path.name not in ("summary.json", ".lock"):
            yield path


def holding(folders: Collection[Path], wanted: Wanted, text: str = "") -> Iterator[Path]:
    """Yield the files below folders that hold a wanted id or a text."""
    files = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    for path in sorted(files):
        if path.name not in _OURS and _holds(path, wanted, text):
            yield path


def _holds(path: Path, wanted: Wanted, text: str) -> bool:
    try:
        if path.suffix == ".parquet":
            file = pq.ParquetFile(path)
            names = [f.name for f in file.schema_arrow if not _is_binary(f.type)]
            batches = file.iter_batches(1 << 14, columns=names)
            return any(_in_table(batch, wanted, text) for batch in batches)
        if path.suffix == ".arrow":
            with pa.memory_map(str(path)) as source:
                reader = pa.ipc.open_file(source)
                batches = map(reader.get_batch, range(reader.num_record_batches))
                return any(_in_table(batch, wanted, text) for batch in batches)
    except pa.ArrowInvalid:
        pass  # such as a half-written file: search its bytes instead
    if not path.stat().st_size:
        return False
    with path.open("rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(_in_bytes(each, wanted, text) for each in _readable(path, content))


def _in_bytes(content: bytes | mmap.mmap, wanted: Wanted, text: str) -> bool:
    if text and content.find(text.encode()) >= 0:
        return True
    return any(wanted(match[0].decode()) for match in _ID.finditer(content))


def _readable(path: Path, content: mmap.mmap) -> Iterator[bytes | mmap.mmap]:
    """Yield the bytes of a file, and the unpacked contents of workbooks and reports."""
    yield content
    if path.suffix == ".xlsx" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            yield from map(file.read, file.namelist())
    if path.suffix == ".html":
        for match in _PACKED.finditer(content):
            with contextlib.suppress(zlib.error, binascii.Error):
                yield zlib.decompress(base64.b64decode(match[1]), -zlib.MAX_WBITS)


def _in_table(batch: pa.RecordBatch, wanted: Wanted, text: str) -> bool:
    return any(_in_column(leaf, wanted, text) for c in batch.columns for leaf in _leaves(c))


def _in_column(values: pa.Array, wanted: Wanted, text: str) -> bool:
    if text and pc.any(pc.match_substring(values, text)).as_py():
        return True
    ids = pc.unique(values.filter(pc.equal(pc.binary_length(values), _ID_CHARS)))
    return any(map(wanted, ids.to_pylist()))


def _leaves(column: Any) -> Iterator[pa.Array]:
    """Yield the string columns nested in a column."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield column
    elif pa.types.is_dictionary(kind):
        yield from _leaves(column.dictionary)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(column.flatten())
    elif pa.types.is_struct(kind):
        for part in column.flatten():
            yield from _leaves(part)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def unaccounted(store: Store) -> Iterator[str]:
    """Yield a line for each build that was made from other parts or files than the current ones."""
    stages = store.root / "stages"
    standing: set[str] = set()
    for receipt in stages.glob("*/*/part-*.json"):
        standing.add(read_object(receipt).get("sha256", ""))
    manifests = {path: read_object(path) for path in sorted(stages.glob("*/*/manifest.json"))}
    for manifest in manifests.values():
        standing.update(manifest.get("files", {}).values())
    for path, manifest in manifests.items():
        if "files" not in manifest:
            continue
        made_of = {sha for part in manifest.get("contents", {}).values() for sha in part.values()}
        if not made_of or not made_of <= standing:
            yield f"{path.parent} was built from parts that do not stand"


def prove_forgotten(store: Store, documents: Sequence[str], log: Path) -> list[str]:
    """List the traces left of documents.

    Only a deletion records the tombstones by which units and prompts are found. Raises UsageError
    for an empty list, and if a document has no tombstone while no trace is left.
    """
    if not documents:
        raise UsageError("forgotten= is empty: name a doc_id")
    traces = [trace for document in documents for trace in traces_of(store, document, log)]
    known = Tombstones.of(store.root)
    never = [document for document in documents if not known.has(document)]
    if never and not traces:
        raise UsageError(f"forgotten={never[0]}: no document of this doc_id was forgotten here")
    return traces
