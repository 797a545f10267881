"""The client looks in the log first, survives lost hosts, and counts."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from srrag.engine.base import Call, Reply, key_of
from srrag.engine.client import MAX_LOST, DispatcherLostError, LogClient
from srrag.engine.log.entry import Entry
from srrag.engine.log.journal import Journal
from srrag.llm.completion import NOT_ASKED, EngineStopped, Fault, Prompt, Usage, tallied
from tests.engines import ToyModel, Word, echo, good, prompt

TOY = ToyModel()


@dataclass
class Host:
    """Answers by `script`, and writes what it answered to the log as a host does."""

    folder: Path
    script: Callable[[Call], Reply] = echo
    lost: int = 0
    sent: int = 0

    def __call__(self, calls: Sequence[Call]) -> list[Reply]:
        self.sent += len(calls)
        with closing(Journal(self.folder)) as journal:
            replies = [self.script(call) for call in calls]
            half = len(calls) // 2 if self.lost else len(calls)
            journal.append([entry(call, r) for call, r in zip(calls[:half], replies, strict=False)])
        if self.lost:
            self.lost -= 1
            raise DispatcherLostError("killed")
        return replies


def entry(call: Call, reply: Reply) -> Entry:
    fault = reply.fault or Fault("", "")
    return Entry(call.key, reply.text, fault.kind, fault.detail, reply.tokens_in, reply.tokens_out)


def ask(client: LogClient, prompts: Sequence[Prompt], attempt: int = 0, may: bool = True):
    with tallied() as usage:
        answers = client.complete(prompts, attempt, [may] * len(prompts))
    return answers, usage


def test_what_stands_is_not_paid_again(tmp_path: Path) -> None:
    host = Host(tmp_path)
    prompts = [prompt(f"w{n}") for n in range(6)]
    answers, usage = ask(LogClient(TOY, tmp_path, host), prompts)
    assert [answer.value for answer in answers] == [Word(word=f"w{n}") for n in range(6)]
    assert usage == Usage(calls=6, tokens_in=60, tokens_out=30)
    again, usage = ask(LogClient(TOY, tmp_path, host), prompts)
    assert [answer.value for answer in again] == [answer.value for answer in answers]
    assert host.sent == 6
    assert usage == Usage(
        cached=6, tokens_in=60, tokens_out=30, cached_tokens_in=60, cached_tokens_out=30
    )


def test_equal_prompts_of_a_batch_are_sent_once(tmp_path: Path) -> None:
    host = Host(tmp_path)
    answers, _ = ask(LogClient(TOY, tmp_path, host), [prompt("a", row=0), prompt("a", row=1)])
    assert host.sent == 1
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "other",
    [
        prompt("a", temperature=0.3),
        prompt("a", draw=1),
        prompt("a", max_tokens=7),
        prompt("a", turns=(("x", "wrong"),)),
        prompt("A"),
    ],
)
def test_whatever_decides_an_answer_is_in_its_key(other: Prompt) -> None:
    assert key_of(TOY, other) != key_of(TOY, prompt("a"))
    assert key_of(TOY, prompt("a"), 1) != key_of(TOY, prompt("a"))
    assert key_of(ToyModel(model="b"), prompt("a")) != key_of(TOY, prompt("a"))
    assert key_of(ToyModel(concurrency=1), prompt("a", row=9)) == key_of(TOY, prompt("a"))


def test_a_lost_host_costs_only_what_it_had_not_answered(tmp_path: Path) -> None:
    host = Host(tmp_path, lost=2)
    prompts = [prompt(f"w{n}") for n in range(8)]
    answers, usage = ask(LogClient(TOY, tmp_path, host), prompts)
    assert [answer.value.word for answer in answers] == [f"w{n}" for n in range(8)]
    assert host.sent == 8 + 4 + 2
    assert usage.calls == 2


def test_a_host_that_is_lost_for_ever_ends_the_run(tmp_path: Path) -> None:
    def deaf(calls: Sequence[Call]) -> list[Reply]:
        raise DispatcherLostError("killed")

    with pytest.raises(EngineStopped, match=f"died {MAX_LOST} times: killed"):
        ask(LogClient(TOY, tmp_path, deaf), [prompt("a")])


def test_a_prompt_that_may_not_be_called_for_is_not(tmp_path: Path) -> None:
    host = Host(tmp_path)
    (answer,), usage = ask(LogClient(TOY, tmp_path, host), [prompt("a")], may=False)
    assert answer.fault == NOT_ASKED
    assert (host.sent, usage) == (0, Usage())


def test_a_fault_in_the_log_stays_a_fault_unless_it_can_be_read_now(tmp_path: Path) -> None:
    texts = {"a": "no json", "b": good("b")}
    fault = Fault("invalid_json", "an older reader")
    host = Host(tmp_path, lambda c: Reply(texts[c.prompt.user], fault=fault))
    ask(LogClient(TOY, tmp_path, host), [prompt("a"), prompt("b")])
    (bad, fine), _ = ask(LogClient(TOY, tmp_path, host), [prompt("a"), prompt("b")])
    assert host.sent == 2
    assert bad.fault == fault
    assert fine.value == Word(word="b")


def test_a_client_travels(tmp_path: Path) -> None:
    client = LogClient(TOY, tmp_path, echo_all)
    ask(client, [prompt("a")])
    travelled = pickle.loads(pickle.dumps(client))
    (answer,), _ = ask(travelled, [prompt("b")])
    assert answer.value == Word(word="b")


def echo_all(calls: Sequence[Call]) -> list[Reply]:
    return [echo(call) for call in calls]


def test_the_longest_are_sent_first(tmp_path: Path) -> None:
    order: list[str] = []

    def send(calls: Sequence[Call]) -> list[Reply]:
        order.extend(call.prompt.user for call in calls)
        return [echo(call) for call in calls]

    ask(LogClient(TOY, tmp_path, send), [prompt("aa"), prompt("a"), prompt("aaa")])
    assert order == ["aaa", "aa", "a"]
