"""Conversations over HTTP, asked by OpenAI's own client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from srrag.serve.api.chat import THANKED
from srrag.serve.api.conversation import MAX_SAID_CHARS, Turn, conversation, turns_of
from tests.endpoint import Endpoint, serve
from tests.sample_json import asked_schema, read_papers, supported
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
        return httpx.post(f"{url}v1/answers", json=body, verify=False, timeout=60)

    told = post(question=FOLLOW_UP, history=[BRACE]).json()
    assert (told["question"], told["rewritten_from"]) == (READ, FOLLOW_UP)
    assert post(question=CAST, history=[BRACE]).json()["rewritten_from"] is None
    thanked = post(question="Thanks!", history=[BRACE])
    assert thanked.status_code == 422 and thanked.json()["error"]["code"] == "thanks"


TOLD = """Read as: Do braces help in adults?

Yes. [1][3] Less so with tape. [2]

Missing: Children.

Sources:
[1][3] grade C, randomised trial: Braces (a trial) (PMID 12, 2009)
[2] not graded: Tape (doc-2)

Written by the language model big. Not medical advice."""


def test_what_was_said_is_read_from_the_replies_of_this_server() -> None:
    said = conversation([Turn("And in adults?", TOLD)], "Why?")
    assert said["asked"] == "Why?"
    assert said["turns"] == [
        {
            "question": "And in adults? (read as: Do braces help in adults?)",
            "answer": "Yes. [E1][E1] Less so with tape. [E2]\n\nMissing: Children.",
        }
    ]
    assert [each["key"] for each in said["papers"]] == ["PMID 12", "doc-2"]
    assert said["papers"][1]["line"] == "not graded: Tape (doc-2)"


def test_papers_of_several_answers_are_one_list_and_other_texts_have_none() -> None:
    other = TOLD.replace("[1][3]", "[1]").replace("Tape (doc-2)", "Casts (doc-3)")
    turns = [
        Turn("A?", TOLD),
        Turn("Thanks", THANKED),
        Turn("B?", "So [7] it is."),
        Turn("C?", other),
    ]
    said = conversation(turns, "Why?")
    assert [each["key"] for each in said["papers"]] == ["PMID 12", "doc-2", "doc-3"]
    answers = [each["answer"] for each in said["turns"]]
    assert answers[1] == "So  it is." and answers[2].startswith("Yes. [E1] Less so with tape. [E3]")


def test_what_was_said_is_bounded_the_newest_first() -> None:
    long = Turn("Old?", "word " * MAX_SAID_CHARS)
    assert conversation([long, Turn("New?", TOLD)], "Why?")["turns"][0]["question"] != "Old?"
    (cut,) = conversation([Turn("New?", TOLD), long], "Why?")["turns"]
    assert cut["question"] == "Old?" and 0.9 * MAX_SAID_CHARS < len(cut["answer"]) <= MAX_SAID_CHARS
    (cut,) = conversation([Turn("old " * 4000, "Yes.")], "Why?")["turns"]
    assert len(cut["question"]) <= MAX_SAID_CHARS and cut["answer"] == "Yes."


def test_only_what_users_and_assistants_say_makes_turns() -> None:
    roles = ["system", "assistant", "user", "assistant", "tool", "assistant", "user"]
    turns, last = turns_of((role, f"{n}") for n, role in enumerate(roles))
    assert (turns, last) == ([Turn("2", "3\n\n5")], "6")
    assert turns_of([("assistant", "x")]) == ([], "")


def test_a_model_is_shown_what_was_said_and_the_papers_come_back(
    sample_root: Path, tmp_path: Path
) -> None:
    asked: list[tuple[str, str]] = []

    def answers(request: dict[str, Any]) -> str:
        title = (asked_schema(request) or {}).get("title", "")
        asked.append((title, request["messages"][1]["content"]))
        if title == "FollowUp":
            question = "Does varenicline help people stop smoking?"
            return json.dumps({"kind": "follow_up", "question": question, "papers": ["E1"]})
        return supported(request) if title == "CheckedAnswer" else read_papers(request)

    message = "Did you not say otherwise about that before, so is that no contradiction?"
    with serve(Endpoint(script=answers)) as endpoint:
        engine = ["engine=http", "engine.model=m", f"engine.base_url={endpoint.url}"]
        told = settings(sample_root, "pipeline=bm25", *engine, f"completions={tmp_path}")
        with listening(told) as url:
            client = openai.OpenAI(base_url=f"{url}v1", api_key="none", max_retries=0)
            first = client.chat.completions.create(model="srrag", messages=turns(BRACE))
            titles = [title for title, _ in asked]
            assert "FollowUp" not in titles, "a first question costs no call more"
            said = first.choices[0].message.content or ""
            messages = [
                *turns(BRACE),
                {"role": "assistant", "content": said},
                {"role": "user", "content": message},
            ]
            asked.clear()
            whole = client.chat.completions.create(model="srrag", messages=messages)
            parts = client.chat.completions.create(model="srrag", messages=messages, stream=True)
            streamed = "".join(
                chunk.choices[0].delta.content or "" for chunk in parts if chunk.choices
            )
            history = [{"question": BRACE, "answer": said}]
            body = {"question": message, "history": history}
            record = httpx.post(f"{url}v1/answers", json=body, verify=False, timeout=60).json()
    content, extra = whole.choices[0].message.content or "", whole.model_extra or {}
    read = "Does varenicline help people stop smoking?"
    for text in (content, streamed):
        assert text.startswith(f"Read as: {read}\n\n") and text.count("Read as") == 1
    assert (record["question"], record["rewritten_from"]) == (read, message)
    prompts = dict(asked)
    assert [title for title, _ in asked] == ["FollowUp", "PapersAnswer", "CheckedAnswer"]
    for text in prompts.values():
        assert f"Message: {json.dumps(message)}" in text and BRACE in text
    before = (first.model_extra or {})["srrag"]["evidence"][0]
    papers = extra["srrag"]["evidence"]
    assert papers[0]["doc_id"] == before["doc_id"], "first again, though it is on something else"
    assert len({paper["doc_id"] for paper in papers}) > 1
