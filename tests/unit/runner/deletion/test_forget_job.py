"""Forgetting, on roots of a step and two builds that are made in a moment."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from srrag.core import kinds
from srrag.core.schema import relation
from srrag.core.stage import Plan, Stage
from srrag.core.step import Build, Function, Place, Step
from srrag.corpus.record import RawRecord, raw_table
from srrag.engine.log.entry import journal_file
from srrag.engine.log.journal import seal
from srrag.graph.communities import DetectCommunities
from srrag.runner.build import BuildJob
from srrag.runner.deletion import delete as module
from srrag.runner.deletion.delete import ForgetJob, Note
from srrag.runner.deletion.find_ids import logged_keys
from srrag.runner.deletion.tombstones import Tombstones
from srrag.runner.ingest import write_segment
from srrag.runner.runner import LocalRunner
from srrag.runner.verify import verify
from srrag.storage.atomic_write import commit_json, read_json
from srrag.storage.manifest import read_live
from srrag.storage.store import Store
from tests.unit.engine.logs import entry, key
from tests.unit.runner.test_update import GOES_ON, ReadFacts, plan_of
from tests.unit.serve.serving import CitingModel


@dataclasses.dataclass(frozen=True, kw_only=True)
class Initials(Step):
    """The first letter of each fact's head: rows that name no document."""

    reads: ClassVar[tuple[str, ...]] = ("head", "reject")
    writes: ClassVar[pa.Schema] = relation("initial")

    def open(self, at: Place) -> Function:
        def run(batch: pa.Table) -> pa.Table:
            letters = pc.utf8_slice_codeunits(batch["head"], 0, 1)
            return pa.table([letters, batch["reject"]], schema=self.writes)

        return run


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spell(Build):
    """Writes the letters of all parts."""

    def build(self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place) -> dict[str, Any]:
        letters = [
            table["initial"].to_pylist() for table in read_live(inputs["initials"], ["initial"])
        ]
        (out / "word").write_text("".join(map("".join, letters)), "utf-8")
        return {}


