"""The host bounds, joins, judges, journals before it answers, and stops."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from srrag.engine.base import TEMPLATE_TOKENS, Call, Reply, Session, key_of, schema_json
from srrag.engine.dispatcher import MIN_WATCHED, Budget, Dispatchers, open_budget
from srrag.engine.log.completion_log import CompletionLog, Payments
from srrag.engine.log.journal import Journal
from srrag.engine.openai.engine import HttpEngine
from srrag.llm.completion import Account, BudgetSpent, EngineStopped, Fault, Prompt
from tests.engines import ScriptedSession, ToyModel, echo, good, prompt
from tests.unit.engine.asking import Shape
from tests.unit.engine.logs import entry, key

TOY = ToyModel(concurrency=4, usd_per_mtok_in=1e5, usd_per_mtok_out=2e5)


def call(text: str, attempt: int = 0, max_tokens: int = 20) -> Call:
    made = prompt(text, max_tokens=max_tokens)
    return Call(key_of(TOY, made, attempt), made, attempt)


def hosts(folder: Path, session: ScriptedSession, account: Account | None = None) -> Dispatchers:
    async def opener() -> Session:
        return session

    return Dispatchers({TOY: opener}, folder, account or Account())


def complete(folder: Path, session: ScriptedSession, calls: Sequence[Call], **account: object):
    async def run() -> list[Reply]:
        made = hosts(folder, session, Account(**account))
        try:
            return await made.complete(TOY, calls)
        finally:
            await made.close()

    return asyncio.run(run())


def test_calls_are_answered_in_order_and_stand_in_the_log(tmp_path: Path) -> None:
    calls = [call(f"w{n}") for n in range(20)]
    session = ScriptedSession(echo, pause_s=0.01)
    replies = complete(tmp_path, session, calls)
    assert [reply.text for reply in replies] == [good(f"w{n}") for n in range(20)]
    assert session.most_in_flight == TOY.concurrency
    assert session.closed
    entries = CompletionLog(tmp_path).lookup([item.key for item in calls])
    assert len(entries) == 20
    assert all(entry.usd == pytest.approx(2.0) for entry in entries.values())
    assert {entry.engine for entry in entries.values()} == {"toy: toy"}


def test_equal_calls_in_flight_are_made_once(tmp_path: Path) -> None:
    session = ScriptedSession(echo, pause_s=0.01)
    replies = complete(tmp_path, session, [call("same"), call("other"), call("same")])
    assert session.asked == {"same": 1, "other": 1}
    assert [reply.known for reply in replies] == [False, False, True], "one alone pays"
    assert replies[2].text == replies[0].text


def test_who_gives_up_ends_no_equal_call_that_another_awaits(tmp_path: Path) -> None:
    async def scene(gone: int) -> tuple[ScriptedSession, list[Reply]]:
        session = ScriptedSession(echo, pause_s=0.1)
        made = hosts(tmp_path / str(gone), session)
        both = [asyncio.ensure_future(made.complete(TOY, [call("same")])) for _ in range(2)]
        await asyncio.sleep(0.03)
        both.pop(gone).cancel()
        replies = await both[0]
        await made.close()
        return session, replies

    for gone in (0, 1):
        session, replies = asyncio.run(scene(gone))
        assert ([reply.text for reply in replies], session.asked) == ([good("same")], {"same": 1})


def test_a_call_that_nobody_awaits_any_more_ends_and_can_be_made_again(tmp_path: Path) -> None:
    async def scene() -> ScriptedSession:
        session = ScriptedSession(echo, pause_s=0.1)
        made = hosts(tmp_path, session)
        both = [asyncio.ensure_future(made.complete(TOY, [call("same")])) for _ in range(2)]
        await asyncio.sleep(0.03)
        for each in both:
            each.cancel()
        await asyncio.sleep(0)
        (reply,) = await made.complete(TOY, [call("same")])
        assert (reply.text, reply.known, session.in_flight) == (good("same"), False, 0)
        await made.close()
        return session

    assert asyncio.run(scene()).asked == {"same": 2}
    assert CompletionLog(tmp_path).totals().completions == 1


def test_an_entry_is_journalled_before_the_answer_is_given(tmp_path: Path) -> None:
    async def run() -> int:
        made = hosts(tmp_path, ScriptedSession(echo))
        await made.complete(TOY, [call("one")])
        return len(CompletionLog(tmp_path).lookup([call("one").key]))  # never closed: as if killed

    assert asyncio.run(run()) == 1


def test_a_bad_answer_is_a_fault_of_its_call_and_is_logged_apart(tmp_path: Path) -> None:
    texts = {"good": good("fine"), "bad": "no json", "cut": '{"word": "aaa'}
    session = ScriptedSession(
        lambda c: Reply(texts[c.prompt.user], "length" if c.prompt.user == "cut" else "stop")
    )
    calls = [call(text) for text in texts]
    replies = complete(tmp_path, session, calls)
    assert [r.fault and r.fault.kind for r in replies] == [None, "invalid_json", "truncated"]
    assert CompletionLog(tmp_path).totals().faults == {"invalid_json": 1, "truncated": 1}
    assert sorted(path.name.split("-")[0] for path in tmp_path.glob("*.parquet")) == [
        "faults",
        "part",
    ]


def test_a_session_that_stops_ends_the_run_but_keeps_what_was_in_flight(tmp_path: Path) -> None:
    def script(item: Call) -> Reply | BaseException:
        return EngineStopped("gone") if item.prompt.user == "w0" else echo(item)  # the first to end

    calls = [call(f"w{n}") for n in range(40)]
    session = ScriptedSession(script, pause_s=0.01)
    with pytest.raises(EngineStopped, match="gone"):
        complete(tmp_path, session, calls)
    assert sum(session.asked.values()) == 4, "nothing was sent after it stopped"
    assert CompletionLog(tmp_path).totals().completions == 3


def test_a_ceiling_is_never_passed_and_stops_in_one_line(tmp_path: Path) -> None:
    calls = [call(f"w{n}", max_tokens=5) for n in range(50)]
    with pytest.raises(EngineStopped, match=r"budget.max_tokens=600 is spent") as caught:
        complete(tmp_path, ScriptedSession(echo), calls, max_tokens=600)
    assert "\n" not in str(caught.value)
    spent = CompletionLog(tmp_path).totals()
    assert 200 < spent.tokens_in + spent.tokens_out <= 600
    # The ceiling is on what the log holds, so running again spends nothing more.
    session = ScriptedSession(echo)
    with pytest.raises(EngineStopped):
        complete(tmp_path, session, calls[30:], max_tokens=600)
    assert CompletionLog(tmp_path).totals().tokens_in <= 600
    complete(tmp_path, session, calls[30:], max_tokens=5000)


def test_a_ceiling_on_money(tmp_path: Path) -> None:
    calls = [call(f"w{n}", max_tokens=5) for n in range(50)]
    with pytest.raises(EngineStopped, match=r"budget\.max_usd=60"):
        complete(tmp_path, ScriptedSession(echo), calls, max_usd=60.0)
    assert 10 < CompletionLog(tmp_path).totals().usd <= 60


def test_processes_on_one_log_share_a_ceiling(tmp_path: Path) -> None:
    async def scene() -> None:
        account = Account(max_usd=60.0)
        replicas = [hosts(tmp_path, ScriptedSession(echo), account) for _ in range(3)]
        for number, replica in enumerate(replicas):
            with pytest.raises(BudgetSpent) as caught:
                for n in range(50):
                    await replica.complete(TOY, [call(f"{number}-{n}", max_tokens=5)])
            assert f"{CompletionLog(tmp_path).totals().usd:.2f} USD" in str(caught.value)
        for replica in replicas:
            await replica.close()

    asyncio.run(scene())
    assert 10 < CompletionLog(tmp_path).totals().usd <= 60


def test_a_run_whose_prompts_are_mostly_lost_ends_early(tmp_path: Path) -> None:
    session = ScriptedSession(lambda c: Reply("no"))
    first = [call(f"w{n}") for n in range(MIN_WATCHED)]
    second = [call(f"w{n}", attempt=1) for n in range(MIN_WATCHED)]
    more = [call(f"x{n}") for n in range(50)]
    with pytest.raises(EngineStopped, match=r"have no usable answer \(invalid_json"):
        complete(tmp_path, session, [*first, *second, *more], max_lost_share=0.2)
    assert len(session.asked) < MIN_WATCHED + 50


def test_the_fault_of_a_call_is_kept(tmp_path: Path) -> None:
    session = ScriptedSession(lambda c: Reply(fault=Fault("timeout", "120 s"), retries=3))
    (reply,) = complete(tmp_path, session, [call("a")])
    assert reply.fault == Fault("timeout", "120 s")
    (entry,) = CompletionLog(tmp_path).lookup([call("a").key]).values()
    assert (entry.fault, entry.retries, entry.tokens_in) == ("timeout", 3, 0)


class Uneven(ScriptedSession):
    """Ends the run at once when asked to stop; any other answer takes a while."""

    async def complete(self, asked: Call) -> Reply:
        if asked.prompt.user == "stop":
            raise EngineStopped("gone")
        return await super().complete(asked)


def test_who_is_told_of_a_stop_finds_all_calls_in_flight_answered(tmp_path: Path) -> None:
    async def run() -> int:
        made = hosts(tmp_path, Uneven(echo, pause_s=0.2))
        other = asyncio.ensure_future(made.complete(TOY, [call("on its way")]))
        await asyncio.sleep(0)
        with pytest.raises(EngineStopped, match="gone"):
            await made.complete(TOY, [call("stop")])
        stands = CompletionLog(tmp_path).totals().completions
        await other
        await made.close()
        return stands

    assert asyncio.run(run()) == 1


def test_a_close_ends_calls_and_seals_what_was_answered(tmp_path: Path) -> None:
    async def run() -> None:
        made = hosts(tmp_path, ScriptedSession(echo, pause_s=0.3))
        asked = asyncio.ensure_future(made.complete(TOY, [call(f"w{n}") for n in range(6)]))
        await asyncio.sleep(0.45)
        await made.close()
        with pytest.raises(EngineStopped, match="the run has ended"):
            await asked

    asyncio.run(run())
    assert CompletionLog(tmp_path).totals().completions == TOY.concurrency
    assert not list(tmp_path.glob("journal-*"))


ENGINE = HttpEngine(model="m", usd_per_mtok_in=1e6, usd_per_mtok_out=2e6)
"""One dollar a token in, two a token out."""


def shaped_call(number: int = 0, user: str = "é") -> Call:
    """A call of at most MOST_IN tokens in and 5 out."""
    return Call(key(number), Prompt(number, "", "abc", user, Shape, max_tokens=5))


def test_a_run_starts_with_what_its_log_has_paid(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append([entry(1), entry(2)])
    journal.close()
    journal.append([entry(3)])
    budget = open_budget(tmp_path, Account(max_tokens=100, max_usd=3.0))
    assert (budget.tokens, budget.max_tokens, budget.max_usd) == (3 * (7 + 3), 100, 3.0)


MOST_IN = 3 + 2 + 2 * TEMPLATE_TOKENS + len(schema_json(Shape))


def test_a_prompt_has_at_most_a_token_a_byte_and_a_template() -> None:
    assert shaped_call().most_tokens_in == MOST_IN


def reserved(budget: Budget, *calls: Call) -> None:
    async def scene() -> None:
        for each in calls:
            await asyncio.wait_for(budget.reserve(ENGINE, each), 60)

    asyncio.run(scene())


MOST = MOST_IN + 5
COST = MOST_IN * 1.0 + 5 * 2.0


def test_a_call_that_just_fits_goes_and_one_that_does_not_ends_the_run() -> None:
    reserved(Budget(max_tokens=MOST), shaped_call())
    reserved(Budget(max_tokens=MOST + 9, tokens=9), shaped_call())
    reserved(Budget(max_usd=COST), shaped_call())
    reserved(Budget(max_usd=COST + 1.0, usd=1.0), shaped_call())
    for budget, told in (
        (
            Budget(max_tokens=MOST - 1),
            f"budget.max_tokens={MOST - 1} is spent: the log holds 0 tokens",
        ),
        (Budget(max_tokens=MOST, tokens=1), f"max_tokens={MOST} is spent: the log holds 1 tokens"),
        (Budget(max_usd=COST - 1), f"budget.max_usd={COST - 1:g} is spent"),
        (Budget(max_usd=COST, usd=0.5), "0.50 USD"),
    ):
        with pytest.raises(EngineStopped, match=told):
            reserved(budget, shaped_call())


def test_what_a_call_cost_counts_and_its_reservation_ends() -> None:
    budget = Budget(max_tokens=2 * MOST, max_usd=2 * COST)
    reserved(budget, shaped_call(1), shaped_call(2))
    budget.settle(30, 10.0)
    budget.settle(10, 5.0)
    assert (budget.tokens, budget.usd) == (40, 15.0)
    budget.release(shaped_call(1))
    budget.release(shaped_call(2))
    budget.release(shaped_call(2))  # once more does no harm
    reserved(budget, shaped_call(3))
    budget.release(shaped_call(3))
    budget.settle(MOST - 39, 0.0)
    with pytest.raises(EngineStopped):
        reserved(budget, shaped_call(4))


def test_after_an_answer_that_passed_its_limit_every_call_reserves_as_much_more() -> None:
    budget = Budget(max_tokens=9000 + MOST + 8995, max_usd=1e9)
    budget.settle(9000, 0.0, beyond=8995)
    budget.settle(0, 0.0, beyond=-3)
    reserved(budget, shaped_call(1))
    budget.release(shaped_call(1))
    budget.settle(1, 0.0)
    with pytest.raises(EngineStopped, match="max_tokens"):
        reserved(budget, shaped_call(2))


def test_a_call_that_waits_reserves_what_the_answers_meanwhile_showed() -> None:
    async def scene() -> None:
        budget = Budget(max_tokens=2 * MOST)
        await budget.reserve(ENGINE, shaped_call(1))
        await budget.reserve(ENGINE, shaped_call(2))
        waiting = asyncio.create_task(budget.reserve(ENGINE, shaped_call(3)))
        await asyncio.sleep(0)
        budget.settle(MOST - 5, 0.0, beyond=9)
        for number in (1, 2):
            budget.release(shaped_call(number))
        with pytest.raises(EngineStopped, match="max_tokens"):
            await asyncio.wait_for(waiting, 60)

    asyncio.run(scene())


@pytest.mark.parametrize("most", [{"max_tokens": MOST + 9}, {"max_usd": COST + 9}])
def test_near_the_ceiling_a_call_waits_for_another(most: dict[str, Any]) -> None:
    async def scene() -> None:
        budget = Budget(**most)
        await budget.reserve(ENGINE, shaped_call(1))
        waiting = asyncio.create_task(budget.reserve(ENGINE, shaped_call(2)))
        await asyncio.sleep(0)
        assert not waiting.done()
        budget.settle(9, 9.0)
        budget.release(shaped_call(1))
        await asyncio.wait_for(waiting, 60)
        assert budget._reserved.keys() == {key(2)}

    asyncio.run(scene())


def test_calls_that_wait_for_room_do_not_look_at_the_log(tmp_path: Path) -> None:
    looks = 0

    class Watched(Payments):
        def total(self) -> tuple[int, float]:
            nonlocal looks
            looks += 1
            return super().total()

    async def scene() -> None:
        budget = Budget(max_tokens=2 * MOST, paid=Watched(tmp_path))

        async def ask(number: int) -> None:
            await budget.reserve(ENGINE, shaped_call(number))
            await asyncio.sleep(0)
            budget.release(shaped_call(number))

        await asyncio.wait_for(asyncio.gather(*map(ask, range(60))), 60)

    asyncio.run(scene())
    assert 0 < looks < 2 * 60, "about one a call that goes out"


def test_without_a_ceiling_nothing_is_reserved() -> None:
    budget = Budget(tokens=10**9, usd=1e9)
    reserved(budget, shaped_call(1), shaped_call(2))
    assert budget._reserved == {}
