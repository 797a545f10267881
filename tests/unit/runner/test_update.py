from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from srrag.core.schema import TRIPLES
from srrag.core.stage import Plan, Stage
from srrag.core.step import Build, Function, Place, Step
from srrag.corpus.record import RawRecord, raw_table
from srrag.graph.communities import DetectCommunities, read_communities
from srrag.graph.entities import MergeEntities, read_rows
from srrag.graph.name_vectors import EncodeNames
from srrag.runner import ingest
from srrag.runner import relation_builds as module
from srrag.runner.build import BuildJob
from srrag.runner.relation_builds import RelationBuilds, manifest_of, version_of
from srrag.runner.runner import LocalRunner
from srrag.runner.verify import verify
from srrag.storage.atomic_write import commit_json, read_json
from srrag.storage.store import Store
from tests.unit.index.tables import row


@dataclass(frozen=True, kw_only=True)
class ReadFacts(Step):
    """RAW → TRIPLES: a body is a list of heads; one named in the file `broken` is an error."""

    reads: ClassVar[tuple[str, ...]] = ("raw_id", "body")
    writes: ClassVar[pa.Schema] = TRIPLES
    keeps_rows: ClassVar[bool] = False

    def open(self, at: Place) -> Function:
        broken = at.root / "broken" if at.root else Path("broken")

        def run(batch: pa.Table) -> pa.Table:
            rows = []
            for raw in batch.to_pylist():
                for head in json.loads(raw["body"]):
                    if broken.exists() and broken.read_text("utf-8") == head:
                        raise RuntimeError(head)
                    rows.append(
                        row(
                            TRIPLES, kind="relation", head=head, head_type="Drug",
                            relation="treats", tail="pain", tail_type="Outcome",
                            doc_id=raw["raw_id"], unit_id=raw["raw_id"],
                        )
                    )  # fmt: skip
            return pa.Table.from_pylist(rows, schema=TRIPLES)

        return run


def plan_of(communities: DetectCommunities) -> Plan:
    stages = [
        Stage("triples", ReadFacts(), ("raw",)),
        Stage("entities", MergeEntities(), ("triples",)),
        Stage("names", EncodeNames(), ("entities",)),
        Stage("communities", communities, ("entities", "names")),
    ]
    return Plan("raw", "source", stages)


def build(
    root: Path,
    documents: Sequence[Sequence[str]],
    communities: DetectCommunities | None = None,
    **settings: Any,
) -> dict[str, Any]:
    plan = plan_of(communities or DetectCommunities())
    records = [
        RawRecord(f"{n}", f"{n}", "text", json.dumps(heads).encode())
        for n, heads in enumerate(documents)
    ]
    job = BuildJob(Store(root), plan, LocalRunner(), max_failed_share=1.0, **settings)
    return job.run(records, Place())


def tables(root: Path) -> dict[str, list[dict[str, Any]]]:
    artifacts = Store(root).artifacts("default")
    files = [artifacts["entities"] / f"{name}.parquet" for name in ("entities", "edges")]
    found = {path.name: read_rows(path).to_pylist() for path in files}
    return {**found, "communities": read_communities(artifacts["communities"]).to_pylist()}


DOCUMENTS = [["aspirin"], ["Aspirin", "rest"], ["ibuprofen"]]


@pytest.mark.parametrize(
    ("before", "after"),
    [(DOCUMENTS[:1], DOCUMENTS), (DOCUMENTS, DOCUMENTS[:2]), (DOCUMENTS[:2], DOCUMENTS[1:])],
)
def test_a_grown_or_shrunk_corpus_has_the_tables_of_one_built_at_once(
    tmp_path: Path, before: list[list[str]], after: list[list[str]]
) -> None:
    build(tmp_path / "grown", before)
    build(tmp_path / "grown", after)
    build(tmp_path / "once", after)
    assert tables(tmp_path / "grown") == tables(tmp_path / "once")


