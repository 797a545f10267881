"""The vLLM engine on the real CPU build: guided answers, faults of one call alone, deaths."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Literal

import psutil
import pydantic
import pytest

from srrag.answer.write.cited import CitedAnswer
from srrag.corpus.chunk import BlockGroups
from srrag.corpus.grade_documents import GradeAnswer
from srrag.engine.base import Call, Reply, SessionLostError, key_of
from srrag.extract.extract_documents import Extraction
from srrag.llm.completion import Answer, Prompt
from tests.vllm.conftest import Open
from tests.vllm.tiny_model import CONTEXT_TOKENS

SCHEMAS: tuple[type[Answer], ...] = (Extraction, BlockGroups, GradeAnswer, CitedAnswer)


class Verdict(Answer):
    grade: Literal["A", "B"]
    sure: bool


class Told(Answer):
    """A choice, then a text, in which the tiny model says one token for ever."""

    grade: Literal["A", "B", "C", "D", "E", ""]
    reason: str = pydantic.Field(max_length=300)


class Refused(Answer):
    """A schema with a keyword that the grammar compiler does not know."""

    names: list[str] = pydantic.Field(json_schema_extra={"uniqueItems": True})


class Impossible(Answer):
    """A pattern that is no regular expression."""

    name: str = pydantic.Field(json_schema_extra={"pattern": "(("})


def call(up: Open, user: str, schema: type[Answer] = Verdict, **sampling: float) -> Call:
    settings = {"temperature": 0.0, "max_tokens": 64, "draw": 0, **sampling}
    prompt = Prompt(0, "x", "You grade clinical studies.", user, schema, **settings)  # type: ignore[arg-type]
    return Call(key_of(up.engine, prompt), prompt)


def answers(up: Open, calls: list[Call]) -> list[Reply]:
    async def together() -> list[Reply]:
        return await asyncio.gather(*map(up.session.complete, calls))

    replies: list[Reply] = up.run(together())
    return replies


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.__name__)
def test_an_answer_is_json_of_its_schema_or_cut_off(up: Open, schema: type[Answer]) -> None:
    calls = [call(up, "Go.", schema, temperature=1.0, max_tokens=400, draw=i) for i in range(12)]
    for reply in answers(up, calls):
        assert reply.fault is None
        assert 0 < reply.tokens_out <= 400
        if reply.finish == "stop":
            # Lengths of strings are left to parsing: all else holds by construction.
            try:
                schema.model_validate_json(reply.text)
            except pydantic.ValidationError as error:
                assert {e["type"] for e in error.errors()} <= {
                    "string_too_long",
                    "string_too_short",
                }
        else:
            assert reply.finish == "length"
            with pytest.raises(json.JSONDecodeError):
                json.loads(reply.text)


def test_fields_come_in_their_order_and_answers_end(up: Open) -> None:
    replies = answers(up, [call(up, f"Study {i}.", temperature=1.0) for i in range(40)])
    values = [Verdict.model_validate_json(reply.text) for reply in replies]
    assert {reply.finish for reply in replies} == {"stop"}
    assert all(list(json.loads(reply.text)) == ["grade", "sure"] for reply in replies)
    assert {value.grade for value in values} == {"A", "B"}
    assert all(reply.tokens_in > 10 and reply.seconds > 0 for reply in replies)


def test_a_call_at_fault_takes_no_other_with_it(up: Open) -> None:
    good = [call(up, f"Study {i}.") for i in range(6)]
    long = call(up, "word " * CONTEXT_TOKENS)
    no_room = call(up, "short", max_tokens=CONTEXT_TOKENS)
    bad = [call(up, "short", Refused), call(up, "short", Impossible)]
    replies = answers(up, [*good[:3], long, no_room, *bad, *good[3:]])
    assert all(r.fault is None and r.text for r in (*replies[:3], *replies[7:]))
    kinds = [r.fault.kind for r in replies[3:7] if r.fault is not None]
    assert kinds == ["too_long", "too_long", "refused_call", "refused_call"]
    assert str(CONTEXT_TOKENS) in replies[4].fault.detail  # type: ignore[union-attr]
    assert all(not r.text and not r.tokens_out for r in replies[3:7])


def test_a_loop_is_cut_off_early(up: Open) -> None:
    reply = answers(up, [call(up, "Go.", Told, max_tokens=1500)])[0]
    assert reply.finish == "length"
    assert reply.tokens_out < 200


def test_many_calls_are_generated_together(up: Open) -> None:
    calls = [call(up, f"Study {i}.", GradeAnswer, temperature=1.0) for i in range(64)]
    began = time.perf_counter()
    for one in calls[:8]:
        answers(up, [one])
    alone_s = (time.perf_counter() - began) / 8
    began = time.perf_counter()
    replies = answers(up, calls)
    assert all(reply.fault is None for reply in replies)
    assert time.perf_counter() - began < 0.5 * 64 * alone_s


def test_a_common_beginning_is_read_once(up: Open) -> None:
    shared = "Cervical manipulation reduced neck pain. " * 40
    answers(up, [call(up, shared + "first")])
    before = up.session.prefix_tokens
    reply = answers(up, [call(up, shared + "second")])[0]
    assert up.session.prefix_tokens - before >= 0.5 * reply.tokens_in


def test_one_call_alone_answers_the_same_again(up: Open) -> None:
    same = [
        answers(up, [call(up, "Go.", GradeAnswer, temperature=1.0, draw=draw)])[0].text
        for draw in (1, 1, 2)
    ]
    assert same[0] == same[1] != same[2]


def test_a_former_answer_and_what_was_wrong_are_shown(up: Open) -> None:
    plain = call(up, "Go.")
    turns = (("{}", "grade: Field required"),)
    prompt = Prompt(0, "x", plain.prompt.system, "Go.", Verdict, max_tokens=64, turns=turns)
    replies = answers(up, [plain, Call(key_of(up.engine, prompt), prompt)])
    assert replies[1].tokens_in > replies[0].tokens_in + 5


def test_a_stream_is_the_answer_in_pieces(up: Open) -> None:
    async def pieces(one: Call) -> list[str | Reply]:
        return [piece async for piece in up.session.stream(one)]

    one = call(up, "Go.")
    *found, last = up.run(pieces(one))
    (whole,) = answers(up, [one])
    assert len(found) > 1
    assert "".join(map(str, found)) == whole.text
    assert isinstance(last, Reply)
    assert replace(last, seconds=0.0) == replace(whole, seconds=0.0)
    (failed,) = up.run(pieces(call(up, "word " * CONTEXT_TOKENS)))
    assert isinstance(failed, Reply) and failed.fault is not None
    assert failed.fault.kind == "too_long"


def test_a_call_that_is_cancelled_frees_its_place(up: Open) -> None:
    async def cancelled() -> None:
        task = asyncio.ensure_future(
            up.session.complete(call(up, "Go.", CitedAnswer, temperature=1.0, max_tokens=1500))
        )
        await asyncio.sleep(0.3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    up.run(cancelled())
    assert answers(up, [call(up, "Go.")])[0].fault is None


def test_a_gpu_that_is_not_there_is_one_line(tiny_model: Path) -> None:
    from srrag.engine.vllm.engine import VllmEngine

    with pytest.raises(ValueError, match=r"engine\.device: cuda") as caught:
        asyncio.run(VllmEngine(model=str(tiny_model), device="cuda").open())
    assert "\n" not in str(caught.value)


def test_a_killed_parent_leaves_no_process(tiny_model: Path) -> None:
    script = f"""
