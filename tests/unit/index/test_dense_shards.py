"""Shards of the dense index: searched as one, the same wherever they are made."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.core.schema import UNITS
from srrag.core.step import Place
from srrag.index.dense import BuildDenseIndex
from srrag.index.dense_shards import Codec, Draft, Part, Rows, ShardSettings, train, write
from srrag.index.opened import DenseIndex, Shard, best_of, gpus
from srrag.index.shard_plan import cut
from tests.unit.index.tables import hashed, row, vectors
from tests.unit.index.tables import write as write_rows

HERE = ShardSettings(pq_bytes=None, probes=8, rescored=0, seed=0, threads=1, device="cpu")


def parts_of(
    folder: Path, matrix: np.ndarray, sizes: Sequence[int], ids: Sequence[str] = ()
) -> dict[str, list[Path]]:
    """Parts of vectors of these sizes, and their windows, without grades."""
    ids = ids or [hashed(n) for n in range(len(matrix))]
    (folder / "w").mkdir(parents=True)
    inputs: dict[str, list[Path]] = {"vectors": [], "windows": []}
    ends = np.cumsum(sizes).tolist()
    for number, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        name, rows = f"{number:03d}.parquet", [row(UNITS, unit_id=key) for key in ids[start:end]]
        inputs["vectors"].append(vectors(ids[start:end], matrix[start:end], folder / name))
        inputs["windows"].append(write_rows(rows, UNITS, folder / "w" / name))
    return inputs


def clouds(rows: int, dimension: int = 32, seed: int = 0) -> np.ndarray:
    """Unit vectors about forty centres."""
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(40, dimension))
    matrix = centres[draw.integers(0, 40, rows)] + draw.normal(scale=0.4, size=(rows, dimension))
    return (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)


def made(out: Path, inputs: dict[str, list[Path]], at: Place | None = None, **fields: Any) -> Any:
    out.mkdir()
    return BuildDenseIndex(**fields).build(inputs, out, at or Place())


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def lattice(signs: Sequence[Sequence[int]]) -> np.ndarray:
    """Unit vectors of four signs and four zeros: their products are quarters, and often equal."""
    return np.array(signs, np.float32).reshape(-1, 8) / 2


vector = st.permutations([0, 0, 0, 0, 1, 1, -1, -1]).map(tuple)


@settings(max_examples=20, deadline=None)
@given(
    signs=st.lists(vector, min_size=1, max_size=40),
    asked=st.lists(vector, min_size=1, max_size=30),
    cuts=st.sets(st.integers(1, 39), max_size=6),
    shard_rows=st.integers(1, 40),
    k=st.integers(1, 45),
)
def test_shards_however_they_are_cut_are_one_flat_index(
    tmp_path_factory: pytest.TempPathFactory,
    signs: list[tuple[int, ...]],
    asked: list[tuple[int, ...]],
    cuts: set[int],
    shard_rows: int,
    k: int,
) -> None:
    """Ids and scores, ties too; of a batch as of each question alone."""
    folder, matrix, queries = tmp_path_factory.mktemp("cut"), lattice(signs), lattice(asked)
    ends = [*sorted(cut for cut in cuts if cut < len(signs)), len(signs)]
    sizes = np.diff([0, *ends]).tolist()
    many = made(folder / "many", parts_of(folder / "a", matrix, sizes), shard_rows=shard_rows)
    one = made(folder / "one", parts_of(folder / "b", matrix, [len(matrix)]))
    assert one["shards"] == 1 <= many["shards"] <= len(sizes)
    index = DenseIndex(folder / "many")
    found, truth = index.search(queries, k), DenseIndex(folder / "one").search(queries, k)
    alone = [index.search(queries[n : n + 1], k)[0] for n in range(len(queries))]
    for here, there, single in zip(found, truth, alone, strict=True):
        assert here[0].to_pylist() == there[0].to_pylist() == single[0].to_pylist()
        assert here[1].tolist() == there[1].tolist() == single[1].tolist()


@pytest.mark.parametrize("pq_bytes", [None, 8])
def test_shards_of_one_codec_are_one_index(tmp_path: Path, pq_bytes: int | None) -> None:
    """Lists are probed and vectors coded alike in each, so nothing is found or lost by a cut."""
    matrix, queries = clouds(1500), clouds(30, seed=1)
    inputs = parts_of(tmp_path / "p", matrix, [300] * 5)
    pairs = zip(inputs["vectors"], inputs["windows"], strict=True)
    rows, manner = Rows("E", tuple(Part(*pair, 300) for pair in pairs)), HERE
    manner = replace(manner, pq_bytes=pq_bytes)
    train(Codec(tmp_path / "codec.faiss", rows, 60, manner))
    found = []
    for name, shard_rows in (("one", 1500), ("few", 600), ("many", 1)):
        groups = cut(rows.parts, lambda part: part.rows, shard_rows)
        shards = [Rows("E", tuple(parts)) for parts in groups]
        assert len(shards) == {"one": 1, "few": 3, "many": 5}[name]
        opened = []
        for number, shard in enumerate(shards):
            path = tmp_path / f"{name}-{number}.faiss"
            write(Draft(path, shard, tmp_path / "codec.faiss", manner))
            opened.append(Shard(path, manner.probes))
        hits = [shard.search(queries, 20) for shard in opened]
        found.append([best_of(opened, [each[n] for each in hits], 20) for n in range(len(queries))])
    for one, few, many in zip(*found, strict=True):
        assert one[0].to_pylist() == few[0].to_pylist() == many[0].to_pylist()
        np.testing.assert_allclose(one[1], few[1], atol=1e-6)
        np.testing.assert_allclose(one[1], many[1], atol=1e-6)


def exact(matrix: np.ndarray, queries: np.ndarray, k: int) -> list[set[str]]:
    best = np.argsort(-(queries @ matrix.T), axis=1)[:, :k]
    return [{hashed(n) for n in places} for places in best.tolist()]


def test_short_codes_are_ranked_by_their_vectors(tmp_path: Path) -> None:
    matrix, queries = clouds(3000), clouds(40, seed=2)
    inputs = parts_of(tmp_path / "p", matrix, [1000] * 3)
    fields = {"flat_rows": 300, "probes": 64, "shard_rows": 1500, "pq_bytes": 4}
    truth = exact(matrix, queries, 100)
    recall, figures = {}, {}
    for rescored in (0, 10):
        out = tmp_path / str(rescored)
        figures[rescored] = made(out, inputs, rescored=rescored, **fields)
        found = DenseIndex(out).search(queries, 100)
        pairs = zip(found, truth, strict=True)
        shared = [len(set(ids.to_pylist()) & best) for (ids, _), best in pairs]
        recall[rescored] = float(np.mean(shared)) / 100
        assert figures[rescored]["exact"] == 0
    assert recall[0] < 0.85
    assert recall[10] > 0.95
    assert figures[0]["recall_at_100"] == pytest.approx(recall[0], abs=0.1)
    assert figures[10]["recall_at_100"] == pytest.approx(recall[10], abs=0.05)
    assert not list((tmp_path / "0").glob("*.npy"))
    ids, scores = found[0]
    places = {hashed(n): n for n in range(3000)}
    product = matrix[[places[key] for key in ids.to_pylist()]] @ queries[0]
    np.testing.assert_allclose(scores, product, atol=1e-6)


def test_codes_take_a_fraction_of_the_bytes(tmp_path: Path) -> None:
    inputs = parts_of(tmp_path / "p", clouds(3000), [3000])
    sizes = {
        name: made(tmp_path / name, inputs, flat_rows=300, **fields)["bytes_per_vector"]
        for name, fields in {"vectors": {}, "codes": {"pq_bytes": 8}}.items()
    }
    assert sizes["vectors"] > 32 * 4 + 8
    assert sizes["vectors"] - sizes["codes"] == pytest.approx(32 * 4 - 8, abs=12)


@pytest.mark.parametrize("fields", [{}, {"flat_rows": 400, "pq_bytes": 4}])
def test_what_is_spread_is_what_is_made_here(tmp_path: Path, fields: dict[str, int]) -> None:
    """Items are small, whatever they hold, and a worker that died is tried again."""
    inputs, calls = parts_of(tmp_path / "p", clouds(1200), [200] * 6), []

    def spread(call: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        values = []
        for item in items:
            assert len(pickle.dumps((call, item))) < 4000
            call(item)
            (tmp_path / "there" / f".{len(calls)}.left").touch()
            values.append(call(item))
        calls.append((call.__name__, len(items)))
        return values

    here = made(tmp_path / "here", inputs, shard_rows=400, **fields)
    there = made(tmp_path / "there", inputs, Place(spread=spread), shard_rows=400, **fields)
    assert calls == [("train", 1 if fields else 0), ("write", 3)]
    assert there == here
    assert files(tmp_path / "there") == files(tmp_path / "here")


def test_what_one_shard_holds_is_not_spread(tmp_path: Path) -> None:
    def never(call: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        raise AssertionError(call)

    made(tmp_path / "i", parts_of(tmp_path / "p", clouds(30), [10] * 3), Place(spread=never))


def test_a_codec_is_trained_on_a_sample(tmp_path: Path) -> None:
    """Of 2,000 rows it reads those of the parts that hold sixteen times what it wants."""
    inputs = parts_of(tmp_path / "p", clouds(2000), [50] * 40)
    pairs = zip(inputs["vectors"], inputs["windows"], strict=True)
    rows = Rows("E", tuple(Part(*pair, 50) for pair in pairs))
    train(Codec(tmp_path / "a.faiss", rows, 1, HERE))
    first = (tmp_path / "a.faiss").read_bytes()
    train(Codec(tmp_path / "a.faiss", rows, 1, HERE))
    assert (tmp_path / "a.faiss").read_bytes() == first
    for path in np.random.default_rng(HERE.seed).permutation(inputs["vectors"])[21:]:
        Path(path).unlink()
    train(Codec(tmp_path / "a.faiss", rows, 1, HERE))
    assert (tmp_path / "a.faiss").read_bytes() == first


def test_few_vectors_have_as_many_lists_at_most(tmp_path: Path) -> None:
    inputs = parts_of(tmp_path / "p", clouds(3), [1, 1, 1])
    assert made(tmp_path / "i", inputs, flat_rows=0, shard_rows=2)["recall_at_100"] == 1.0


def test_settings_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for fields, word in (
        ({"pq_bytes": 0}, "pq_bytes: 0"),
        ({"pq_bytes": 8, "flat_rows": 255}, "flat_rows: 256"),
        ({"rescored": -1}, "rescored: -1"),
    ):
        with pytest.raises(ValueError, match=word):
            BuildDenseIndex(**fields)
    inputs = parts_of(tmp_path / "p", clouds(300), [300])
    with pytest.raises(ValueError, match="pq_bytes: 7 does not divide the dimension, 32"):
        made(tmp_path / "i", inputs, pq_bytes=7, flat_rows=256)


def test_vectors_of_two_lengths_are_refused(tmp_path: Path) -> None:
    inputs = parts_of(tmp_path / "p", np.eye(4), [2, 2])
    vectors([hashed(2), hashed(3)], np.eye(2), inputs["vectors"][1])
    with pytest.raises(ValueError, match=r"001.parquet: vectors of 2 numbers, and 4 before"):
        made(tmp_path / "i", inputs)


def test_a_place_without_its_gpu_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import faiss

    if faiss.get_num_gpus():
        pytest.skip("FAISS has a GPU here")
    gpus.cache_clear()
    inputs = parts_of(tmp_path / "p", clouds(400), [400])
    figures = made(tmp_path / "i", inputs, Place(device="cuda"), flat_rows=300)
    assert figures["made_on"] == "cpu"
    assert DenseIndex(tmp_path / "i", device="cuda").gpus == 0
    assert caplog.text.count("FAISS finds no GPU") == 1