def test_parts_made_again_under_their_name_reach_the_builds(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    Store(root).create()
    (root / "broken").write_text("ibuprofen", "utf-8")
    assert build(root, DOCUMENTS)["figures"]["entities"]["facts"] == 3
    (root / "broken").unlink()
    again = build(root, DOCUMENTS, retry_failed=True)
    assert again["figures"]["entities"]["facts"] == 4
    assert again["reused"]["communities"] == 0
    build(tmp_path / "once", DOCUMENTS)
    assert tables(root) == tables(tmp_path / "once")
    assert build(root, DOCUMENTS)["reused"] == {
        "triples": 1, "entities": 1, "names": 1, "communities": 1
    }  # fmt: skip


GOES_ON = DetectCommunities(max_drift=1.0)
"""Never sees the whole graph again, be it as small as these."""


def manifest(root: Path, stage: str) -> dict[str, Any]:
    found: dict[str, Any] = read_json(Store(root).artifacts("default")[stage] / "manifest.json")
    return found


def test_while_documents_are_forgotten_no_version_before_has_a_part(tmp_path: Path) -> None:
    root = tmp_path / "root"
    build(root, DOCUMENTS, GOES_ON)
    (root / "forgetting.json").write_text("{}", "utf-8")
    build(root, DOCUMENTS[:2], GOES_ON)
    assert manifest(root, "communities")["former"] is None
    build(tmp_path / "never", DOCUMENTS[:2], GOES_ON)
    assert tables(root) == tables(tmp_path / "never")


def test_what_went_on_from_another_version_is_made_anew_while_forgetting(tmp_path: Path) -> None:
    """The version before may have held what is forgotten, though this one does not."""
    root = tmp_path / "root"
    build(root, DOCUMENTS, GOES_ON)
    build(root, DOCUMENTS[:2], GOES_ON)
    assert manifest(root, "communities")["former"] is not None
    (root / "forgetting.json").write_text("{}", "utf-8")
    assert build(root, DOCUMENTS[:2], GOES_ON)["reused"]["communities"] == 0
    assert manifest(root, "communities")["former"] is None


def parts_of(root: Path, name: str = "default") -> set[str]:
    return set(Store(root).read_pointer(name)["stages"]["raw"]["parts"])


def test_a_first_build_that_was_killed_goes_on_with_its_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "SEGMENT_ROWS", 2)
    records = [RawRecord(f"{n}", f"{n}", "text", f'["drug {n}"]'.encode()) for n in range(6)]
    first = RawRecord("new", "new", "text", b'["zinc"]')
    job = BuildJob(Store(tmp_path), plan_of(DetectCommunities()), LocalRunner())

    def killed(*given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Store, "write_pointer", killed)
        job.run(records, Place())
    before = Store(tmp_path).parts("raw", "source")
    assert job.run([first, *records], Place())["reused"]["triples"] == len(before) == 3
    assert len(parts_of(tmp_path) - before) == 1 and before < parts_of(tmp_path)
    other = dataclasses.replace(job, name="other")
    assert other.run([*records[3:], first, *records[:3]], Place())["reused"]["triples"] == 4
    assert parts_of(tmp_path, "other") == parts_of(tmp_path)


def test_standing_segments_that_overlap_or_are_damaged_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [RawRecord(f"{n}", f"{n}", "text", f'["drug {n}"]'.encode()) for n in range(5)]
    store = Store(tmp_path)
    store.create()
    for few in (records[:3], records[2:], records[:2]):
        ingest.ingest(store, "source", few, [])
    gone = ingest.write_segment(store, "source", raw_table(records[4:]))
    path = store.part_path("raw", "source", gone)
    path.write_bytes(path.read_bytes()[:-1])
    plan = plan_of(DetectCommunities())
    BuildJob(store, plan, LocalRunner()).run(records[:4], Place())
    rows = [store.read_part("raw", "source", part)["source_id"] for part in parts_of(tmp_path)]
    assert sorted(each for row in rows for each in row.to_pylist()) == ["0", "1", "2", "3"]
    assert verify(store, "default")["problems"] == []


