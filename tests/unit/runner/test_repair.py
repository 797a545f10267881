from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from srrag.graph.communities import DetectCommunities
from srrag.index.tokens import TokenIndex
from srrag.runner.deletion.tombstones import COPY, FILE, Tombstones
from srrag.runner.verify import verify
from srrag.storage.manifest import DamagedError
from srrag.storage.store import Store
from tests.crash import roots
from tests.unit.runner.forgetting import write_papers
from tests.unit.runner.test_update import DOCUMENTS, build, tables


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
