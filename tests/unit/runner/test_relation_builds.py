"""Which version of a build is taken, gone on from, or made anew."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from srrag.core.stage import Stage
from srrag.core.step import Build, Place
from srrag.graph.communities import DetectCommunities
from srrag.graph.entities import MergeEntities
from srrag.runner import relation_builds as module
from srrag.runner.local import LocalRunner
from srrag.runner.relation_builds import RelationBuilds, manifest_of, version_of
from srrag.storage.atomic_write import commit_json, read_json
from srrag.storage.store import Store
from tests.unit.runner.test_update import (
    DOCUMENTS,
    GOES_ON,
    ReadFacts,
    build,
    manifest,
    plan_of,
    tables,
)


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
        figures, reused = whole.run(stage_of(whole, name), Place())
        assert reused and figures == manifest(built, name)["figures"]


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
    _, reused = whole.run(stage_of(whole, "entities"), Place())
    assert not reused and tables(built) == before
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


def test_while_documents_are_forgotten_what_remembers_starts_from_nothing(built: Path) -> None:
    whole = whole_of(built)
    entities, communities = (stage_of(whole, name) for name in ("entities", "communities"))
    assert not whole._from_nothing(entities) and not whole._from_nothing(communities)
    (built / "forgetting.json").write_text("{}")
    assert not whole._from_nothing(entities) and whole._from_nothing(communities)


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
