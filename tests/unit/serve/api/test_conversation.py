"""Conversations over HTTP, asked by OpenAI's own client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.unit.serve.serving import CAST, listening, settings

BRACE = "Does bracing prevent recurrent ankle sprains in athletes?"
FOLLOW_UP = "And in adolescents?"
READ = "Does bracing prevent recurrent ankle sprains in adolescents?"


@pytest.fixture(scope="module")
def url(sample_root: Path) -> Iterator[str]:
    with listening(settings(sample_root, "pipeline=bm25")) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}v1", api_key="none", max_retries=0)


def turns(*texts: str) -> Any:
    """Messages of a user, each but the last one answered."""
    roles = ("user", "assistant")
    said = [{"role": role, "content": text} for text in texts for role in roles]
    return said[:-1]


def test_a_chat_reads_a_follow_up_and_says_how(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="srrag", messages=turns(BRACE, FOLLOW_UP))
    content, extra = whole.choices[0].message.content, whole.model_extra or {}
    assert content and content.startswith(f"Read as: {READ}\n\n")
    assert (extra["srrag"]["question"], extra["srrag"]["rewritten_from"]) == (READ, FOLLOW_UP)
    stream = client.chat.completions.create(
        model="srrag", messages=turns(BRACE, FOLLOW_UP), stream=True
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert text.startswith(f"Read as: {READ}")


def test_thanks_are_answered_without_a_search(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="srrag", messages=turns(CAST, "Thank you!"))
    assert whole.choices[0].message.content == (
        "You are welcome. Ask another question when you have one."
    )
    stream = client.chat.completions.create(
        model="srrag", messages=turns(CAST, "Thank you!"), stream=True
    )
    chunks = list(stream)
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert client.responses.create(model="srrag", input="Thanks").output_text.startswith("You are")


def test_a_chat_may_be_long_where_only_the_last_messages_count(client: openai.OpenAI) -> None:
    messages = turns(*[CAST] * 300, BRACE, FOLLOW_UP)
    extra = client.chat.completions.create(model="srrag", messages=messages).model_extra or {}
    assert extra["srrag"]["question"] == READ


def test_the_responses_of_the_official_client(client: openai.OpenAI) -> None:
    whole = client.responses.create(
        model="srrag", input=CAST, temperature=0, instructions="Be brief."
    )
    assert whole.status == "completed" and "ten days" in whole.output_text
    assert "Sources:" in whole.output_text
    extra: Any = whole.model_extra
    assert extra["srrag"]["evidence"]
    assert extra["srrag"]["ignored"] == ["instructions", "temperature"]
    told = client.responses.create(model="srrag", input=turns(BRACE, FOLLOW_UP))
    assert told.output_text.startswith(f"Read as: {READ}")


def test_responses_stream_and_end_with_the_whole(client: openai.OpenAI) -> None:
    with client.responses.stream(model="srrag", input=CAST) as stream:
        kinds = [each.type for each in stream]
        final = stream.get_final_response()
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
    assert "response.output_text.delta" in kinds and "ten days" in final.output_text
    numbers = [
        each.sequence_number
        for each in client.responses.create(model="srrag", input=CAST, stream=True)
    ]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_output_tokens": 5}, "max_output_tokens"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"text": {"format": {"type": "json_object"}}}, "text"),
    ],
)
def test_options_that_would_change_a_response_are_refused_by_name(
    client: openai.OpenAI, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=named):
        client.responses.create(model="srrag", input=CAST, **options)


def test_an_answer_takes_what_was_asked_before(url: str) -> None:
    def post(**body: Any) -> httpx.Response:
        return httpx.post(f"{url}v1/answers", json=body, timeout=60)

    told = post(question=FOLLOW_UP, history=[BRACE]).json()
    assert (told["question"], told["rewritten_from"]) == (READ, FOLLOW_UP)
    assert post(question=CAST, history=[BRACE]).json()["rewritten_from"] is None
    thanked = post(question="Thanks!", history=[BRACE])
    assert thanked.status_code == 422 and thanked.json()["error"]["code"] == "thanks"
