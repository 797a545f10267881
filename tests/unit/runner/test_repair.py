from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from srrag.engine.log.entry import receipt_file
from srrag.engine.log.journal import seal
from srrag.graph.communities import DetectCommunities
from srrag.index.tokens import TokenIndex
from srrag.runner.deletion.tombstones import COPY, FILE, Tombstones
from srrag.runner.relation_builds import manifest_of
from srrag.runner.repair import Repair, mend_marker
from srrag.runner.verify import verify
from srrag.storage.atomic_write import commit_json, read_json
from srrag.storage.manifest import DamagedError
from srrag.storage.store import Store
from tests.bucket import s3_server
from tests.crash import roots
from tests.unit.engine.logs import entry
from tests.unit.runner.forgetting import write_papers
from tests.unit.runner.test_update import DOCUMENTS, build, plan_of, tables


def part_of(root: Path, stage: str) -> Path:
    return next(Store(root).artifacts("default")[stage].glob("part-*.parquet"))


PLACES: dict[str, Callable[[Path], Path]] = {
    "marker": lambda root: root / "srrag.json",
    "pointer": lambda root: root / "builds" / "default.json",
    "raw part": lambda root: part_of(root, "raw"),
    "raw receipt": lambda root: part_of(root, "raw").with_suffix(".json"),
    "part": lambda root: part_of(root, "triples"),
    "receipt": lambda root: part_of(root, "triples").with_suffix(".json"),
    "manifest of a step": lambda root: part_of(root, "triples").with_name("manifest.json"),
    "manifest of a build": lambda root: (
        Store(root).artifacts("default")["entities"] / "manifest.json"
    ),
    "file of a build": lambda root: Store(root).artifacts("default")["entities"] / "edges.parquet",
}


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "bit": flip, "cut": lambda data: data[: len(data) // 2], "zero": lambda data: b"",
}  # fmt: skip


def problems(root: Path) -> list[str]:
    try:
        return list(verify(Store(root), "default")["problems"])
    except ValueError as error:
        return [str(error)]


@pytest.mark.parametrize("kind", PLACES)
def test_what_verify_names_is_made_again(tmp_path: Path, kind: str) -> None:
    build(tmp_path, DOCUMENTS)
    before = tables(tmp_path)
    for name, damage in DAMAGES.items():
        path = PLACES[kind](tmp_path)
        path.write_bytes(damage(path.read_bytes()))
        assert any(path.name in problem for problem in problems(tmp_path)), (kind, name)
        done = build(tmp_path, DOCUMENTS, repair=True)["repaired"]
        assert problems(tmp_path) == [], (kind, name)
        assert tables(tmp_path) == before
        assert any(path.name in line for line in done), (kind, name)
        assert build(tmp_path, DOCUMENTS, repair=True)["repaired"] == []


def test_without_repair_a_build_ends_with_the_file_and_the_key(tmp_path: Path) -> None:
    build(tmp_path, DOCUMENTS)
    for kind in ("marker", "pointer", "raw part", "manifest of a step"):
        path = PLACES[kind](tmp_path)
        kept = path.read_bytes()
        path.write_bytes(b"")
        with pytest.raises(DamagedError, match=rf"{path.name}.*repair=true") as told:
            build(tmp_path, DOCUMENTS)
        assert "\n" not in str(told.value)
        path.write_bytes(kept)


def test_a_part_that_nothing_was_made_of_spreads_no_damage(tmp_path: Path) -> None:
    """One document fewer: the survivors of its segment would be taken over."""
    build(tmp_path, DOCUMENTS)
    path = PLACES["raw part"](tmp_path)
    data = path.read_bytes()
    at = data.index(b"ibuprofen") if b"ibuprofen" in data else len(data) // 3
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(DamagedError, match=r"is not what was written.*repair=true"):
        build(tmp_path, DOCUMENTS[:2])
    done = build(tmp_path, DOCUMENTS[:2], repair=True)["repaired"]
    assert any("1 of its 3 documents cannot be made again" in line for line in done), done
    assert problems(tmp_path) == []
    build(tmp_path / "once", DOCUMENTS[:2])
    assert tables(tmp_path) == tables(tmp_path / "once")


