from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from srrag.engine.budget import Budget, open_budget
from srrag.engine.call import TEMPLATE_TOKENS, Call, schema_json
from srrag.engine.log.journal import Journal
from srrag.engine.openai.engine import HttpEngine
from srrag.llm.completion import Account, EngineStopped, Prompt
from tests.unit.engine.asking import Shape
from tests.unit.engine.logs import entry, key

ENGINE = HttpEngine(model="m", usd_per_mtok_in=1e6, usd_per_mtok_out=2e6)
"""One dollar a token in, two a token out."""


def call(number: int = 0, user: str = "é") -> Call:
    """A call of at most MOST_IN tokens in and 5 out."""
    return Call(key(number), Prompt(number, "", "abc", user, Shape, max_tokens=5))


def test_a_run_starts_with_what_its_log_has_paid(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append([entry(1), entry(2)])
    journal.close()
    budget = open_budget(tmp_path, Account(max_tokens=100, max_usd=3.0))
    assert (budget.tokens, budget.max_tokens, budget.max_usd) == (2 * (7 + 3), 100, 3.0)


MOST_IN = 3 + 2 + 2 * TEMPLATE_TOKENS + len(schema_json(Shape))


def test_a_prompt_has_at_most_a_token_a_byte_and_a_template() -> None:
    assert call().most_tokens_in == MOST_IN


def reserved(budget: Budget, *calls: Call) -> None:
    async def scene() -> None:
        for each in calls:
            await asyncio.wait_for(budget.reserve(ENGINE, each), 5)

    asyncio.run(scene())


MOST = MOST_IN + 5
COST = MOST_IN * 1.0 + 5 * 2.0


def test_a_call_that_just_fits_goes_and_one_that_does_not_ends_the_run() -> None:
    reserved(Budget(max_tokens=MOST), call())
    reserved(Budget(max_tokens=MOST + 9, tokens=9), call())
    reserved(Budget(max_usd=COST), call())
    reserved(Budget(max_usd=COST + 1.0, usd=1.0), call())
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
            reserved(budget, call())


def test_what_a_call_cost_counts_and_its_reservation_ends() -> None:
    budget = Budget(max_tokens=2 * MOST, max_usd=2 * COST)
    reserved(budget, call(1), call(2))
    budget.settle(30, 10.0)
    budget.settle(10, 5.0)
    assert (budget.tokens, budget.usd) == (40, 15.0)
    budget.release(call(1))
    budget.release(call(2))
    budget.release(call(2))  # once more does no harm
    reserved(budget, call(3))
    budget.release(call(3))
    budget.settle(MOST - 39, 0.0)
    with pytest.raises(EngineStopped):
        reserved(budget, call(4))


def test_after_an_answer_that_passed_its_limit_every_call_reserves_as_much_more() -> None:
    budget = Budget(max_tokens=9000 + MOST + 8995, max_usd=1e9)
    budget.settle(9000, 0.0, beyond=8995)
    budget.settle(0, 0.0, beyond=-3)
    reserved(budget, call(1))
    budget.release(call(1))
    budget.settle(1, 0.0)
    with pytest.raises(EngineStopped, match="max_tokens"):
        reserved(budget, call(2))


@pytest.mark.parametrize("most", [{"max_tokens": MOST + 9}, {"max_usd": COST + 9}])
def test_near_the_ceiling_a_call_waits_for_another(most: dict[str, Any]) -> None:
    async def scene() -> None:
        budget = Budget(**most)
        await budget.reserve(ENGINE, call(1))
        waiting = asyncio.create_task(budget.reserve(ENGINE, call(2)))
        await asyncio.sleep(0)
        assert not waiting.done()
        budget.settle(9, 9.0)
        budget.release(call(1))
        await asyncio.wait_for(waiting, 5)
        assert budget._reserved.keys() == {key(2)}

    asyncio.run(scene())


def test_without_a_ceiling_nothing_is_reserved() -> None:
    budget = Budget(tokens=10**9, usd=1e9)
    reserved(budget, call(1), call(2))
    assert budget._reserved == {}
