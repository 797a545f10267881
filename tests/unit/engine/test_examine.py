"""An endpoint is asked five prompts, and what it can do is told."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from srrag.config import factory
from srrag.config.compose import configure
from srrag.engine.examine import Capability, engine_checks, examine
from srrag.engine.openai import protocol
from tests.endpoint import Endpoint, serve
from tests.unit.engine.asking import engine_at

KEPT = 4000


def capable(request: dict[str, Any]) -> str:
    """Answer as a model under guided decoding."""
    user = request["messages"][1]["content"]
    if "traveller" in user:
        return json.dumps({"country": "Portugal" if "Portugal" in user else "Spain"})
    if "Paris" in user:
        return '{"country": "France"}'
    if "sky" in user:
        return '{"colour": "red"}'
    if "weather" in user:
        return '{"lines": ["rain = 1", "sun = 2"]}'
    return json.dumps({"words": ["one", "two", "three"] * 30})


def unguided(request: dict[str, Any]) -> str:
    """Answer as a model whose endpoint holds no schema."""
    user = request["messages"][1]["content"]
    if "sky" in user:
        return "The sky is blue."
    if "weather" in user:
        return '{"lines": ["It rains.", "The sun shines."]}'
    return capable(request)


def cutting(request: dict[str, Any]) -> str:
    """Answer by the end of a prompt alone."""
    system, user = request["messages"]
    return capable({"messages": [system, {"content": user["content"][-KEPT:]}]})


def counts_what_is_kept(request: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    size = sum(len(turn["content"]) for turn in request["messages"])
    body["usage"]["prompt_tokens"] = min(size, KEPT) // 4
    return body


def thinks(request: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    body["choices"][0]["message"]["reasoning"] = "Let me see. " * 400
    body["usage"]["completion_tokens"] += 1200
    return body


def hides_its_thinking(request: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    body["usage"]["completion_tokens"] += 1200
    body["usage"]["completion_tokens_details"] = {"reasoning_tokens": 1200}
    return body


def checks(*overrides: str) -> list[dict[str, Any]]:
    """What `srrag doctor` says of the engine of a configuration."""
    return engine_checks(factory.make(configure("doctor", [*overrides])["engine"], "engine"))


def examined(endpoint: Endpoint, **fields: Any) -> dict[str, Capability]:
    with serve(endpoint):
        engine = engine_at(endpoint.url, max_retries=0, **fields)
        return {each.check: each for each in asyncio.run(examine(engine))}


def test_an_endpoint_that_holds_schema_pattern_and_prompt_is_told_so() -> None:
    found = examined(Endpoint(script=capable), usd_per_mtok_in=1.0, usd_per_mtok_out=1.0)
    assert all(each.ok for each in found.values())
    assert found["schema"].detail.startswith("enforced")
    assert found["grammar"].detail.startswith("enforced")
    assert "tokens were read from the first line to the last" in found["context"].detail
    assert "tokens a second" in found["speed"].detail
    assert found["thinking"].detail == "none is shown or counted"
    assert found["spent"].detail.endswith("USD")


def test_an_endpoint_without_guide_is_told_so_and_still_works() -> None:
    found = examined(Endpoint(script=unguided))
    assert all(each.ok for each in found.values())
    assert found["schema"].detail.startswith("not enforced")
    assert found["grammar"].detail.startswith("not enforced")


@pytest.mark.parametrize("counts", [None, counts_what_is_kept])
def test_a_prompt_that_is_cut_is_noticed_by_the_answer_and_by_the_count(counts: Any) -> None:
    # A model may guess right, and its count still tells.
    found = examined(Endpoint(script=capable if counts else cutting, bend=counts))
    assert not found["context"].ok
    assert ("is its context smaller" if counts else "Spain") in found["context"].detail


@pytest.mark.parametrize("thinks", [thinks, hides_its_thinking])
def test_a_model_that_thinks_is_told_how_much_room_it_needs(thinks: Any) -> None:
    found = examined(Endpoint(script=capable, bend=thinks))
    assert not found["thinking"].ok and "set engine.thinking=3000" in found["thinking"].detail
    found = examined(Endpoint(script=capable, bend=thinks), thinking=3000)
    assert found["thinking"].ok


def test_an_endpoint_that_takes_no_schema_is_told_what_to_try() -> None:
    def refuses(request: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        told = {"error": {"message": "response_format: json_schema is not supported"}}
        return told if request.get("response_format", {}).get("type") == "json_schema" else body

    found = examined(Endpoint(script=capable, bend=refuses))
    assert not found["answers"].ok and list(found) == ["answers"]
    assert found["answers"].detail.endswith("; try engine.structured=json_object, or none")
    assert examined(Endpoint(script=capable, bend=refuses), structured="none")["answers"].ok


@pytest.mark.parametrize("fault", ["unknown_model", "too_long", "empty"])
def test_what_an_endpoint_says_instead_of_an_answer_is_told(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "BACKOFF_S", 0.01)
    endpoint = Endpoint(faults=f"{fault}@1-")
    with serve(endpoint):
        given = ["engine=http", "engine.model=m", f"engine.base_url={endpoint.url}", "root=none"]
        found = checks(*given)
    (bad, *_) = [each for each in found if not each["ok"]]
    told = {
        "unknown_model": "The model does not exist.",
        "too_long": "too_long: HTTP 400: This model's maximum context length is 64 tokens.",
        "empty": "empty: The answer held no text.",
    }
    assert told[fault] in bad["detail"] and "\n" not in bad["detail"]


def test_rules_and_files_are_asked_nothing() -> None:
    assert checks("root=none") == []
    (found,) = checks("engine=batch", "engine.model=m", "engine.folder=F", "root=none")
    assert found["ok"] and "nothing is asked" in found["detail"]
