from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.schema import FOUND, HITS
from srrag.core.spec import build, canonical, spec
from srrag.core.step import Place
from srrag.index.opened import DenseIndex
from srrag.index.sparse import SparseIndex
from srrag.retrieve.candidates import FuseRanks
from srrag.retrieve.search import SearchChannel, SearchDense, SearchSparse
from srrag.retrieve.search_graph import SearchGraph
from srrag.retrieve.tracks import SearchTracks, Track
from tests.unit.index.graphs import ANKLE, AXES, KNEE, PAIN
from tests.unit.index.graphs import DIMENSION as GRAPH_DIMENSION
from tests.unit.index.graphs import index as graph_index
from tests.unit.index.tables import uid
from tests.unit.retrieve.parts import Corpus, corpus, unit_rows

GUIDELINES = Track(name="guidelines", grades=("A",), depth=4)
STUDIES = Track(name="studies", grades=("B", "C", "D", "E"), depth=9)
TEXTS = ("knee pain", "gait", "the", "hip tear and load", "sprain")


def questions(seed: int = 1) -> pa.Table:
    packed = [vector.tobytes() for vector in unit_rows(len(TEXTS), seed)]
    return pa.table({"text": list(TEXTS), "query_vector": pa.array(packed, pa.binary())})


def channels(k: int = 12) -> dict[str, SearchChannel | None]:
    return {"words": SearchSparse(k=k), "vectors": SearchDense(k=k)}


def graded(
    rows: int, seed: int, share: Sequence[float] = (0.1, 0.2, 0.2, 0.2, 0.1, 0.2)
) -> list[str]:
    draw = np.random.default_rng(seed).choice(["A", "B", "C", "D", "E", ""], rows, p=share)
    return [str(grade) for grade in draw]


def by_hand(
    windows: Corpus, batch: pa.Table, tracks: Sequence[Track], k: int
) -> list[list[tuple[str, float]]]:
    """Fused lists by brute force: whole rankings, kept to each track, then cut and summed."""
    vectors = DenseIndex(windows.place.artifact("dense"))
    words = SparseIndex(windows.place.artifact("sparse"))
    queries = np.frombuffer(b"".join(batch["query_vector"].to_pylist()), np.float32)
    whole = [
        vectors.search(queries.reshape(-1, 8), len(windows.ids)),
        words.search(batch["text"].to_pylist(), len(windows.ids)),
    ]
    grade = dict(zip(windows.ids, (g or "E" for g in windows.grades), strict=True))
    rows = []
    for place in range(batch.num_rows):
        merged: list[tuple[str, float]] = []
        for track in tracks:
            shares: dict[str, float] = {}
            for ranking in whole:
                inside = [u for u in ranking[place][0].to_pylist() if grade[u] in track.grades][:k]
                for rank, unit in enumerate(inside, 1):
                    shares[unit] = shares.get(unit, 0) + 1 / (60 + rank)
            order = sorted(shares.items(), key=lambda item: (-round(item[1], 12), item[0]))
            merged += order[: track.depth or None]
        rows.append(sorted(merged, key=lambda item: (-round(item[1], 12), item[0])))
    return rows


def hits(out: pa.Table, name: str = "hits") -> list[list[str]]:
    return [[hit["unit_id"] for hit in row] for row in out[name].to_pylist()]


@pytest.mark.parametrize("seed", range(4))
def test_each_track_is_fused_and_cut_off_apart(tmp_path: Path, seed: int) -> None:
    windows = corpus(tmp_path / "c", graded(90, seed), seed)
    batch = questions(seed + 10)
    step = SearchTracks(channels=channels(), tracks=(GUIDELINES, STUDIES))
    out = step.open(windows.place)(batch)
    expected = by_hand(windows, batch, step.tracks, 12)
    assert hits(out) == [[key for key, _ in row] for row in expected]
    for row, wanted in zip(out["hits"].to_pylist(), expected, strict=True):
        assert [hit["score"] for hit in row] == pytest.approx([s for _, s in wanted], abs=1e-7)
        assert [hit["rank"] for hit in row] == [*range(1, len(row) + 1)]


def test_every_find_stands_with_its_channel_track_and_rank(tmp_path: Path) -> None:
    windows = corpus(tmp_path / "c", graded(90, 5), 5)
    step = SearchTracks(channels=channels(k=6), tracks=(GUIDELINES, STUDIES), found="finds")
    out = step.open(windows.place)(questions())
    assert out.schema.field("finds").type == FOUND
    assert out.schema.field("hits").type == HITS
    grade = dict(zip(windows.ids, windows.grades, strict=True))
    alone = DenseIndex(windows.place.artifact("dense"))
    for place, row in enumerate(out["finds"].to_pylist()):
        order = [(find["track"], find["channel"], find["rank"]) for find in row]
        assert order == sorted(order)
        assert {find["round"] for find in row} == {1}
        assert {grade[f["unit_id"]] for f in row if f["track"] == "guidelines"} <= {"A"}
        assert "A" not in {grade[f["unit_id"]] for f in row if f["track"] == "studies"}
        query = unit_rows(len(TEXTS), 1)[place : place + 1]
        ((ids, scores),) = alone.search(query, 6, ("A",))
        mine = [f for f in row if (f["track"], f["channel"]) == ("guidelines", "vectors")]
        assert [f["unit_id"] for f in mine] == ids.to_pylist()
        assert [f["score"] for f in mine] == pytest.approx(scores.tolist(), abs=1e-6)


