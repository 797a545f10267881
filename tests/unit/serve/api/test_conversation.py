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


def test_a_chat_may_be_long_where_only_the_last_messages_count(client: openai.OpenAI) -> None:
    messages = turns(*[CAST] * 300, BRACE, FOLLOW_UP)
    extra = client.chat.completions.create(model="srrag", messages=messages).model_extra or {}
    assert extra["srrag"]["question"] == READ


def test_an_answer_takes_what_was_asked_before(url: str) -> None:
    def post(**body: Any) -> httpx.Response:
        return httpx.post(f"{url}v1/answers", json=body, timeout=60)

    told = post(question=FOLLOW_UP, history=[BRACE]).json()
    assert (told["question"], told["rewritten_from"]) == (READ, FOLLOW_UP)
    assert post(question=CAST, history=[BRACE]).json()["rewritten_from"] is None
    thanked = post(question="Thanks!", history=[BRACE])
    assert thanked.status_code == 422 and thanked.json()["error"]["code"] == "thanks"
