from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.schema import HITS, PATHS
from srrag.core.spec import build, spec
from srrag.core.step import Place
from srrag.index.graph_reader import GraphLimits, GraphWeights
from srrag.retrieve.search_graph import SearchGraph
from tests.unit.index.graphs import ANKLE, AXES, DIMENSION, KNEE, PAIN, TAPE, index
from tests.unit.index.tables import hashed, uid


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(artifacts={"graph": index(tmp_path_factory.mktemp("graph"))})


def packed(*keys: str) -> bytes:
    return np.eye(DIMENSION, dtype=np.float32)[[AXES[key] for key in keys]].tobytes()


ENTITIES_ALONE = GraphWeights(triples=0.0, communities=0.0, spread=0.0)

QUESTIONS = pa.table(
    {
        "text": ["How is the ankle treated?", "What of the knee?", "And of nothing at all?"],
        "query_vector": [packed(ANKLE), packed(KNEE), packed(PAIN)],
        "node_vectors": [packed(KNEE, ANKLE), b"", packed(TAPE)],
        "node_types": pa.array([["Condition"], [], []], pa.list_(pa.string())),
    }
)


def test_hits_and_paths_stand_side_by_side(place: Place) -> None:
    step = SearchGraph()
    out = step.open(place)(QUESTIONS)
    assert out.schema.field("hits_graph").type == HITS
    assert out.schema.field("paths_graph").type == PATHS
    for row in out.to_pylist():
        assert len(row["hits_graph"]) == len(row["paths_graph"]) > 0
        assert [hit["rank"] for hit in row["hits_graph"]] == [*range(1, len(row["hits_graph"]) + 1)]
    first = out.to_pylist()[1]
    assert first["hits_graph"][0]["unit_id"] == uid(2)
    path = {"entity_id": KNEE, "edge_id": hashed("eases"), "community_id": "knees"}
    assert first["paths_graph"][0] == path


def test_each_part_reads_its_own_column(place: Place) -> None:
    own = SearchGraph(
        entity_vectors="node_vectors",
        types="node_types",
        weights=ENTITIES_ALONE,
        limits=GraphLimits(off_type=0.0),
    )
    assert set(own.reads) == {"text", "query_vector", "node_vectors", "node_types"}
    rows = own.open(place)(QUESTIONS).to_pylist()
    assert {path["entity_id"] for path in rows[0]["paths_graph"]} <= {ANKLE, KNEE, ""}
    assert rows[1]["paths_graph"][0]["entity_id"] == KNEE, "no vector, but a word of its name"
    assert {path["entity_id"] for path in rows[2]["paths_graph"]} - {""} == {TAPE, PAIN}


def test_limits_and_weights_are_identity() -> None:
    step = SearchGraph(limits=GraphLimits(off_type=0.5), weights=GraphWeights(spread=0.5))
    assert build(spec(step)) == step
    assert spec(step) != spec(SearchGraph())


def test_a_search_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="k is 0"):
        SearchGraph(k=0)
