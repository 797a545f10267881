from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.core.spec import file_sha256
from srrag.core.step import Place, PreviousVersion
from srrag.model.encoder import Encoder
from srrag.systems.rasrag.textbook_tree import BuildTextbookTree, TreeForest, natural
from tests.unit.index.forests import Book, parts, stu, unit
from tests.unit.index.tables import hashed

X, Y = [1.0, 0.0], [0.0, 1.0]
BOOK: Book = {"2": [[X, Y], [Y]], "10": [[X]], "1": [[Y, Y]]}
BUILD = BuildTextbookTree(encoder=Encoder())


def built(
    listed: list[dict[str, Path]], out: Path, former: Path | None = None
) -> dict[str, object]:
    inputs = {name: [each[name] for each in listed] for name in listed[0]}
    out.mkdir(parents=True)
    if former is None:
        return dict(BUILD.build(inputs, out, Place()))
    return dict(BUILD.update(inputs, out, Place(), PreviousVersion(former, frozenset())))


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: file_sha256(path) for path in folder.iterdir()}


def test_roots_and_units_are_in_reading_order(tmp_path: Path) -> None:
    figures = built([parts(BOOK, tmp_path)], tmp_path / "out")
    forest = TreeForest(tmp_path / "out")
    assert forest.titles() == ["Chapter 1", "Chapter 2", "Chapter 10"]
    assert forest.roots["titles"].to_pylist()[0] == ["Chapter 1", "Section 1"]
    assert forest.btu_root.tolist() == [0, 1, 1, 2]
    assert forest.first_btu.tolist() == [0, 1, 3, 4]
    assert forest.first_stu.tolist() == [0, 2, 4, 5, 6]
    assert forest.stu_ids.to_pylist()[2:5] == [stu("2", 0, 0), stu("2", 0, 1), stu("2", 1, 0)]
    assert forest.btu_of([stu("10", 0, 0), stu("2", 1, 0)]).tolist() == [3, 2]
    assert (figures["roots"], figures["btus"], figures["stus"]) == (3, 4, 6)


def test_a_btu_has_the_mean_of_its_stus(tmp_path: Path) -> None:
    built([parts(BOOK, tmp_path)], tmp_path / "out")
    found = TreeForest(tmp_path / "out").btu_vectors
    assert np.allclose(found[1], unit([1, 1]), atol=1e-6)
    assert np.allclose(found[2], unit(Y), atol=1e-6)


def test_a_chapter_that_comes_makes_only_its_own_btus_and_the_tree_of_a_build_from_nothing(
    tmp_path: Path,
) -> None:
    old, new = parts(BOOK, tmp_path, "a"), parts({"3": [[X], [Y]]}, tmp_path, "b")
    built([old], tmp_path / "former")
    figures = built([old, new], tmp_path / "updated", tmp_path / "former")
    built([new, old], tmp_path / "anew")
    assert (figures["btus"], figures["btus_made"], figures["titles_encoded"]) == (6, 2, 2)
    assert hashes(tmp_path / "updated") == hashes(tmp_path / "anew")


def test_a_chapter_that_goes_makes_nothing_and_leaves_the_tree_of_a_build_from_nothing(
    tmp_path: Path,
) -> None:
    rest = parts({name: BOOK[name] for name in ("2", "1")}, tmp_path, "rest")
    built([parts(BOOK, tmp_path, "all")], tmp_path / "former")
    figures = built([rest], tmp_path / "updated", tmp_path / "former")
    built([rest], tmp_path / "anew")
    assert (figures["btus_made"], figures["titles_encoded"]) == (0, 0)
    assert hashes(tmp_path / "updated") == hashes(tmp_path / "anew")


def test_a_document_without_a_chapter_is_a_root(tmp_path: Path) -> None:
    built([parts({"x": [[X]], "1": [[Y]], "y": [[X]]}, tmp_path)], tmp_path / "out")
    forest = TreeForest(tmp_path / "out")
    assert forest.roots["titles"].to_pylist() == [
        ["Section x"], ["Section y"], ["Chapter 1", "Section 1"],
    ]  # fmt: skip


def test_a_root_without_btus_and_a_btu_without_stus(tmp_path: Path) -> None:
    made = parts({"1": [[X]], "2": [], "3": [[], [Y]]}, tmp_path)
    built([made], tmp_path / "out")
    forest = TreeForest(tmp_path / "out")
    assert forest.titles() == ["Chapter 1", "Chapter 3"]
    assert np.isfinite(forest.btu_vectors).all()
    assert forest.btu_of([stu("3", 1, 0)]).tolist() == [len(forest.btus) - 1]


def test_nothing_to_index_and_unknown_roots_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no text unit"):
        built([parts({"1": [[]]}, tmp_path)], tmp_path / "out")
    with pytest.raises(ValueError, match="roots is 'page'"):
        BuildTextbookTree(roots="page", encoder=Encoder())  # type: ignore[arg-type]


def test_an_unknown_unit_is_named(tmp_path: Path) -> None:
    built([parts(BOOK, tmp_path)], tmp_path / "out")
    with pytest.raises(ValueError, match=hashed("nowhere")):
        TreeForest(tmp_path / "out").btu_of([hashed("nowhere")])


def test_numbers_sort_by_value() -> None:
    assert sorted(["10", "2", "", "2b", "A"], key=natural) == ["", "A", "2", "2b", "10"]


def graph(folder: Path, of: dict[str, str]) -> dict[str, Path]:
    """The community of each chapter's document, and an entity of the same name that is none."""
    made = {name: folder / name for name in ("entities", "communities")}
    for path in made.values():
        path.mkdir(parents=True)
    rows = [(f"e{n}", hashed(("doc", chapter)), "Document") for n, chapter in enumerate(of)]
    rows.append(("drug", hashed(("doc", next(iter(of)))), "Intervention"))
    columns = zip(("entity_id", "name", "type"), zip(*rows, strict=True), strict=True)
    pq.write_table(pa.table(dict(columns)), made["entities"] / "entities.parquet")
    found = {"entity_id": [f"e{n}" for n in range(len(of))], "community_id": [*of.values()]}
    pq.write_table(pa.table(found), made["communities"] / "communities.parquet")
    return made


def test_communities_are_roots_and_a_document_in_none_is_one(tmp_path: Path) -> None:
    listed = parts(BOOK, tmp_path) | graph(tmp_path / "graph", {"1": "c", "10": "c"})
    inputs = {name: [path] for name, path in listed.items()}
    (out := tmp_path / "out").mkdir()
    build = replace(BUILD, roots="community")
    assert build.build(inputs, out, Place())["roots"] == 2
    forest = TreeForest(out)
    titles = [["Chapter 1", "Section 1", "Section 10"], ["Chapter 2", "Section 2"]]
    assert sorted(forest.roots["titles"].to_pylist()) == titles
    with pytest.raises(ValueError, match="roots=community: the stage lacks the input 'entities'"):
        build.build({name: inputs[name] for name in inputs if name != "entities"}, out, Place())