import asyncio, pathlib
from tests.vllm.conftest import small
async def main():
    await small(pathlib.Path({str(tiny_model)!r})).open()
    print("up", flush=True)
    await asyncio.sleep(600)
if __name__ == "__main__":
    asyncio.run(main())
"""
    path = tiny_model.parent / "stay.py"
    path.write_text(script)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    parent = subprocess.Popen(
        [sys.executable, path], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "up\n"
    children = psutil.Process(parent.pid).children(recursive=True)
    assert sum("VLLM" in " ".join(child.cmdline()) for child in children) >= 2
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive


def title(process: psutil.Process) -> str:
    """Its command line; empty for one that has just ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def test_a_dead_engine_ends_its_calls(up: Open) -> None:
    """The last of this module: its engine dies."""
    [core] = [c for c in psutil.Process().children(recursive=True) if "EngineCore" in title(c)]
    calls = [call(up, f"{i}", CitedAnswer, temperature=1.0, max_tokens=1500) for i in range(20)]

    async def killed() -> list[Reply | BaseException]:
        tasks = [asyncio.ensure_future(up.session.complete(one)) for one in calls]
        await asyncio.sleep(0.5)
        core.kill()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)

    ended = up.run(killed())
    assert sum(isinstance(end, SessionLostError) for end in ended) > 10
    assert all(isinstance(end, SessionLostError | Reply) for end in ended)
    with pytest.raises(SessionLostError):
        answers(up, [call(up, "Go.")])
