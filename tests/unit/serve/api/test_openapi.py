"""The description's examples: valid by its schemas, and of the shape that a server answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from srrag.serve.api.app import create_app
from srrag.serve.api.openapi import EXAMPLES
from srrag.serve.service import PipelineService
from tests.unit.serve.examples import KEY, KEY_HASH, data, real
from tests.unit.serve.serving import CAST, events, served, settings

REGENERATE = "python -m tests.unit.serve.examples"


@pytest.fixture(scope="module")
def description(sample_root: Path) -> dict[str, Any]:
    app = create_app(PipelineService(settings(sample_root, "pipeline=bm25")))._app
    found: dict[str, Any] = app.openapi()
    return found


def contents(description: dict[str, Any]) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Path, status, kind and what is said of each response of an operation."""
    for path, operations in description["paths"].items():
        for operation in operations.values():
            for status, told in operation["responses"].items():
                for kind, content in told["content"].items():
                    yield path, status, kind, content


def closed(schema: Any) -> Any:
    """The schema under which an object holds nothing that is not declared."""
    if isinstance(schema, Mapping):
        inner = {key: closed(value) for key, value in schema.items()}
        return {**inner, "additionalProperties": False} if "properties" in schema else inner
    return list(map(closed, schema)) if isinstance(schema, list) else schema


@pytest.fixture(scope="module")
def components(description: dict[str, Any]) -> dict[str, Any]:
    """The description's components, closed, each a schema as it has to be."""
    for schema in description["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    found: dict[str, Any] = closed(description["components"])
    return found


def check(value: Any, schema: Any, components: dict[str, Any]) -> None:
    """Raise if a value is not what a schema of the description says."""
    whole = {**closed(schema), "components": components}
    jsonschema.Draft202012Validator(whole).validate(value)


def test_each_response_has_an_example_that_its_schema_allows(
    description: dict[str, Any], components: dict[str, Any]
) -> None:
    for path, status, kind, content in contents(description):
        if kind == "application/json":
            assert content["schema"], (path, status)
            check(content["example"], content["schema"], components)
        elif path != "/metrics":
            assert kind == "text/event-stream" and content["example"], path


def test_each_body_has_an_example_where_it_is_asked_for(
    description: dict[str, Any], components: dict[str, Any]
) -> None:
    asked = {
        path: operation["requestBody"]["content"]["application/json"]
        for path, operations in description["paths"].items()
        for operation in operations.values()
        if "requestBody" in operation
    }
    assert len(asked) == 7 and "/admin/reload" not in asked
    for content in asked.values():
        check(content["example"], content["schema"], components)


@pytest.mark.parametrize("keyed", [False, True])
def test_the_description_says_where_a_key_is_needed(
    sample_root: Path, tmp_path: Path, keyed: bool
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"clinic {KEY_HASH} admin\n")
    told = settings(sample_root, "pipeline=bm25", *([f"api_keys={keys}"] if keyed else []))
    key = {"authorization": KEY["authorization"]}
    with served(told, headers=key) as (client, _):
        described = client.get("/openapi.json").json()
        del client.headers["authorization"]
        for path, operations in described["paths"].items():
            for method, operation in operations.items():
                needs = bool(operation.get("security", described["security"]))
                bare = client.request(method, path, json={} if method == "post" else None)
                assert (bare.status_code == 401) == needs, (method, path)
    (scheme,) = described["components"]["securitySchemes"].values()
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")


def test_the_last_event_of_the_streams_is_an_answer(components: dict[str, Any]) -> None:
    answer = {"$ref": "#/components/schemas/AnswerRecord"}
    final = events((EXAMPLES / "answer_stream.txt").read_text("utf-8"))[-1]
    assert final[0] == "final"
    check(final[1], answer, components)
    *_, last, done = data((EXAMPLES / "chat_stream.txt").read_text("utf-8"))
    assert done == "[DONE]"
    for chat in (json.loads(last), json.loads((EXAMPLES / "chat.json").read_text("utf-8"))):
        check(chat["srrag"], answer, components)


def paths(value: Any, at: str = "") -> set[str]:
    """The places of a value at which there is something, and what kind of thing."""
    if isinstance(value, Mapping):
        inner = [paths(each, f"{at}.{key}") for key, each in value.items()]
    elif isinstance(value, list):
        inner = [paths(each, f"{at}[]") for each in value]
    else:
        kind = "number" if isinstance(value, float) else type(value).__name__
        return {f"{at}: {'number' if kind == 'int' else kind}"}
    return {f"{at}: {type(value).__name__}"}.union(*inner)


def shape(text: str) -> Any:
    """What the parts of a response have in common with those of another."""
    if not text.startswith(("event:", "data:")):
        return paths(json.loads(text))
    found = events(text) or [("", json.loads(each)) for each in data(text) if each != "[DONE]"]
    return [(name, paths(told)) for name, told in found]


def test_a_server_answers_in_the_shape_of_the_examples(sample_root: Path, tmp_path: Path) -> None:
    answered = real(sample_root, tmp_path)
    assert set(answered) == {path.name for path in EXAMPLES.iterdir()}, REGENERATE
    for name, text in answered.items():
        assert shape((EXAMPLES / name).read_text("utf-8")) == shape(text), (name, REGENERATE)


def test_faults_are_those_of_the_examples(
    description: dict[str, Any], sample_root: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"clinic {KEY_HASH} admin\n")
    told = settings(
        sample_root, "pipeline=bm25", f"api_keys={keys}",
        "limits.max_body_bytes=5000", "limits.burst=7", "limits.per_minute=1",
    )  # fmt: skip
    ask, body = "/v1/answers", {"question": CAST}
    asked: dict[int, dict[str, Any]] = {
        401: {"headers": {"authorization": "Bearer wrong"}},
        400: {"json": {}},
        404: {"json": {**body, "pipeline": "gpt"}},
        413: {"json": {"question": "x" * 6000}},
        415: {"content": b"{}", "headers": {"content-type": "text/plain"}},
        422: {"json": {"question": "?"}},
        504: {"json": body, "headers": {"x-timeout-s": "0.0001"}},
        200: {"json": body},
        429: {"json": body},
    }
    with served(told, headers=KEY) as (client, _):
        replies = {status: client.post(ask, **given) for status, given in asked.items()}
    with served(settings(sample_root, "pipeline=bm25")) as (client, _):
        replies[403] = client.post(ask, json=body, headers={"host": "evil.example"})
    assert [reply.status_code for reply in replies.values()] == list(replies)
    shown = description["paths"][ask]["post"]["responses"]
    assert set(shown) == set(map(str, {*replies, 501, 503}))
    for status in set(replies) - {200}:
        example = shown[str(status)]["content"]["application/json"]["example"]["error"]
        varying = {"message": example["message"], "request_id": example["request_id"]}
        assert {**replies[status].json()["error"], **varying} == example
        assert ("retry-after" in replies[status].headers) == ("headers" in shown[str(status)])
