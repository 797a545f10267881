"""Forget documents: rewrite the parts that hold them, rebuild indexes, delete the old files.

A note, `forgetting.json`, is written before the first change and deleted last. After a kill, the
same command continues; until then `verify` reports that the deletion is unfinished.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.core.spec import build, question_id, spec
from srrag.core.stage import Plan, Resources, Stage
from srrag.core.step import Place
from srrag.engine.base import Model
from srrag.engine.log.completion_log import CompletionLog
from srrag.llm.completion import Engine
from srrag.runner.deletion.find_ids import Wanted, asked_keys, holding, keys_of_build, logged_keys
from srrag.runner.deletion.tombstones import Tombstones, mark
from srrag.runner.deletion.vacuum import (
    drop_builds,
    drop_outputs,
    drop_part,
    drop_unexplained,
    drop_unfinished,
)
from srrag.runner.engines import engines_of, log_folder
from srrag.runner.ingest import derive_part, of_documents, units_of
from srrag.runner.pipeline_run import FOLDER, SOURCE
from srrag.runner.progress import say
from srrag.runner.relation_builds import RelationBuilds
from srrag.runner.runner import Runner
from srrag.storage import mirror
from srrag.storage.atomic_write import commit_json, read_json
from srrag.storage.store import Store

_TELLING_CHARS = 6
"""Names of documents shorter than this also occur in texts that do not mean the document."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """The record of a deletion in progress: the `sources` as given, and the `parts` to rewrite.

    `documents` maps each document to its `sources`, the `keys` of its prompts, and its `units`,
    with the ids of the questions that a benchmark derived from them.
    """

    documents: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    def joined(self, former: Note) -> Note:
        """Merge with the note of a killed run, which saw files that are gone by now."""
        return Note(
            documents=self.documents | former.documents,
            sources=sorted({*self.sources, *former.sources}),
            parts=sorted({*self.parts, *former.parts}),
        )


@dataclass(frozen=True)
class ForgetJob:
    """Removes documents from a root, in all its builds and configurations.

    Rebuilding asks `engine` where a build, such as the tree's descriptions, asks a model. It must
    be the engine that the build names.
    """

    store: Store
    runner: Runner
    engine: Engine | None = None

    def run(self, documents: Sequence[str], sources: Sequence[str], at: Place) -> dict[str, Any]:
        """Forget documents by id or source id; with neither, finish an interrupted deletion.

        Raises ValueError if a document is unknown, or if a build would lose all its documents.
        """
        self.store.check()
        at = dataclasses.replace(at, root=self.store.root)
        with self.store.lock():
            with self.store.whole():
                drop_unfinished(self.store)
                note = self._noted(documents, sources, log_folder(at))
                plans = self._plans(note, at)
                for name, plan in plans.items():
                    self._check(name, plan, note)
                commit_json(self._note, vars(note), sealed=True)
                known = Tombstones.of(self.store.root)
                known.add(note.documents, note.sources)
                for name, plan in plans.items():
                    self._rebuild(name, plan, note, at)
                figures = self._delete(note, known.marks())
                figures["completions"] = self._forget_completions(known.keys(), log_folder(at))
            mirror.remove(self._note)
        for document in sorted(note.documents):  # shown, never stored, for `verify`
            say(f"forgotten: doc_id={document}")
        return {
            "documents": len(note.documents),
            "parts_rewritten": len(note.parts),
            "builds": sorted(plans),
            **figures,
        }

    @property
    def _note(self) -> Path:
        return self.store.root / "forgetting.json"

    def _begun(self) -> Note:
        """Read the note of a killed run; raises ValueError with the remedy if it is damaged."""
        if not self._note.exists():
            return Note()
        try:
            return Note(**read_json(self._note))
        except (ValueError, TypeError) as error:
            cure = "delete it and forget the same documents again"
            raise ValueError(f"{mirror.shown(self._note)} is damaged ({error}); {cure}") from error

    def _noted(self, documents: Sequence[str], sources: Sequence[str], log: Path) -> Note:
        """Find the documents and merge the note of a killed run."""
        begun = self._begun()
        found, parts = self._find(set(documents), set(sources))
        known = Tombstones.of(self.store.root)
        unknown = [name for name in documents if name not in found and not known.has(name)]
        if unknown:
            raise ValueError(f"doc_id={unknown[0]}: no part of {self.store} holds it")
        if sources and not (found or all(map(known.has_source, sources))):
            raise ValueError(f"source_id={sources[0]}: no document in {self.store} has it")
        note = Note(documents=found, sources=sorted(set(sources)), parts=sorted(parts))
        for name, plan in self._plans(note, Place()).items():
            for part in parts & set(self._parts(name)):
                for document, unit in sorted(set(units_of(self.store, plan, part, found))):
                    found[document]["units"] += [unit, question_id(unit)]
        if found and log.exists():
            self._note_keys(found, log)
        return note.joined(begun)

    def _note_keys(self, found: dict[str, dict[str, list[str]]], log: Path) -> None:
        units = [unit for held in found.values() for unit in held["units"]]

        def of_them(table: pa.Table) -> pa.Table:
            return table.filter(of_documents(table, found, units))

        for document, keys in asked_keys(self.store, log, of_them).items():
            found[document]["keys"] += [key.hex() for key in keys]

    def _find(
        self, documents: set[str], sources: set[str]
    ) -> tuple[dict[str, dict[str, list[str]]], set[str]]:
        """Find documents by their raw ids, and the parts that hold them, in every corpus.

        The refusals of their duplicates go with them, in whatever part they are.
        """
        found: dict[str, dict[str, list[str]]] = {}
        parts: set[str] = set()
        named: set[str] = set()
        for part, table in self._raw():
            rows = table.filter(_wanted(table, documents, sources))
            named.update(rows["source_id"].to_pylist())
            _take(found, parts, part, rows)
        if named:
            for part, table in self._raw():
                _take(found, parts, part, table.filter(_refused(table, named)))
        return found, parts

    def _raw(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield each raw part of every corpus, with what tells its documents."""
        columns = ["raw_id", "source", "source_id", "reject"]
        for folder in sorted((self.store.root / "stages" / "raw").glob("*")):
            for part in sorted(self.store.parts("raw", folder.name)):
                yield part, self.store.read_part("raw", folder.name, part, columns, checked=False)

    def _parts(self, name: str) -> list[str]:
        stages = self.store.read_pointer(name)["stages"]
        parts: list[str] = stages["raw"]["parts"]
        return parts

    def _plans(self, note: Note, at: Place) -> dict[str, Plan]:
        """Return the plans of the builds that use a part with one of the documents."""
        touched = [
            name
            for name in self.store.builds()
            if set(self._parts(name)) & set(note.parts) or self._has_past(name)
        ]
        return {name: self._plan(name, at) for name in touched}

    def _has_past(self, name: str) -> bool:
        """Whether a stage continued a previous version, which may have held the document."""
        manifests = (
            self.store.stage_dir(stage, entry["fingerprint"]) / "manifest.json"
            for stage, entry in self.store.read_pointer(name)["stages"].items()
        )
        return any(path.exists() and read_json(path).get("former") for path in manifests)

    def _plan(self, name: str, at: Place) -> Plan:
        """Read the plan of a build from its manifests; raises ValueError if the code differs."""
        stages, source = [], ""
        entries = self.store.read_pointer(name)["stages"]
        for stage, entry in entries.items():
            if not entry.get("inputs"):
                source = stage
                continue
            folder = self.store.stage_dir(stage, entry["fingerprint"])
            run = self._placed(build(read_json(folder / "manifest.json")["spec"]))
            resources = Resources(threads=at.threads)
            stages.append(Stage(stage, run, tuple(entry["inputs"]), resources))
        plan = Plan(source, entries[source]["fingerprint"], stages)
        for item in plan.steps:
            if plan.fingerprint(item.name) != entries[item.name]["fingerprint"]:
                raise ValueError(
                    f"build {name!r}: another version made its stage {item.name}; run `srrag "
                    f"build` again first, or delete {mirror.shown(self.store.pointer_path(name))}"
                )
        return plan

    def _placed(self, run: Any) -> Any:
        """Return a step with the given engine, since manifests omit where an engine runs."""
        own = getattr(run, "engine", None)
        if isinstance(own, Model) and self.engine is not None and spec(own) == spec(self.engine):
            return dataclasses.replace(run, engine=self.engine)
        return run

    def _check(self, name: str, plan: Plan, note: Note) -> None:
        for stage in plan.builds:
            for engine in engines_of([stage.run]):
                if engine != self.engine:
                    raise ValueError(
                        f"build {name!r}: stage {stage.name} asks {engine.name}; give the same "
                        "engine=… settings as its build"
                    )
        documents = set(note.documents)
        source = plan.fingerprint(plan.source)
        for part in self._parts(name):
            ids = self.store.read_part(plan.source, source, part, ["raw_id"])["raw_id"]
            if not documents.issuperset(ids.to_pylist()):
                return
        raise ValueError(f"build {name!r}: nothing would be left; delete {self.store} instead")

    def _rebuild(self, name: str, plan: Plan, note: Note, at: Place) -> None:
        """Derive the parts of a build, rebuild what depends on them, and swap its pointer."""
        parts = []
        for part in self._parts(name):
            kept = (
                derive_part(self.store, plan, part, note.documents) if part in note.parts else part
            )
            parts += [kept] if kept is not None else []
        parts = sorted(set(parts))
        pointer = self.store.read_pointer(name)
        whole = RelationBuilds(self.store, plan, name, self.runner, tuple(parts))
        for stage in plan.builds:
            whole.run(stage, at)
            pointer["stages"][stage.name]["fingerprint"] = plan.fingerprint(stage.name, parts)
        for entry in pointer["stages"].values():
            if "parts" in entry:
                entry["parts"] = parts
        self.store.write_pointer(name, pointer)
        say(f"build {name}: documents taken out: {len(note.documents)}")

    def _delete(self, note: Note, marks: Collection[str]) -> dict[str, Any]:
        """Delete the files that held the documents: old parts, builds, answers, other outputs.

        `marks` are the hashes of ids to look for: those of every forgotten document, so that a run
        that lost the note of a killed run still finds what that one would have deleted. Raw parts
        go last, because documents are found by them.
        """

        def wanted(name: str) -> bool:
            return mark(name) in marks

        folders = sorted(
            (self.store.root / "stages").glob("*/*"), key=lambda folder: folder.parent.name == "raw"
        )
        for part in note.parts:
            for folder in folders:
                drop_part(folder / f"part-{part}.parquet")
        builds = drop_builds(self.store)
        answers = self._answers(note, wanted)
        for path in answers:
            drop_part(path)
        outputs = drop_outputs(self.store.root / "jobs", wanted)
        unexplained = drop_unexplained(self.store)
        return {
            "builds_deleted": builds,
            "answer_parts_deleted": len(answers),
            "outputs_deleted": outputs,
            "unexplained_deleted": len(unexplained),
        }

    def _answers(self, note: Note, wanted: Wanted) -> list[Path]:
        """Find the answer parts that name documents, and all other parts of the same questions.

        A question that retrieved a document, or that quotes its name, reveals it. The parts that
        name the documents come last, so that after a kill a second run finds all the others again.
        """
        stages = self.store.root / "stages"
        folders = [*stages.glob(f"{FOLDER}*"), stages / SOURCE]
        telling = set(holding(folders, wanted))
        called = {name for held in note.documents.values() for name in held["sources"]}
        called = {name for name in {*called, *note.sources} if len(name) >= _TELLING_CHARS}
        asked = (stages / SOURCE).glob("*/part-*.parquet")
        telling |= {path for path in asked if _asks_of(path, called)}
        names = {path.stem for path in telling}
        found = {path for folder in folders for path in folder.glob("*/part-*.parquet")}
        theirs = [path for path in found if path.stem in names]
        return sorted(theirs, key=lambda path: (path in telling, path))

    def _forget_completions(self, prompts: Collection[bytes], log: Path) -> int:
        """Delete the completions of the documents' prompts from the log; returns their number.

        The root's own log keeps only what remaining rows and builds ask for, because nothing tells
        which passages the questions' prompts showed. A log outside the root may serve other roots,
        so only the documents' own prompts are deleted from it.
        """
        if not log.exists():
            return 0
        kept = set().union(self._asked_by_builds(log), *asked_keys(self.store, log).values())
        completions = CompletionLog(log)
        with completions.locked():
            completions.recover()
            own = log.resolve().is_relative_to(self.store.root)
            keys = logged_keys(log) if own else prompts
            return completions.forget({*keys} - kept)

    def _asked_by_builds(self, log: Path) -> set[bytes]:
        """Return the keys of builds' prompts, without builds of an older code version."""
        found: set[bytes] = set()
        for name in self.store.builds():
            try:
                plan = self._plan(name, Place())
            except ValueError:
                continue
            whole = RelationBuilds(self.store, plan, name, self.runner, tuple(self._parts(name)))
            for stage in plan.builds:
                found |= keys_of_build(stage, whole.inputs(stage), log)
        return found


