from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.step import Place
from srrag.systems.ideprag.search_topics import SearchTopics, _once_each
from tests.unit.index.small_graph import graph_of, small_place, vector_of

PLAIN = SearchTopics(asked=False, guide=0.0)


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return small_place(tmp_path_factory.mktemp("graph"))


def asked(*questions: tuple[str, list[str]]) -> pa.Table:
    return pa.table(
        {
            "text": [text for text, _ in questions],
            "search_words": pa.array([words for _, words in questions], pa.list_(pa.string())),
            "query_vector": [vector_of(text).tobytes() for text, _ in questions],
        }
    )


def found(step: SearchTopics, at: Place, *questions: tuple[str, list[str]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = step.open(at)(asked(*questions)).to_pylist()
    return rows


def test_visits_are_those_of_a_walk_in_dense_matrices(at: Place) -> None:
    graph = graph_of(at)
    weights = graph.weights.toarray().astype(float)
    to_topic = weights.T / np.maximum(weights.T.sum(1, keepdims=True), 1e-12)
    to_entity = weights / weights.sum(1, keepdims=True)
    names = graph.entities["name"].to_pylist()
    place = np.array([name in ("Aspirin", "Tendinopathy") for name in names]) / 2
    visits = np.zeros(len(weights))
    for step in range(3):
        place = place @ (to_entity if step % 2 else to_topic)
        visits += place if step % 2 == 0 else 0
    (row,) = found(PLAIN, at, ("?", ["tendinopathy", "aspirin", "Aspirin"]))
    assert row["linked"] == ["Tendinopathy", "Aspirin"]
    assert {t["topic"]: t["visits"] for t in row["topics"]} == pytest.approx(
        {n: value for n, value in enumerate(visits) if value}, rel=1e-5
    )
    scores = [t["score"] for t in row["topics"]]
    assert scores == sorted(scores, reverse=True)
    assert scores == pytest.approx([t["visits"] for t in row["topics"]])


def test_a_walk_stays_among_what_its_entities_are_named_with(at: Place) -> None:
    graph = graph_of(at)
    (row,) = found(PLAIN, at, ("?", ["aspirin"]))
    names = graph.entities["name"].to_pylist()
    reached = {names[graph.topics["entity"][t["topic"]].as_py()] for t in row["topics"]}
    assert reached == {"Aspirin", "Fever"}, "exercise shares no evidence with them"
    texts = [t["text"].partition(". ")[2] or t["text"] for t in row["topics"] if t["text"]]
    assert texts and len(texts) == len({*texts})
    assert not any(": general. " in t["text"] for t in row["topics"])
    hidden = found(replace(PLAIN, shown=1, topics=2), at, ("?", ["aspirin"]))[0]["topics"]
    assert [bool(t["text"]) for t in hidden] == [True, False]


def test_a_model_reads_each_sentence_under_its_first_head_alone() -> None:
    told = [
        ("Falls: treatment. Training helps.", "treatment", "Falls"),
        ("age: treatment. Training helps.", "treatment", "age"),
        ("Falls: general. Many fall.", "general", "Falls"),
        ("age: general. Many fall.", "general", "age"),
        ("Rest. It helps.", "general", "Pain"),
    ]
    assert [*_once_each(told)] == [told[0][0], "", "Many fall.", "", "Rest. It helps."]


def test_the_question_guides_to_the_topic_that_is_like_it(at: Place) -> None:
    graph, question = graph_of(at), "How is tendinopathy diagnosed by imaging?"
    (row,) = found(SearchTopics(asked=False), at, (question, ["tendinopathy"]))
    likeness = graph.topic_vectors.astype(np.float32) @ vector_of(question)
    for topic in row["topics"]:
        guide = np.exp(4 * np.round(likeness[topic["topic"]], 5))
        assert topic["score"] == pytest.approx(topic["visits"] * guide, rel=1e-4)
    best = graph.topics.slice(row["topics"][0]["topic"], 1).to_pylist()[0]
    assert best["label"] == "diagnosis"


def test_a_name_that_the_graph_lacks_is_linked_to_the_nearest(at: Place) -> None:
    (row,) = found(PLAIN, at, ("?", ["acetylsalicylic acid aspirin tablet"]))
    assert row["linked"] == ["Aspirin"]
    (row,) = found(replace(PLAIN, nearest=2), at, ("?", ["aspirin"]))
    assert len(row["linked"]) == 2
    assert row["linked"][0] == "Aspirin"
    (row,) = found(SearchTopics(), at, ("Which exercise therapy?", []))
    assert row["linked"] == ["Exercise Therapy"]


def test_words_that_name_nothing_find_nothing_and_a_row_stands_alone(at: Place) -> None:
    questions = [("Does aspirin help?", ["aspirin"]), ("Nothing", []), ("Fever?", ["fever"])]
    for step in (PLAIN, SearchTopics()):
        whole = found(step, at, *questions)
        assert whole == [row for each in questions for row in found(step, at, each)]
        if not step.asked:
            assert whole[1]["topics"] == whole[1]["linked"] == []


@pytest.mark.parametrize("fields", [{"nearest": 0}, {"steps": 0}, {"topics": 0}, {"guide": -1.0}])
def test_settings_that_cannot_be_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        SearchTopics(**fields)