KINDS = (ReadFacts, Initials, Spell)
CORPUS = {"zinc.md": ["zinc"], "aspirin.md": ["aspirin"], "zorbamycin.md": ["zorbamycin"]}
GONE = "zorbamycin.md"


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step is known as one of an installed package: manifests name it."""
    monkeypatch.setattr(
        kinds,
        "extensions",
        lambda: {each.__name__: f"{each.__module__}:{each.__name__}" for each in KINDS},
    )


def build(
    root: Path,
    corpus: Mapping[str, Sequence[str]] = CORPUS,
    communities: DetectCommunities | None = None,
    **settings: Any,
) -> dict[str, Any]:
    records = [
        RawRecord(name, name, "text", json.dumps(heads).encode()) for name, heads in corpus.items()
    ]
    plan = plan_of(communities or DetectCommunities())
    return BuildJob(Store(root), plan, LocalRunner(), **settings).run(records, Place())


def ids(root: Path, name: str = "default") -> dict[str, str]:
    """The documents of a build by source."""
    store = Store(root)
    entry = store.read_pointer(name)["stages"]["raw"]
    rows = [
        row
        for part in entry["parts"]
        for row in store.read_part("raw", entry["fingerprint"], part).to_pylist()
    ]
    return {row["source_id"]: row["raw_id"] for row in rows}


def forget(root: Path, *documents: str, sources: Sequence[str] = ()) -> dict[str, Any]:
    return ForgetJob(Store(root), LocalRunner()).run(documents, sources, Place())


def holding(root: Path, word: str) -> list[Path]:
    def told(path: Path) -> str:
        if path.suffix == ".parquet":
            return str(pq.read_table(path, partitioning=None).to_pylist())
        return path.read_bytes().decode("latin-1")

    return [path for path in root.rglob("*") if path.is_file() and word in told(path)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    build(tmp_path / "root")
    return tmp_path / "root"


def test_what_is_left_is_what_never_held_it(root: Path, tmp_path: Path) -> None:
    (root / ".forgetting.json.01").touch()
    (document,) = (ids(root)[GONE],)
    figures = forget(root, document)
    assert figures == {
        "documents": 1, "parts_rewritten": 1, "builds": ["default"], "builds_deleted": 3,
        "answer_parts_deleted": 0, "outputs_deleted": [], "unexplained_deleted": 0,
        "completions": 0,
    }  # fmt: skip
    assert ids(root).keys() == CORPUS.keys() - {GONE} and not holding(root, "zorbamycin")
    assert verify(Store(root), "default")["problems"] == []
    assert not list(root.glob("*forgetting*")) and not list(root.glob(".forgetting*"))
    build(tmp_path / "never", {name: CORPUS[name] for name in CORPUS if name != GONE})
    for name in ("entities", "communities"):
        one, two = (Store(each).artifacts("default")[name] for each in (root, tmp_path / "never"))
        assert one.name == two.name
        for path in two.glob("*.parquet"):
            assert path.read_bytes() == (one / path.name).read_bytes()
        assert (
            read_json(one / "manifest.json")["figures"]
            == read_json(two / "manifest.json")["figures"]
        )
    again = build(root)
    assert again["skipped_as_forgotten"] == 1 and again["reused"]["communities"] == 1


def test_rows_that_name_no_document_go_with_the_rows_they_were_made_of(tmp_path: Path) -> None:
    stages = [
        Stage("triples", ReadFacts(), ("raw",)),
        Stage("initials", Initials(), ("triples",)),
        Stage("word", Spell(), ("initials",)),
    ]
    plan = Plan("raw", "source", stages)
    corpus = {"a.md": ["birch", "cedar"], GONE: ["zorbamycin", "yew"], "d.md": [], "e.md": ["fir"]}
    records = [
        RawRecord(name, name, "text", json.dumps(heads).encode()) for name, heads in corpus.items()
    ]
    BuildJob(Store(tmp_path), plan, LocalRunner()).run(records, Place())
    forget(tmp_path, ids(tmp_path)[GONE])
    assert verify(Store(tmp_path), "default")["problems"] == []
    word = Store(tmp_path).artifacts("default")["word"] / "word"
    assert sorted(word.read_text("utf-8")) == ["b", "c", "f"]


def test_the_refusal_of_a_copy_in_another_part_goes_too(root: Path) -> None:
    store = Store(root)
    first = store.read_pointer("default")["stages"]["raw"]
    refused = RawRecord("copy.md", GONE, "text", b"", "duplicate_id")
    part = write_segment(store, first["fingerprint"], raw_table([refused]))
    forget(root, ids(root)[GONE])
    assert not store.has_part("raw", first["fingerprint"], part) and not holding(root, GONE)


def test_who_was_forgotten_may_be_named_again_and_nobody_else(root: Path) -> None:
    document = ids(root)[GONE]
    forget(root, sources=[GONE])
    assert Tombstones.of(root).has(document) and Tombstones.of(root).has_source(GONE)
    for figures in (forget(root, document), forget(root, sources=[GONE])):
        assert (figures["documents"], figures["builds"]) == (0, [])
    with pytest.raises(ValueError, match="doc_id=typo: no part of"):
        forget(root, document, "typo")
    with pytest.raises(ValueError, match=r"source_id=typo: no document"):
        forget(root, sources=["typo"])
    figures = forget(root, sources=["zinc.md", "typo"])
    assert figures["documents"] == 1 and ids(root).keys() == {"aspirin.md"}


@pytest.mark.parametrize(
    "step", ["drop_builds", "derive_part", "drop_part", "holding", "drop_outputs"]
)
def test_a_killed_deletion_is_finished_without_naming_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    document = ids(root)[GONE]

    def killed(*given: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(module, step, killed)
        forget(root, document)
    note = read_json(root / "forgetting.json")
    assert note["documents"].keys() == {document} and len(note["parts"]) == 1
    assert forget(root)["documents"] == 1
    assert not holding(root, "zorbamycin") and not (root / "forgetting.json").exists()


def test_notes_of_two_runs_are_one() -> None:
    one = Note(documents={"a": {"units": []}}, sources=["s"], parts=["p", "q"])
    two = Note(documents={"a": {"units": ["u"]}, "b": {}}, sources=["s", "r"], parts=["o"])
    assert one.joined(two) == Note(
        documents={"a": {"units": ["u"]}, "b": {}}, sources=["r", "s"], parts=["o", "p", "q"]
    )


def test_only_builds_that_held_it_or_may_have_are_made_again(root: Path) -> None:
    others = {"honey.md": ["honey"], "tea.md": ["tea"]}
    build(root, others, name="few")
    build(root, {**others, GONE: CORPUS[GONE]}, GOES_ON, name="past")
    build(root, {**others, "salt.md": ["salt"]}, GOES_ON, name="past")
    communities = Store(root).artifacts("past")["communities"]
    assert read_json(communities / "manifest.json")["former"] is not None
    assert ids(root, "past").keys() == {*others, "salt.md"}
    few = Store(root).pointer_path("few").read_bytes()
    assert forget(root, ids(root)[GONE])["builds"] == ["default", "past"]
    assert Store(root).pointer_path("few").read_bytes() == few
    now = Store(root).artifacts("past")["communities"]
    assert read_json(now / "manifest.json")["former"] is None
    assert not holding(root, "zorbamycin")


def test_a_build_keeps_something(root: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.suffix == ".json"}
    with pytest.raises(ValueError, match="build 'default': nothing would be left"):
        forget(root, *ids(root).values())
    assert before == {path: path.stat().st_mtime_ns for path in root.rglob("*") if path in before}
    assert not (root / "forgetting.json").exists() and not (root / "forgotten.json").exists()


def test_a_stage_of_other_code_is_not_taken_apart(root: Path) -> None:
    store = Store(root)
    pointer = store.read_pointer("default")
    folder = store.artifacts("default")["triples"]
    other = folder.with_name("0" * 32)
    folder.rename(other)
    pointer["stages"]["triples"]["fingerprint"] = other.name
    store.write_pointer("default", pointer)
    with pytest.raises(ValueError, match="another version made its stage triples"):
        forget(root, ids(root)[GONE])


def plant(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({name: [value] for name, value in columns.items()}), path)
    commit_json(path.with_suffix(".json"), {"sha256": ""})
    return path


def test_questions_that_name_or_found_it_go_with_all_their_answers(root: Path) -> None:
    document, stages = ids(root)[GONE], root / "stages"
    asked, answered = stages / "questions" / "f", stages / "answers-Search-01" / "f"
    gone = [
        plant(asked / "part-named.parquet", text=f"What says {GONE}?"),
        plant(answered / "part-named.parquet", row=1),
        plant(asked / "part-found.parquet", text="Does it help?"),
        plant(answered / "part-found.parquet", evidence=[{"doc_id": document}]),
        plant(stages / "answers-Other-02" / "g" / "part-found.parquet", row=1),
    ]
    kept = [
        plant(asked / "part-other.parquet", text="Does zinc help?"),
        plant(answered / "part-other.parquet", evidence=[{"doc_id": ids(root)["zinc.md"]}]),
        plant(asked / "part-bare.parquet", row=1), plant(asked / "part-none.parquet", text=None),
    ]  # fmt: skip
    figures = forget(root, document)
    assert figures["answer_parts_deleted"] == 5
    for path in gone:
        assert not path.exists() and not path.with_suffix(".json").exists()
    assert all(path.exists() and path.with_suffix(".json").exists() for path in kept)


def log_of(folder: Path) -> Path:
    seal(folder, f"{1:015d}-{'0' * 32}", [entry(number) for number in (1, 2, 3)])
    (folder / journal_file(f"{2:015d}-{'0' * 32}")).write_bytes(entry(4).line())
    return folder


def asks(document: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows ask 1 and 2, a row that is left asks 2, and a build 3."""

    def asked(store: Store, log: Path, select: object = None) -> dict[str, set[bytes]]:
        return {document: {key(1), key(2)}} if select else {"left": {key(2)}}

    monkeypatch.setattr(module, "asked_keys", asked)
    monkeypatch.setattr(
        module, "keys_of_build",
        lambda stage, inputs, log: {key(3)} if stage.name == "entities" else set(),
    )  # fmt: skip