def test_the_list_of_what_was_forgotten_is_there_twice(tmp_path: Path) -> None:
    build(tmp_path, DOCUMENTS)
    Tombstones.of(tmp_path).add({}, ["nobody"])
    for name in (FILE, COPY):
        for text in ("", '{"documents": {}}', None):
            (tmp_path / name).unlink()
            if text is not None:
                (tmp_path / name).write_text(text)
            if name == FILE and not text:
                assert any(name in problem for problem in problems(tmp_path))
                with pytest.raises(DamagedError, match=r"forgotten\.json.*repair=true"):
                    build(tmp_path, DOCUMENTS)
            if text == '{"documents": {}}':
                Tombstones.of(tmp_path).add({}, ["nobody"])
                continue
            build(tmp_path, DOCUMENTS, repair=True)
            assert Tombstones.of(tmp_path).has_source("nobody")
            Tombstones.of(tmp_path).add({}, [])
    for name in (FILE, COPY):
        (tmp_path / name).write_text("{")
    with pytest.raises(ValueError, match="nothing can make it again"):
        build(tmp_path, DOCUMENTS, repair=True)


def test_a_pointer_is_made_again_of_its_own_parts(tmp_path: Path) -> None:
    """Another configuration has read other parts later, and shares a stage with this one."""
    build(tmp_path, DOCUMENTS[1:])
    build(tmp_path, DOCUMENTS)
    build(tmp_path, DOCUMENTS[:2], DetectCommunities(seed=1), name="other")
    store = Store(tmp_path)
    before = store.read_pointer("default")["stages"]
    assert store.read_pointer("other")["stages"]["raw"]["parts"] != before["raw"]["parts"]
    store.pointer_path("default").write_text("")
    (line, *_) = build(tmp_path, DOCUMENTS, repair=True)["repaired"]
    assert line.endswith(f"made again of {len(before['raw']['parts'])} parts that stand")
    assert store.read_pointer("default")["stages"] == before


def test_damage_in_a_part_that_the_token_index_links_is_mended_in_both(tmp_path: Path) -> None:
    root, papers = tmp_path / "root", write_papers(tmp_path / "papers")
    roots.build(root, papers)

    def held() -> list[Any]:
        part = part_of(root, "vectors")
        tokens = Store(root).artifacts("default")["tokens"]
        assert (tokens / f"tokens-{part.name}").samefile(part)
        ids = pq.read_table(part, columns=["unit_id"], partitioning=None)["unit_id"].to_pylist()
        return [part, [each.tolist() for each in TokenIndex(tokens).take(ids)]]

    part, before = held()
    for name, damage in DAMAGES.items():
        data = part.read_bytes()
        part.write_bytes(damage(data))
        named = problems(root)
        assert any(f"tokens-{part.name}" in each for each in named), (name, named)
        assert any(part.name in each and "tokens" not in each for each in named), (name, named)
        roots.build(root, papers, repair=True)
        assert problems(root) == []
        assert held() == [part, before]


PLAN = plan_of(DetectCommunities())
TRIPLES = PLAN.fingerprint("triples")


def repair_of(root: Path, name: str = "default") -> Repair:
    return Repair(Store(root), PLAN, name, root / "completions")


def repaired(root: Path, name: str = "default") -> list[str]:
    repair = repair_of(root, name)
    repair.run()
    return repair.done


@pytest.fixture
def root(tmp_path: Path) -> Path:
    store = Store(tmp_path)
    store.create()
    return tmp_path


@pytest.fixture
def built(tmp_path: Path) -> Path:
    build(tmp_path, DOCUMENTS)
    return tmp_path


def test_a_marker_is_written_only_where_a_root_is(tmp_path: Path) -> None:
    assert mend_marker(Store(tmp_path)) == [] and not list(tmp_path.iterdir())
    for name in ("stages", "builds"):
        root = tmp_path / name[0]
        (root / name).mkdir(parents=True)
        (line,) = mend_marker(Store(root))
        assert line == f"{root / 'srrag.json'} is missing: written again"
        assert mend_marker(Store(root)) == []
        (root / "srrag.json").write_text("{")
        (line,) = mend_marker(Store(root))
        assert "srrag.json" in line and line.endswith(": written again") and ";" not in line
        Store(root).check()


def test_lost_documents_are_named_up_to_five(root: Path) -> None:
    lost = {"a": set("12345"), "b": set("123456"), "c": set()}
    repair = dataclasses.replace(repair_of(root), lost=lost)
    repair.report([])
    told = "documents cannot be made again, since the corpus does not hold them"
    assert repair.done == [
        f"raw part a: 5 of its 5 {told}: 1, 2, 3, 4, 5",
        f"raw part b: 6 of its 6 {told}: 1, 2, 3, 4, 5, …",
        "raw part c: which documents it held can no longer be told",
    ]