def test_without_update_it_is_made_from_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    build(root, DOCUMENTS[:2], GOES_ON)
    build(root, DOCUMENTS, GOES_ON)
    parts = Store(root).read_pointer("default")["stages"]["raw"]["parts"]
    plan = plan_of(GOES_ON)
    folder = Store(root).artifacts("default")["communities"]
    grown = version_of(folder)
    again = RelationBuilds(Store(root), plan, "default", LocalRunner(), tuple(parts), update=False)
    assert not again.run(plan.builds[-1], Place())
    assert "drift" not in manifest(root, "communities")["figures"]
    assert manifest(root, "communities")["former"] is None
    assert version_of(folder) != grown, "the past is part of what a version is"
    assert again.run(plan.builds[-1], Place())


@pytest.fixture
def built(tmp_path: Path) -> Path:
    build(tmp_path, DOCUMENTS, GOES_ON)
    return tmp_path


def whole_of(root: Path, **settings: Any) -> RelationBuilds:
    parts = Store(root).read_pointer("default")["stages"]["raw"]["parts"]
    plan = plan_of(settings.pop("communities", GOES_ON))
    return RelationBuilds(Store(root), plan, "default", LocalRunner(), tuple(parts), **settings)


def stage_of(whole: RelationBuilds, name: str) -> Stage:
    return next(stage for stage in whole.plan.stages if stage.name == name)


def test_a_manifest_holds_what_was_read_made_and_paid(built: Path) -> None:
    whole = whole_of(built)
    for name in ("entities", "communities"):
        found = manifest(built, name)
        folder = Store(built).artifacts("default")[name]
        there = {path.name for path in folder.iterdir()} - {"manifest.json"}
        assert found["files"].keys() == there
        assert found["usage"] == {}, "no model was asked"
        assert found["seconds"] >= 0 and found["former"] is None
        wanted = manifest_of(stage_of(whole, name), folder.name)
        assert {key: found[key] for key in wanted} == wanted
    receipt = Store(built).receipts("triples", whole.plan.fingerprint("triples"), whole.parts)[0]
    assert manifest(built, "entities")["contents"] == {"triples": {whole.parts[0]: receipt.sha256}}
    files = manifest(built, "entities")["files"]
    names = manifest(built, "names")["files"]
    assert manifest(built, "communities")["contents"] == {"entities": files, "names": names}


def test_a_build_that_asks_for_an_input_it_lacks_is_told_which(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"stages\.communities: .* input 'words'; .* names"):
        build(tmp_path / "root", DOCUMENTS, DetectCommunities(names="words"))


def test_what_stands_is_not_made_again(built: Path) -> None:
    whole = whole_of(built)
    for name in ("entities", "communities"):
        assert whole.run(stage_of(whole, name), Place())


@pytest.mark.parametrize("how", ["changed", "gone", "manifest", "contents"])
def test_what_is_not_what_was_written_is_made_again(built: Path, how: str) -> None:
    before, whole = tables(built), whole_of(built)
    folder = Store(built).artifacts("default")["entities"]
    path = folder / "edges.parquet"
    if how == "changed":
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])
        os.utime(path, ns=(1, 1))
    elif how == "gone":
        path.unlink()
    elif how == "manifest":
        (folder / "manifest.json").write_text("{")
    else:
        found = read_json(folder / "manifest.json")
        commit_json(folder / "manifest.json", {**found, "contents": {}}, sealed=True)
    assert not whole.run(stage_of(whole, "entities"), Place()) and tables(built) == before
    assert not [each for each in folder.parent.iterdir() if each.name.startswith(".")]