def test_of_its_own_log_only_what_is_still_asked_is_left(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = ids(root)[GONE]
    asks(document, monkeypatch)
    log = log_of(root / "completions")
    assert forget(root, document)["completions"] == 2
    assert logged_keys(log) == {key(2), key(3)}
    assert Tombstones.of(root).keys() == {key(1), key(2)}


def test_a_log_of_others_loses_only_its_prompts(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = ids(root)[GONE]
    asks(document, monkeypatch)
    log = log_of(tmp_path / "log")
    monkeypatch.setattr(module, "log_folder", lambda at: log)
    assert forget(root, document)["completions"] == 1
    assert logged_keys(log) == {key(2), key(3), key(4)}


@dataclasses.dataclass(frozen=True)
class Asks:
    engine: CitingModel
    other: int = 0


def test_a_step_is_given_the_engine_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "spec", lambda engine: type(engine).__name__)
    here, there = CitingModel(pause_s=1.0), CitingModel(pause_s=2.0)
    job = ForgetJob(Store("root"), LocalRunner(), here)
    assert job._placed(Asks(there, 7)) == Asks(here, 7)
    without = ForgetJob(Store("root"), LocalRunner())
    assert without._placed(Asks(there, 7)) == Asks(there, 7)
    assert job._placed("no engine") == "no engine"
    monkeypatch.setattr(module, "spec", lambda engine: engine.pause_s)
    assert job._placed(Asks(there, 7)) == Asks(there, 7)
