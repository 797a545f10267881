"""Sampling settings of a model: each seed has keys of its own, and the log stays what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from srrag.answer.write.cited import AGAIN, AnswerStream, CitedAnswer
from srrag.answer.write.compose import ComposeAnswer
from srrag.core.schema import EVIDENCE, REJECT, empty_value
from srrag.core.step import Place
from srrag.engine.base import Call, Listen, key_of, listening
from srrag.engine.log.completion_log import CompletionLog
from srrag.engine.openai.engine import HttpEngine
from srrag.llm.completion import Prompt
from srrag.runner.engines import engines_here
from srrag.runner.ray.nodes import bundles
from tests.endpoint import Endpoint, serve
from tests.engines import EchoModel, ToyModel, prompt
from tests.unit.engine.asking import Shape


def test_the_keys_of_logs_that_stand_are_what_they_were() -> None:
    engine = HttpEngine(model="m", revision="1", seed=0, temperature=None)
    key = key_of(engine, prompt("a", temperature=0.3, draw=2))
    assert key.hex() == "086634e4717d2a8b3908f5b24514ba93"


def test_each_seed_has_keys_and_seeds_of_answers_of_its_own() -> None:
    calls = [Call(key_of(ToyModel(seed=n), prompt("a")), prompt("a")) for n in (0, 1, 2)]
    assert len({call.key for call in calls}) == len({call.seed for call in calls}) == 3
    warm = ToyModel(temperature=0.7)
    assert key_of(warm, prompt("a")) != calls[0].key


def test_a_temperature_is_that_of_prompts_which_ask_for_none() -> None:
    warm = ToyModel(temperature=0.7)
    assert warm.sampled(prompt("a")).temperature == 0.7
    assert warm.sampled(prompt("a", temperature=0.1)).temperature == 0.1
    assert ToyModel().sampled(prompt("a")).temperature == 0.0


@pytest.mark.parametrize("temperature", [-0.1, 2.1, float("nan")])
def test_a_temperature_that_cannot_be_is_named(temperature: float) -> None:
    with pytest.raises(ValueError, match=r"engine\.temperature: .* is not in \[0, 2\]"):
        HttpEngine(model="m", temperature=temperature)


def test_seeds_share_what_is_started(tmp_path: Path) -> None:
    """A model is loaded once, however often its answers are repeated."""
    opened: list[str] = []

    class Counted(EchoModel):
        async def open(self):  # type: ignore[no-untyped-def]
            opened.append(self.name)
            return await super().open()

    models = [Counted(seed=n, temperature=n / 2) for n in range(3)]
    with engines_here(models, Place(root=tmp_path)) as engines:
        for model in models:
            (answer,) = engines.clients[model].complete([prompt("word")], 0, [True])
            assert answer.paid
        (again,) = engines.clients[models[1]].complete([prompt("word")], 0, [True])
        assert not again.paid
    assert opened == ["echo: echo"]


def test_seeds_take_the_room_of_one_engine() -> None:
    seeds = [EchoModel(apart=2, seed=n, temperature=0.7) for n in range(3)]
    assert bundles([], seeds) == bundles([], seeds[:1]) == [{"CPU": 0.1, "GPU": 0.0}] * 2


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
    engine = HttpEngine(model="m", base_url=url, timeout_s=100.0)
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