def test_only_what_remembers_ignores_its_past_without_update(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    updated: list[str] = []
    for kind in (MergeEntities, DetectCommunities):
        real = kind.update

        def seen(self: Any, *given: Any, real: Any = real) -> Any:
            updated.append(type(self).__name__)
            return real(self, *given)

        monkeypatch.setattr(kind, "update", seen)
    build(built, DOCUMENTS[:2], GOES_ON, update=False)
    assert updated == ["MergeEntities"]
    build(built, DOCUMENTS[1:], GOES_ON)
    assert updated == ["MergeEntities"] * 2 + ["DetectCommunities"]
    assert manifest(built, "communities")["former"] is not None
    assert manifest(built, "entities")["former"] is None, "it equals one from nothing"
    assert build(built, DOCUMENTS[1:], GOES_ON)["reused"]["communities"] == 1
    build(built, DOCUMENTS[1:], GOES_ON, update=False)
    assert manifest(built, "communities")["former"] is None
    assert updated == ["MergeEntities"] * 2 + ["DetectCommunities"]


def test_a_version_that_other_settings_made_is_not_gone_on_from(built: Path) -> None:
    other = dataclasses.replace(GOES_ON, seed=GOES_ON.seed + 1)
    build(built, DOCUMENTS[:2], other)
    assert manifest(built, "communities")["former"] is None
    before = version_of(Store(built).artifacts("default")["communities"])
    build(built, DOCUMENTS, other)
    assert manifest(built, "communities")["former"] == before


@pytest.mark.parametrize("lost", ["contents", "file", "pointer", "entry"])
def test_a_version_that_is_not_whole_is_not_gone_on_from(built: Path, lost: str) -> None:
    store = Store(built)
    folder = store.artifacts("default")["communities"]
    whole = whole_of(built)
    stage = stage_of(whole, "communities")
    contents = whole._contents(stage)
    assert whole._former(stage, contents) is not None
    if lost == "contents":
        found = read_json(folder / "manifest.json")
        found.pop("contents")
        found.pop("_sha256", None)
        commit_json(folder / "manifest.json", found, sealed=True)
    elif lost == "file":
        (folder / "communities.parquet").unlink()
    elif lost == "pointer":
        store.pointer_path("default").unlink()
    else:
        pointer = store.read_pointer("default")
        del pointer["stages"]["communities"]
        store.write_pointer("default", pointer)
    assert whole._former(stage, contents) is None


def test_parts_that_did_not_change_are_told_to_an_update(built: Path) -> None:
    whole = whole_of(built)
    stage = stage_of(whole, "entities")
    contents = whole._contents(stage)
    former = whole._former(stage, contents)
    (part,) = whole.parts
    path = Store(built).part_path("triples", whole.plan.fingerprint("triples"), part)
    assert former is not None and former.kept == {path}
    former = whole._former(stage, {"triples": {part: "other", "more": "0"}})
    assert former is not None and former.kept == frozenset()


@dataclass(frozen=True, kw_only=True)
class Anew(Build):
    """A build that has no way to update."""

    def build(self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place) -> dict[str, Any]:
        raise AssertionError


def test_a_step_neither_updates_nor_remembers() -> None:
    step = Stage("triples", ReadFacts(), ("raw",))
    assert module._updates(step) is False and module._remembers(step) is False
    anew = Stage("anew", Anew(), ("raw",))
    assert not module._updates(anew) and not module._remembers(anew)
    stages = {stage.name: stage for stage in plan_of(GOES_ON).stages}
    assert module._updates(stages["entities"]) and not module._remembers(stages["entities"])
    assert module._updates(stages["communities"]) and module._remembers(stages["communities"])


def test_the_version_of_a_build_rests_on_all_before_it(tmp_path: Path) -> None:
    told = {"fingerprint": "f", "contents": {"a": {"p": "0"}}, "former": None}
    seen = set()
    for change in ({}, {"fingerprint": "g"}, {"contents": {}}, {"former": "x"}, {"seconds": 1}):
        commit_json(tmp_path / "manifest.json", {**told, **change}, sealed=True)
        seen.add(version_of(tmp_path))
    assert len(seen) == 4
