"""The graph over HTTP: where to begin, and what lies around an entity or in a community."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.unit.serve.serving import served, settings


@pytest.fixture(scope="module")
def client(sample_root: Path) -> Iterator[TestClient]:
    with served(settings(sample_root, "pipeline=bm25")) as (client, _):
        yield client


def names(client: TestClient, text: str = "") -> dict[str, Any]:
    found: dict[str, Any] = client.get("/v1/graph_view/names", params={"text": text}).json()
    return found


def test_one_begins_at_the_best_connected_of_each_type_or_a_large_community(
    client: TestClient,
) -> None:
    found = names(client)
    types = [item["type"] for item in found["entities"]]
    assert "Document" not in types and {"Intervention", "Outcome"} <= set(types)
    assert all(types.count(name) <= 6 for name in types)
    sizes = [item["size"] for item in found["communities"]]
    assert sizes == sorted(sizes, reverse=True)
    assert all(item["names"] for item in found["communities"])


def test_names_are_found_by_a_part_and_by_likeness(client: TestClient) -> None:
    found = names(client, "LOW back  pain")["entities"]
    assert found[0]["name"].casefold() == "low back pain", "the whole name first"
    assert all("low back pain" in item["name"].casefold() for item in found)
    assert any("back pain" in item["name"] for item in names(client, "low bakc pain")["entities"])
    assert names(client, "low back pain")["communities"] == []


def test_a_neighbourhood_is_drawn_with_places_relations_and_sentences(client: TestClient) -> None:
    entity = names(client, "low back pain")["entities"][0]
    params: dict[str, Any] = {"entity": entity["id"], "hops": 2, "max_nodes": 200}
    drawn = client.get("/v1/graph_view", params=params).json()
    assert drawn["title"] == f"Around “{entity['name']}”" and drawn["explore"]
    nodes = drawn["nodes"]
    assert len(nodes) <= 200 and {"x", "y", "r", "community", "id"} <= nodes[0].keys()
    assert [node["id"] for node in nodes if node["centre"]] == [entity["id"]]
    ends = [edge[end] for edge in drawn["edges"] for end in ("source", "target")]
    assert ends and set(ends) <= set(range(len(nodes)))
    assert any(mention["quote"] for node in nodes for mention in node["mentions"])
    fewer = client.get("/v1/graph_view", params={**params, "max_nodes": 5}).json()
    assert len(fewer["nodes"]) == 5 and fewer["total"] == drawn["total"]


def test_an_entity_is_found_by_its_id_and_by_its_whole_name(client: TestClient) -> None:
    entity = names(client, "low back pain")["entities"][0]
    by_id, by_name = (
        client.get(f"/v1/graph/{wanted}", params={"max_nodes": 9}).json()
        for wanted in (entity["id"], "LOW%20back%20 pain")
    )
    assert by_id == by_name
    assert by_id["entity"] == entity
    assert by_id["version"] == client.get("/readyz").json()["version"]
    ends = {edge[end] for edge in by_id["edges"] for end in ("source", "target")}
    number = len(by_id["nodes"])
    assert 1 < number <= 9 and ends and ends <= set(range(number))
    assert [node["id"] for node in by_id["nodes"] if node["centre"]] == [entity["id"]]
    operation = client.get("/openapi.json").json()["paths"]["/v1/graph/{entity}"]["get"]
    assert operation["parameters"][0]["schema"]["examples"] == ["low back pain"]


@pytest.mark.parametrize("wanted", ["nobody", "low back", "a/b", "%00", "%20"])
def test_an_entity_that_is_not_in_the_graph_is_404(client: TestClient, wanted: str) -> None:
    reply = client.get(f"/v1/graph/{wanted}")
    assert (reply.status_code, reply.json()["error"]["field"]) == (404, "entity")


def test_a_community_is_drawn_and_each_node_names_it(client: TestClient) -> None:
    community = names(client)["communities"][0]
    drawn = client.get("/v1/graph_view", params={"community": community["id"]}).json()
    assert {node["community"] for node in drawn["nodes"]} == {community["id"]}
    assert drawn["total"] == community["size"]


@pytest.mark.parametrize(
    ("params", "status", "field"),
    [
        ({}, 400, "entity"),
        ({"entity": "a", "community": "b"}, 400, "entity"),
        ({"entity": "nobody"}, 404, "entity"),
        ({"community": "0"}, 404, "community"),
        ({"entity": "a", "max_nodes": 201}, 400, "query.max_nodes"),
        ({"entity": "a", "hops": 9}, 400, "query.hops"),
    ],
)
def test_what_is_no_part_of_the_graph_is_named(
    client: TestClient, params: dict[str, Any], status: int, field: str
) -> None:
    reply = client.get("/v1/graph_view", params=params)
    assert (reply.status_code, reply.json()["error"]["field"]) == (status, field)
