"""Answers heard as they are written, over a real endpoint, with the log as it always is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from srrag.answer.write.cited import CitedAnswer
from srrag.answer.write.compose import ComposeAnswer
from srrag.answer.write.streaming import AGAIN, AnswerStream
from srrag.core.schema import EVIDENCE, REJECT, empty_value
from srrag.core.step import Place
from srrag.engine.log.completion_log import CompletionLog
from srrag.engine.openai.engine import HttpEngine
from srrag.engine.stream import Listen, listening
from srrag.llm.completion import Prompt
from srrag.runner.engines import engines_here
from tests.endpoint import Endpoint, serve
from tests.unit.engine.asking import Shape

TEXT = "Balance training reduces recurrent ankle sprains."
WHOLE = f"{TEXT} [1]\n\n- Guidelines say so. [2]"


def question() -> pa.Table:
    empty = {field.name: empty_value(field.type) for field in EVIDENCE.value_type}
    items = [empty | {"evidence_id": f"e{n}", "grade": "A", "text": TEXT} for n in (1, 2)]
    columns = {
        "text": [TEXT],
        "options": pa.array([[]], pa.list_(pa.string())),
        "evidence": pa.array([items], EVIDENCE),
        "reject": pa.nulls(1, REJECT),
    }
    return pa.table(columns)


def cited(*cites: list[int]) -> str:
    first, *rest = [{"text": TEXT, "cites": cites[0]}] + [
        {"text": "Guidelines say so.", "cites": each} for each in cites[1:]
    ]
    return json.dumps(
        {"answer": [first], "evidence": rest, "limits": [], "insufficient": False, "missing": ""}
    )


def asked(url: str, root: Path, listen: Listen, schema: Any = CitedAnswer) -> dict[str, Any]:
    engine = HttpEngine(model="m", base_url=url, timeout_s=10.0)
    at = Place(root=root)
    with engines_here([engine], at, exclusive=False) as engines, listening(listen, schema):
        step = ComposeAnswer(engine=engine).open(Place(root=root, clients=engines.clients))
        row: dict[str, Any] = step(question()).to_pylist()[0]
    return row


def test_an_answer_is_heard_before_it_is_done_and_logged_once(tmp_path: Path) -> None:
    written: list[str] = []
    stream = AnswerStream(written.append)
    with serve(Endpoint(script=lambda _: cited([1], [2]))) as endpoint:
        row = asked(endpoint.url, tmp_path, stream)
        pieces = [*written]
        stream.finish(row["answer"])
        again: list[str] = []
        other = AnswerStream(again.append)
        same = asked(endpoint.url, tmp_path, other)
        assert again == [], "an answer from the log comes whole"
        other.finish(same["answer"])
    assert len(pieces) == 2
    assert "".join(written) == row["answer"] == WHOLE == "".join(again)
    assert endpoint.calls.total() == 1
    totals = CompletionLog(tmp_path / "completions").totals()
    assert totals.tokens_out == endpoint.tokens_out > 0


def test_a_bad_answer_is_followed_by_another(tmp_path: Path) -> None:
    written: list[str] = []
    stream = AnswerStream(written.append)

    def script(request: dict[str, Any]) -> str:
        return cited([1], [7] if len(request["messages"]) == 2 else [2])

    with serve(Endpoint(script=script)) as endpoint:
        row = asked(endpoint.url, tmp_path, stream)
        stream.finish(row["answer"])
    assert "".join(written) == f"{TEXT} [1]{AGAIN}{WHOLE}"
    assert row["answer"] == WHOLE


def test_a_stream_that_breaks_off_is_asked_for_again(tmp_path: Path) -> None:
    written: list[str] = []
    stream = AnswerStream(written.append)
    faulty = Endpoint(script=lambda _: cited([1], [2]), faults="half_stream@1")
    with serve(faulty) as endpoint:
        row = asked(endpoint.url, tmp_path, stream)
        stream.finish(row["answer"])
    assert "".join(written).endswith(WHOLE)
    assert row["answer"] == WHOLE
    assert endpoint.calls.total() == 2


def test_what_a_listener_raises_costs_no_answer(tmp_path: Path) -> None:
    def deaf(prompt: Prompt, attempt: int, piece: str) -> None:
        raise BrokenPipeError("gone")

    with serve(Endpoint(script=lambda _: cited([1], [2]))) as endpoint:
        with pytest.raises(BrokenPipeError):
            asked(endpoint.url, tmp_path, deaf)
        row = asked(endpoint.url, tmp_path, deaf)
    assert row["answer"] == WHOLE
    assert endpoint.calls.total() == 1


def test_only_the_schema_that_is_listened_for_is_streamed(tmp_path: Path) -> None:
    heard: list[str] = []
    with serve(Endpoint(script=lambda _: cited([1], [2]))) as endpoint:
        asked(endpoint.url, tmp_path, lambda *heard_now: heard.append(heard_now[2]), Shape)
    assert heard == []
    assert "stream" not in endpoint.requests[0]
