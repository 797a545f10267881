from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.core.step import Place
from srrag.index.tokens import BuildTokenIndex, TokenIndex
from tests.unit.index.tables import hashed, uid, vectors

SCALE = np.float16(1 / 127)


def built(out: Path, paths: list[Path]) -> tuple[TokenIndex, dict[str, object]]:
    out.mkdir()
    figures = BuildTokenIndex().build({"vectors": paths}, out, Place())
    return TokenIndex(out), figures


def test_takes_what_was_written_in_the_order_asked(tmp_path: Path) -> None:
    """Windows of 2, 0, 1 and 3 tokens in two parts."""
    sizes = [2, 0, 1, 3]
    tokens = [np.full((size, 2), n + 1) for n, size in enumerate(sizes)]
    tokens[3] = np.array([[-128, 127], [0, 1], [2, 3]])
    ids = [uid(n) for n in (40, 10, 30, 20)]
    paths = [
        vectors(ids[:1], np.ones((1, 2)), tmp_path / "a.parquet", tokens[:1]),
        vectors(ids[1:], np.ones((3, 2)), tmp_path / "b.parquet", tokens[1:]),
    ]
    index, figures = built(tmp_path / "i", paths)
    assert figures == {"windows": 4, "tokens": 6, "dimension": 2, "cut": 0}
    values, scales, offsets = index.take([uid(20), uid(10), uid(40), uid(20)])
    assert offsets.tolist() == [0, 3, 3, 5, 8]
    last = [[-128, 127], [0, 1], [2, 3]]
    assert values.tolist() == [*last, [1, 1], [1, 1], *last]
    assert scales.tolist() == [SCALE] * 8
    assert values.dtype == np.int8
    assert scales.dtype == np.float16


def test_sentence_vectors_stand_beside_the_tokens(tmp_path: Path) -> None:
    matrix = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, -1.0]])
    ids = [uid(n) for n in (4, 1, 3)]
    paths = [
        vectors(ids[:1], matrix[:1], tmp_path / "a.parquet"),
        vectors(ids[1:], matrix[1:], tmp_path / "b.parquet", [np.ones((2, 3)), np.ones((1, 3))]),
    ]
    index, _ = built(tmp_path / "i", paths)
    found = index.take_vectors([uid(3), uid(4), uid(1), uid(3)])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, matrix[[2, 0, 1, 2]].astype(np.float32))
    assert index.take_vectors([]).shape == (0, 2)
    with pytest.raises(ValueError, match=uid(9)):
        index.take_vectors([uid(9)])


def test_windows_without_tokens_alone(tmp_path: Path) -> None:
    path = vectors([uid(1), uid(2)], np.ones((2, 3)), tmp_path / "p.parquet")
    index, figures = built(tmp_path / "i", [path])
    assert figures == {"windows": 2, "tokens": 0, "dimension": 3, "cut": 0}
    values, scales, offsets = index.take([uid(2), uid(1)])
    assert values.shape == (0, 3)
    assert scales.shape == (0,)
    assert offsets.tolist() == [0, 0, 0]


def test_no_window_at_all(tmp_path: Path) -> None:
    path = vectors([uid(1)], np.ones((1, 3)), tmp_path / "p.parquet", refused=[uid(1)])
    index, figures = built(tmp_path / "i", [path])
    assert figures["windows"] == 0
    values, _, offsets = index.take([])
    assert len(values) == len(index.take_vectors([])) == 0
    assert offsets.tolist() == [0]


@pytest.mark.parametrize("shard_rows", [1, 100])
def test_a_window_without_vectors_has_no_token_and_zeros(tmp_path: Path, shard_rows: int) -> None:
    """Its row was rejected: searches by words find it all the same."""
    ids = [uid(n) for n in range(4)]
    tokens = [np.full((2, 3), n + 1) for n in range(4)]
    paths = [
        vectors(ids[:1], np.ones((1, 2)), tmp_path / "a.parquet", tokens[:1], refused=ids[:1]),
        vectors(ids[1:], np.ones((3, 2)), tmp_path / "b.parquet", tokens[1:], refused=ids[3:]),
    ]
    (tmp_path / "i").mkdir()
    build = BuildTokenIndex(shard_rows=shard_rows)
    figures = build.build({"vectors": paths}, tmp_path / "i", Place())
    assert figures == {"windows": 2, "tokens": 4, "dimension": 3, "cut": 0}
    index = TokenIndex(tmp_path / "i")
    values, _, offsets = index.take(ids)
    assert offsets.tolist() == [0, 0, 2, 4, 4]
    assert values.tolist() == [[2] * 3] * 2 + [[3] * 3] * 2
    assert index.take_vectors(ids).tolist() == [[0, 0], [1, 1], [1, 1], [0, 0]]


def test_an_unknown_window_is_named(tmp_path: Path) -> None:
    path = vectors([uid(1)], np.ones((1, 1)), tmp_path / "p.parquet")
    index, _ = built(tmp_path / "i", [path])
    with pytest.raises(ValueError, match=uid(2)):
        index.take([uid(2)])


def test_tokens_may_be_wider_than_the_sentence_vector(tmp_path: Path) -> None:
    """So they are where a model has a dense layer behind its pooling."""
    tokens = [np.array([[1, 2, 3, 4], [5, 6, 7, 8]])]
    path = vectors([uid(1)], np.ones((1, 2)), tmp_path / "p.parquet", tokens)
    index, figures = built(tmp_path / "i", [path])
    assert figures["dimension"] == 4
    assert index.take_vectors([uid(1)]).tolist() == [[1.0, 1.0]]
    assert index.take([uid(1)])[0].tolist() == tokens[0].tolist()


@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=12), cut=st.integers(0, 12))
def test_any_split_into_parts_is_one_index(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("tokens")
    random = np.random.default_rng(sum(sizes))
    tokens = [random.integers(-128, 128, size=(size, 3)) for size in sizes]
    ids = [hashed(n) for n in range(len(sizes))]
    paths = [
        vectors(ids[some], np.ones((len(ids[some]), 3)), folder / f"{n}.parquet", tokens[some])
        for n, some in enumerate((slice(0, cut), slice(cut, None)))
        if ids[some]
    ]
    index, _ = built(folder / "i", paths)
    values, _, offsets = index.take(ids[::-1])
    for place, expected in enumerate(tokens[::-1]):
        assert values[offsets[place] : offsets[place + 1]].tolist() == expected.tolist()


def test_token_vectors_are_on_disk_once(tmp_path: Path) -> None:
    """A part that stores them plain is linked; one that does not is written again."""
    tokens = [np.full((30, 8), 7), np.zeros((9, 8)), np.full((5, 8), -7)]
    ids = [hashed(n) for n in range(3)]
    plain = vectors(ids, np.ones((3, 8)), tmp_path / "plain.parquet", tokens)
    packed = tmp_path / "packed.parquet"
    pq.write_table(pq.read_table(plain), packed)
    for part, linked in ((plain, True), (packed, False)):
        out = tmp_path / f"of {part.stem}"
        index, _ = built(out, [part])
        link = out / f"tokens-{part.name}"
        assert link.samefile(part) == linked
        assert np.array_equal(index.take(ids)[0], np.concatenate(tokens))
        wanted = tokens[0].astype(np.int8).tobytes()
        assert [path for path in out.iterdir() if wanted in path.read_bytes()] == [link]