def _wanted(table: pa.Table, documents: Collection[str], sources: Collection[str]) -> pa.Array:
    """Mask the rows of documents, by id or source."""
    wanted = pc.or_(_among(table["source_id"], sources), _among(table["source"], sources))
    return pc.or_(wanted, _among(table["raw_id"], documents))


def _refused(table: pa.Table, names: Collection[str]) -> pa.Array:
    """Mask the refused rows that have one of these source ids."""
    return pc.and_(_among(table["source_id"], names), pc.is_valid(table["reject"]))


def _among(column: pa.ChunkedArray, values: Collection[str]) -> pa.ChunkedArray:
    return pc.is_in(column, pa.array(sorted(values), pa.string()))


def _take(
    found: dict[str, dict[str, list[str]]], parts: set[str], part: str, rows: pa.Table
) -> None:
    """Note rows of a raw part by their ids, and the part if there is any."""
    for row in rows.to_pylist():
        names = sorted({row["source"], row["source_id"]})
        found[row["raw_id"]] = {"sources": names, "units": [], "keys": []}
        parts.add(part)


def _asks_of(path: Path, names: Collection[str]) -> bool:
    """Whether the text of a question in a part contains one of these names."""
    columns = pq.ParquetFile(path).schema_arrow.names
    texts = pq.read_table(path, columns=["text"])["text"] if "text" in columns else pa.array([])
    return any(name in text for text in texts.to_pylist() if text for name in names)
