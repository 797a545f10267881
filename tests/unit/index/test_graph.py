from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from srrag.index.graph import BuildGraphIndex
from srrag.index.graph_reader import GraphIndex, GraphLimits, GraphQuestion, GraphWeights, Reached
from srrag.schema import COMMUNITIES, EDGES, ENTITIES
from srrag.step import Place
from srrag.storage.atomic_write import write_parquet
from tests.unit.index.graphs import (
    ANKLE,
    AXES,
    DIMENSION,
    KNEE,
    PAIN,
    TAPE,
    WINDOWS,
    index,
    make,
)
from tests.unit.index.tables import hashed, uid, vectors

PLAIN = GraphWeights(context=1.0, entity=1.0, exact=0.5, triple=1.0, community=1.0)
NONE = np.zeros((0, DIMENSION), np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return index(tmp_path_factory.mktemp("graph"))


def towards(*keys: str) -> np.ndarray:
    """One vector a key, (n, d)."""
    return np.eye(DIMENSION, dtype=np.float32)[[AXES[key] for key in keys]].reshape(-1, DIMENSION)


def ask(
    folder: Path,
    limits: GraphLimits | None = None,
    text: str = "what?",
    k: int = 9,
    weights: GraphWeights = PLAIN,
    grades: tuple[str, ...] = (),
    **parts: object,
) -> Reached:
    given: dict[str, object] = {"entity": NONE, "triple": NONE, "community": NONE, **parts}
    question = GraphQuestion(text, np.zeros(DIMENSION, np.float32), **given)  # type: ignore[arg-type]
    (found,) = GraphIndex(folder, weights, limits or GraphLimits()).search(question, k, [grades])
    return found


def numbers(found: Reached) -> list[int]:
    return [int(key[:16], 16) for key in found.unit_ids.to_pylist()]


def test_an_entity_leads_to_the_windows_that_mention_it(folder: Path) -> None:
    found = ask(folder, entity=towards(ANKLE))
    assert numbers(found)[:2] == [0, 1]
    assert found.scores[:2] == pytest.approx([1, 1], abs=0.01)
    assert found.entity_ids.to_pylist()[:2] == [ANKLE, ANKLE]
    assert set(found.edge_ids.to_pylist()) == {""}
    assert 4 not in numbers(found), "a window that mentions nothing is not of the graph"


def test_of_several_vectors_the_nearest_counts(folder: Path) -> None:
    found = ask(folder, entity=towards(ANKLE, KNEE))
    assert numbers(found)[:3] == [0, 1, 2]
    assert found.entity_ids.to_pylist()[:3] == [ANKLE, ANKLE, KNEE]


def test_a_triple_leads_to_the_window_that_states_it(folder: Path) -> None:
    question = towards(TAPE) + towards(KNEE)
    found = ask(folder, triple=question / np.sqrt(2))
    assert numbers(found)[0] == 2
    assert found.edge_ids[0].as_py() == hashed("eases")
    assert found.scores[0] == pytest.approx(1, abs=0.01)


def test_an_attribute_is_reached_through_its_entity(folder: Path) -> None:
    found = ask(folder, triple=towards(TAPE), limits=GraphLimits(relations=("has_attribute",)))
    assert (numbers(found), found.edge_ids.to_pylist()) == ([1], [hashed("dosed")])
    assert found.scores[0] == pytest.approx(1, abs=0.01)


def test_a_document_speaks_by_its_windows(folder: Path) -> None:
    mean = (WINDOWS[0] + WINDOWS[1]) / np.sqrt(2)
    only = GraphLimits(relations=("reports_outcome",))
    found = ask(folder, triple=mean[None].astype(np.float32), limits=only)
    assert found.edge_ids.to_pylist() == [hashed("reports")]
    assert found.scores[0] == pytest.approx(1 / np.sqrt(2), abs=0.01)


def test_a_community_leads_to_its_members_windows(folder: Path) -> None:
    best = towards(KNEE)
    found = ask(folder, entity=towards(PAIN), community=best, limits=GraphLimits(communities=1))
    assert set(numbers(found)) == {1, 2, 3}
    assert set(found.community_ids.to_pylist()) == {"knees"}
    assert len(numbers(ask(folder, entity=towards(PAIN), community=best))) == 4
    alone = ask(folder, community=best)
    assert numbers(alone)[:3] == [1, 2, 3]
    assert set(alone.entity_ids.to_pylist()) == {""}
    assert len(ask(folder, community=best, types=("Condition",)).unit_ids) == 0


def test_a_name_that_the_question_holds_gains_by_its_rarity(folder: Path) -> None:
    plain = ask(folder, entity=towards(PAIN))
    named = ask(folder, entity=towards(PAIN), text="Is taping good for an ankle sprain?")
    rarity = np.log1p(5 / 2) / np.log1p(5)
    assert plain.scores[numbers(plain).index(0)] == pytest.approx(0, abs=0.01)
    assert named.scores[numbers(named).index(0)] == pytest.approx(0.5 * rarity, abs=0.01)
    assert named.entity_ids[numbers(named).index(0)].as_py() in (ANKLE, TAPE)


def test_types_and_grades_limit_what_is_found(folder: Path) -> None:
    both = towards(TAPE, KNEE)
    only = ask(folder, limits=GraphLimits(entity_types=("Condition",)), entity=both)
    assert numbers(only) == [2, 0, 1]
    assert set(only.entity_ids.to_pylist()) == {ANKLE, KNEE}
    assert numbers(ask(folder, grades=("C",), entity=both)) == [2]
    assert numbers(ask(folder, entity=both, types=("Condition",))) == [2, 0, 1]
    outside = ask(
        folder, limits=GraphLimits(entity_types=("Outcome",)), entity=both, types=("Condition",)
    )
    assert len(outside.unit_ids) == 0
    assert len(ask(folder, entity=both, types=("Dragon",)).unit_ids) == 0


def test_each_track_has_its_own_best_windows(folder: Path) -> None:
    """Windows 0 and 3 are A, 1 is B, 2 is C; pain is mentioned by 1, 2 and 3."""
    question = GraphQuestion("?", np.zeros(DIMENSION, np.float32), towards(PAIN), NONE, NONE)
    index = GraphIndex(folder, PLAIN, GraphLimits())
    tracks = [("A",), ("B", "C", "D", "E"), ("D",), ()]
    first, rest, nothing, every = index.search(question, 1, tracks)
    assert [numbers(found) for found in (first, rest, nothing, every)] == [[3], [1], [], [1]]
    assert first.entity_ids.to_pylist() == [PAIN]
    assert len(nothing.entity_ids) == 0
    (alone,) = index.search(question, 9, [("A",)])
    assert numbers(alone) == [3, 0]


def test_k_bounds_the_windows_and_ties_go_by_id(folder: Path) -> None:
    assert numbers(ask(folder, entity=towards(PAIN), k=2)) == [1, 2]


def test_the_windows_own_vector_counts_as_context(folder: Path) -> None:
    question = GraphQuestion("?", WINDOWS[3].astype(np.float32), NONE, NONE, NONE)
    (found,) = GraphIndex(folder, PLAIN, GraphLimits()).search(question, 2)
    assert numbers(found) == []  # no part was asked, so nothing was reached
    question = GraphQuestion("?", WINDOWS[3].astype(np.float32), towards(PAIN), NONE, NONE)
    (found,) = GraphIndex(folder, PLAIN, GraphLimits()).search(question, 2)
    assert numbers(found) == [3, 0]
    assert found.scores == pytest.approx([2, 1], abs=0.01)


def test_the_index_does_not_depend_on_the_run(tmp_path: Path) -> None:
    first, second = index(tmp_path / "a"), index(tmp_path / "b")
    names = sorted(path.name for path in first.iterdir())
    assert names == sorted(path.name for path in second.iterdir())
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_vectors_of_two_encoders_are_refused(tmp_path: Path) -> None:
    paths = make(tmp_path / "inputs")
    ids = [uid(n) for n in range(len(WINDOWS))]
    paths["vectors"] = [vectors(ids, WINDOWS[:, :4], tmp_path / "other.parquet")]
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError, match="both need one encoder"):
        BuildGraphIndex().build(paths, tmp_path / "out", Place())


def test_a_graph_without_entities_is_searched_in_vain(tmp_path: Path) -> None:
    paths = make(tmp_path / "inputs")
    for folder, name, schema in (
        (paths["entities"][0], "entities", ENTITIES),
        (paths["entities"][0], "edges", EDGES),
        (paths["communities"][0], "communities", COMMUNITIES),
    ):
        write_parquet(schema.empty_table(), folder / f"{name}.parquet")
    np.save(paths["communities"][0] / "entity_vectors.npy", np.zeros((0, DIMENSION), np.float16))
    empty = pa.table({"entity_id": pa.array([], pa.string())})
    write_parquet(empty, paths["communities"][0] / "entity_vectors.parquet")
    (tmp_path / "out").mkdir()
    figures = BuildGraphIndex().build(paths, tmp_path / "out", Place())
    assert figures["windows_reached"] == 0
    assert len(ask(tmp_path / "out", entity=towards(ANKLE), triple=towards(ANKLE)).unit_ids) == 0