def test_one_track_of_all_grades_is_the_fusion_of_the_channels(tmp_path: Path) -> None:
    windows = corpus(tmp_path / "c", graded(60, 6), 6)
    batch = questions()
    out = SearchTracks(channels=channels(k=8)).open(windows.place)(batch)
    for step in (SearchSparse(k=8), SearchDense(k=8)):
        batch = step.open(windows.place)(batch)
    fused = FuseRanks(channels=("hits_sparse", "hits_dense")).open(windows.place)(batch)
    assert out["hits"].to_pylist() == fused["hits"].to_pylist()


def test_guidelines_that_a_shared_list_loses_are_found(tmp_path: Path) -> None:
    """Two windows of grade A among sixty, and lists of five."""
    windows = corpus(tmp_path / "c", ["A", "A", *["C"] * 58], 7)
    target = pa.array([(-windows.matrix[0] - windows.matrix[1]).tobytes()], pa.binary())
    batch = pa.table({"text": ["the"], "query_vector": target})
    shared = SearchTracks(channels=channels(k=5)).open(windows.place)(batch)
    assert not set(hits(shared)[0]) & set(windows.ids[:2])
    dual = SearchTracks(channels=channels(k=5), tracks=(GUIDELINES, STUDIES))
    (found,) = hits(dual.open(windows.place)(batch))
    assert set(windows.ids[:2]) < set(found)
    assert len(found) == 7


def test_a_track_without_a_window_adds_nothing(tmp_path: Path) -> None:
    windows = corpus(tmp_path / "c", ["B", "", "D"], 8)
    both = SearchTracks(channels=channels(), tracks=(GUIDELINES, STUDIES))
    one = SearchTracks(channels=channels(), tracks=(STUDIES,))
    none = SearchTracks(channels=channels(), tracks=(GUIDELINES,))
    left, right = (step.open(windows.place)(questions()) for step in (both, one))
    assert left["hits"].to_pylist() == right["hits"].to_pylist()
    empty = none.open(windows.place)(questions())
    assert hits(empty) == hits(empty, "found") == [[]] * len(TEXTS)


def test_grades_of_no_track_are_not_searched(tmp_path: Path) -> None:
    windows = corpus(tmp_path / "c", ["A", "B", "C", "D", "E"], 9)
    step = SearchTracks(channels=channels(), tracks=(Track(name="trials", grades=("C",)),))
    found = hits(step.open(windows.place)(questions()))
    assert {key for row in found for key in row} == {windows.ids[2]}


def test_the_order_of_the_channels_does_not_matter(tmp_path: Path) -> None:
    windows = corpus(tmp_path / "c", graded(40, 11), 11)
    one = SearchTracks(channels={**channels(), "gone": None}, tracks=(GUIDELINES, STUDIES))
    other = SearchTracks(channels=dict(reversed(channels().items())), tracks=(GUIDELINES, STUDIES))
    assert one == other == build(spec(one)) == pickle.loads(pickle.dumps(one))
    assert canonical(spec(one)) == canonical(spec(other))
    left, right = (step.open(windows.place)(questions()) for step in (one, other))
    assert left.equals(right)


def test_the_graph_says_what_led_to_a_window(tmp_path: Path) -> None:
    """Windows 0 and 3 of the small graph are A, 1 is B, 2 is C, 4 is E, of one paper with 3."""
    place = Place(artifacts={"graph": graph_index(tmp_path)})
    axes = np.eye(GRAPH_DIMENSION, dtype=np.float32)
    vectors = [axes[AXES[key]].tobytes() for key in (ANKLE, KNEE, PAIN)]
    batch = pa.table({"text": ["?"] * 3, "query_vector": pa.array(vectors, pa.binary())})
    out = SearchTracks(channels={"graph": SearchGraph()}, tracks=(GUIDELINES, STUDIES)).open(place)(
        batch
    )
    alone = SearchGraph().open(place)(batch)
    for row, paths, single in zip(
        out["found"].to_pylist(), alone["paths_graph"].to_pylist(), hits(alone, "hits_graph"),
        strict=True,
    ):  # fmt: skip
        assert {f["unit_id"] for f in row if f["track"] == "guidelines"} == {uid(0), uid(3)}
        assert {f["unit_id"] for f in row if f["track"] == "studies"} == {uid(1), uid(2), uid(4)}
        led: dict[str, Any] = dict(zip(single, paths, strict=True))
        for find in row:
            assert {name: find[name] for name in led[find["unit_id"]]} == led[find["unit_id"]]
    assert out["found"].to_pylist()[0][0]["entity_id"] == ANKLE


def test_reads_and_needs_what_its_channels_do() -> None:
    step = SearchTracks(
        channels={"words": SearchSparse(), "hyde": SearchDense(vectors="passages", index="other")},
        into="hits_fused",
    )
    assert set(step.reads) == {"text", "passages"}
    assert set(step.needs()) == {"sparse", "other"}
    assert step.writes.names == ["found", "hits_fused"]


@pytest.mark.parametrize(
    ("tracks", "fault"),
    [
        ((GUIDELINES, Track(name="x", grades=("B", "A"))), "grade 'A' stands twice"),
        ((GUIDELINES, Track(name="all")), "grade 'A' stands twice"),
        ((GUIDELINES, Track(name="guidelines", grades=("B",))), "name 'guidelines' stands twice"),
        ((), "at least one of each"),
    ],
)
def test_tracks_that_share_something_are_refused(tracks: tuple[Track, ...], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        SearchTracks(channels=channels(), tracks=tracks)


def test_a_search_by_no_channel_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one of each"):
        SearchTracks(channels={"words": None})


def test_a_grade_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="grade 'F': the grades are A, B, C, D, E"):
        Track(name="x", grades=("F",))
    with pytest.raises(ValueError, match="cannot be negative"):
        Track(name="x", depth=-1)
