"""The graph over HTTP: where to begin, and what lies around an entity."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from srrag.serve.concepts_shown import Spelling, columns_of, passes
from srrag.serve.graph_view import EvidenceWalk
from tests.unit.serve.serving import CAST, served, settings


@pytest.fixture(scope="module")
def client(sample_root: Path) -> Iterator[TestClient]:
    with served(settings(sample_root, "pipeline=bm25")) as (client, _):
        yield client


def names(client: TestClient, text: str = "") -> dict[str, Any]:
    found: dict[str, Any] = client.get("/v1/graph_view/names", params={"text": text}).json()
    return found


def test_one_begins_at_what_most_studies_name_of_each_column(client: TestClient) -> None:
    found = names(client)
    entities = found["entities"]
    assert {item["column"] for item in entities} == {0, 1, 2} and "no verb" in found["bar"]
    for column in range(3):
        studies = [item["studies"] for item in entities if item["column"] == column]
        assert 0 < len(studies) <= 12 and studies == sorted(studies, reverse=True)


def walk(client: TestClient, **params: Any) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/v1/graph_walk", params=params).raise_for_status().json()
    return found


def test_a_walk_goes_through_the_papers_of_an_answer(client: TestClient) -> None:
    reply = client.post("/v1/answers", json={"question": CAST}).json()
    doc_ids = [item["doc_id"] for item in reply["evidence"]]
    found = walk(client, document=[*doc_ids, "nobody's"], text=CAST)
    assert found["title"] == CAST and found["total"] == len(set(doc_ids))
    assert {item["doc_id"] for item in found["documents"]} <= set(doc_ids)
    named = [item for item in found["concepts"] if item["asked"]]
    assert any("sprain" in item["name"] for item in named)
    for item in found["concepts"]:
        quoted = {mention["document"] for mention in item["mentions"]}
        assert item["studies"] and quoted == set(item["studies"])
        spellings = {name.casefold() for name in [item["name"], *item["aliases"]]}
        assert any("".join(m["quote"]).casefold().count(name[:12]) for m in item["mentions"]
                   for name in spellings), "each sentence names it"  # fmt: skip


def test_a_walk_around_an_entity_holds_it_and_only_studies_that_name_it(
    client: TestClient,
) -> None:
    entity = names(client, "low back pain")["entities"][0]
    found = walk(client, entity=entity["id"])
    mine = next(item for item in found["concepts"] if item["id"] == entity["id"])
    beside = [item for item in found["concepts"] if item["column"] == mine["column"]]
    assert beside[0] == mine, "what was opened comes first"
    assert len(mine["studies"]) == len(found["documents"]) == found["total"] == entity["studies"]
    grades = [found["documents"][place]["grade"] or "F" for place in mine["studies"]]
    assert grades == sorted(grades), "best evidence first"
    columns = [item["column"] for item in found["concepts"]]
    assert max(columns.count(column) for column in range(3)) <= 12


def test_an_entity_opens_with_all_spellings_that_its_count_counts() -> None:
    concepts = [
        ("chronic obstructive pulmonary disease", "COPD", "chronic obstructive lung diseases"),
        ("haemophilia", "hemophilia"), ("oesophageal cancer", "esophageal neoplasms"),
        ("childhood leukaemia", "childhood leukemia"), ("severe COPD", "COPD severe"),
        ("T2D", "type 2 diabetes", "patients with type 2 diabetes"),
    ]  # fmt: skip
    names = pa.chunked_array([[name for each in concepts for name in each]])
    types = pa.chunked_array([["Condition"] * len(names)])
    walk: Any = object.__new__(EvidenceWalk)
    walk._names, walk.columns = names, columns_of(types, names)
    walk._spelling = Spelling({"COPD": concepts[0][0], "T2D": "type 2 diabetes"})
    walk.good = passes(names)
    walk.num_studies = np.ones(len(names), np.int64)
    for row in range(len(names)):
        (whole,) = (each for each in concepts if names[row].as_py() in each)
        assert {names[each].as_py() for each in walk.same(row)} == set(whole)


def test_names_are_found_by_a_part_and_by_likeness(client: TestClient) -> None:
    found = names(client, "LOW back  pain")["entities"]
    assert found[0]["name"].casefold() == "low back pain", "the whole name first"
    assert all("low back pain" in item["name"].casefold() for item in found)
    assert any("back pain" in item["name"] for item in names(client, "low bakc pain")["entities"])


@pytest.mark.parametrize(
    ("params", "status", "field"),
    [
        ({}, 400, "entity"),
        ({"entity": "a", "document": ["b"]}, 400, "entity"),
        ({"entity": "nobody"}, 404, "entity"),
        ({"document": ["a"] * 41}, 400, "query.document"),
    ],
)
def test_what_cannot_be_walked_is_named(
    client: TestClient, params: dict[str, Any], status: int, field: str
) -> None:
    reply = client.get("/v1/graph_walk", params=params)
    assert (reply.status_code, reply.json()["error"]["field"]) == (status, field)