def test_documents_that_the_corpus_holds_are_not_lost(built: Path) -> None:
    store = Store(built)
    (part,) = store.read_pointer("default")["stages"]["raw"]["parts"]
    ids = set(store.read_part("raw", "source", part)["raw_id"].to_pylist())
    repair = dataclasses.replace(repair_of(built), lost={part: ids})
    repair.report([part])
    assert repair.done == []
    repair = dataclasses.replace(repair_of(built), lost={part: {*ids, "other"}})
    repair.report([part])
    assert repair.done[0].endswith("1 of its 4 documents cannot be made again, since the corpus "
                                   "does not hold them: other")  # fmt: skip


def test_without_a_pointer_and_parts_there_is_nothing_to_point_to(root: Path) -> None:
    assert repaired(root) == [] and not (root / "builds").exists()
    pointer = Store(root).pointer_path("default")
    pointer.parent.mkdir()
    pointer.write_text("")
    (line,) = repaired(root)
    assert line.endswith("made again of 0 parts that stand")
    assert Store(root).read_pointer("default")["stages"]["raw"]["parts"] == []
    assert repaired(root) == []


def test_a_lost_pointer_is_made_of_what_builds_have_read(built: Path) -> None:
    build(built, DOCUMENTS[:2])
    parts = Store(built).read_pointer("default")["stages"]["raw"]["parts"]
    assert len(parts) == 1 < len(Store(built).parts("raw", "source"))
    Store(built).pointer_path("default").unlink()
    for stage in ("entities", "communities"):
        for number in range(8):
            folder = built / "stages" / stage / f"{number:032x}"
            folder.mkdir()
            (folder / "manifest.json").write_text(('{"contents": {}}', "{", "[]")[number % 3])
    (first, *_) = repaired(built)
    assert first.endswith("made again of 1 parts that stand")
    assert Store(built).read_pointer("default")["stages"]["raw"] == {
        "fingerprint": "source", "parts": parts,
    }  # fmt: skip


def test_the_manifest_of_a_step_is_that_of_its_stage(built: Path) -> None:
    stage = next(stage for stage in PLAN.stages if stage.name == "triples")
    wanted = manifest_of(stage, TRIPLES)
    path = Store(built).stage_dir("triples", TRIPLES) / "manifest.json"
    for text, said in (
        (None, "is missing"), ("", "is damaged"), ("[]", "is damaged"), ("{}", "is damaged"),
        ({**wanted, "inputs": ["other"]}, "is not that of its stage"),
    ):  # fmt: skip
        path.unlink()
        if isinstance(text, dict):
            commit_json(path, text, sealed=True)
        elif text is not None:
            path.write_text(text)
        assert repaired(built) == [f"{path} {said}: written again"]
        found = read_json(path)
        assert {key: found[key] for key in wanted} == wanted
        assert repaired(built) == []


def test_a_step_that_made_nothing_needs_no_manifest(root: Path) -> None:
    folder = Store(root).stage_dir("triples", TRIPLES)
    folder.mkdir(parents=True)
    assert repaired(root) == [] and not list(folder.iterdir())


def planted(root: Path, stage: str, fingerprint: str, **manifest: object) -> Path:
    folder = root / "stages" / stage / fingerprint
    commit_json(folder / "manifest.json", {"fingerprint": fingerprint, **manifest}, sealed=True)
    return folder


def test_a_folder_that_no_build_here_mends_is_left_to_the_one_that_does(built: Path) -> None:
    store = Store(built)
    fine = planted(built, "tree", "fine")  # a step of another configuration
    others = planted(built, "tree", "theirs", files={"lost": "0"})
    nobodys = planted(built, "tree", "nobodys", files={"lost": "0"})
    moved = planted(built, "tree", "moved", files={})
    moved = moved.rename(moved.with_name("elsewhere"))
    mine = planted(built, "communities", "mine", files={"lost": "0"})
    listed = built / "stages" / "tree" / "listed"
    listed.mkdir()
    (listed / "manifest.json").write_text("[]")
    for name, folders in (("zeta", [others, mine]), ("alpha", [others]), ("default", [])):
        stages = {folder.parent.name: {"fingerprint": folder.name} for folder in folders}
        own = store.read_pointer("default")["stages"] if name == "default" else {}
        store.write_pointer(name, {"build": name, "stages": own | stages})
    (built / "builds" / "aaa.json").write_text("{")
    lines = repaired(built)
    assert lines[0].startswith(str(built / "builds" / "aaa.json"))
    assert lines[0].endswith(": build=aaa mends it")
    (theirs,) = (line for line in lines if "theirs" in line)
    assert theirs.endswith(": build=alpha mends it, with repair=true") and others.exists()
    for folder in (nobodys, moved, mine, listed):
        (line,) = (line for line in lines if folder.name in line)
        assert line.endswith(": removed, to be built again where it is needed")
        assert not folder.exists()
    assert fine.exists() and len(lines) == 6
    assert f"{moved / 'manifest.json'} is of another stage" in "".join(lines)


def test_a_folder_that_only_this_build_names_is_removed(built: Path) -> None:
    store = Store(built)
    mine = planted(built, "tree", "mine", files={"lost": "0"})
    pointer = store.read_pointer("default")
    store.write_pointer(
        "default", {**pointer, "stages": pointer["stages"] | {"tree": {"fingerprint": "mine"}}}
    )
    (line,) = repaired(built)
    assert "removed, to be built again" in line and not mine.exists()


def test_damaged_parts_go_with_what_was_asked_of_them(built: Path) -> None:
    store = Store(built)
    (part,) = store.read_pointer("default")["stages"]["raw"]["parts"]
    path = store.part_path("triples", TRIPLES, part)
    path.write_bytes(b"other")
    asked = [
        built / place / "f" / "part-a.parquet"
        for place in ("stages/questions", "stages/answers-X-01", "jobs/benchmark/stages/seeds")
    ]
    for each in asked:
        each.parent.mkdir(parents=True)
        each.write_bytes(b"x")
        commit_json(each.with_suffix(".json"), {"sha256": "0"}, sealed=True)
    first, *others = repaired(built)
    assert path.name in first and first.endswith(": removed, to be made again")
    assert not path.exists() and not path.with_suffix(".json").exists()
    assert len(others) == 3
    for each in asked:
        (line,) = (line for line in others if str(each) in line)
        assert line.endswith(": removed; what asks for it makes it again")
        assert not each.exists() and not each.with_suffix(".json").exists()


def test_of_a_damaged_raw_part_the_documents_are_read_while_they_can_be(built: Path) -> None:
    store = Store(built)
    (part,) = store.read_pointer("default")["stages"]["raw"]["parts"]
    ids = set(store.read_part("raw", "source", part)["raw_id"].to_pylist())
    store.receipt_path("raw", "source", part).unlink()
    repair = repair_of(built)
    repair.run()
    assert repair.lost == {part: ids} and not store.part_path("raw", "source", part).exists()
    repair.run()
    assert repair.lost == {part: ids}
    assert repair_of(built)._documents("none") == set()


def test_a_copy_of_an_older_version_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_server(monkeypatch, tmp_path / "cache") as bucket:
        store = Store(f"s3://{bucket.name}/root")
        build(store.root, DOCUMENTS)
        plan = plan_of(DetectCommunities())
        (part,) = store.read_pointer("default")["stages"]["raw"]["parts"]
        place = ("triples", plan.fingerprint("triples"), part)
        kept = tmp_path / "kept"
        shutil.copytree(store.root, kept, copy_function=shutil.copy2)
        table, rows_in = store.read_part(*place), store.read_receipt(*place).rows_in
        again = store.write_part(*place, table.slice(1), rows_in=rows_in)
        shutil.rmtree(store.root)
        kept.rename(store.root)  # a machine that saw the first version alone
        store.parts(*place[:2])
        damaged = dict(Repair(store, plan, "default", tmp_path / "log")._damaged_parts())
        assert damaged == {"raw": {}, "triples": {}}
        assert store.read_receipt(*place) == again
        store.part_path(*place).unlink()
        damaged = dict(Repair(store, plan, "default", tmp_path / "log")._damaged_parts())
        assert damaged == {"raw": {}, "triples": {}}, "its receipt alone is here"


def test_the_log_of_answers_is_mended_where_there_is_one(root: Path) -> None:
    name = f"{1:015d}-{'0' * 32}"
    seal(root / "completions", name, [entry(1)])
    (root / "completions" / receipt_file(name)).unlink()
    (line,) = repaired(root)
    assert receipt_file(name) in line and repaired(root) == []
