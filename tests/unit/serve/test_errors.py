"""When who is refused is told to come back."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.serve.errors import ApiError, back_in_s, busy


@given(st.floats(0.0, 1e6), st.integers())
def test_nobody_is_told_less_than_the_wait_or_more_than_twice(wait_s: float, seed: int) -> None:
    random.seed(seed)
    seconds = back_in_s(wait_s)
    assert isinstance(seconds, int) and 1 <= seconds <= 60
    assert min(wait_s, 30) <= seconds <= 2 * max(1, math.ceil(wait_s))


@pytest.mark.parametrize("least", [1, 3, 30])
def test_who_is_refused_together_does_not_come_back_together(least: int) -> None:
    random.seed(least)
    number, seconds = 20_000, range(least, 2 * least + 1)
    fault = busy(least - 0.5)
    told = Counter(int(fault.headers()["Retry-After"]) for _ in range(number))
    assert set(told) == set(seconds)
    share = number / len(seconds)
    # Five standard deviations of a fair lot.
    assert all(abs(each - share) < 5 * math.sqrt(share) for each in told.values())


def test_a_keys_own_limit_is_told_to_the_second() -> None:
    rate = ApiError(429, "rate", "too many", retry_s=2.2)
    assert {rate.headers()["Retry-After"] for _ in range(50)} == {"3"}


def test_other_faults_say_no_time() -> None:
    assert ApiError(401, "unauthorized", "no").headers() == {"WWW-Authenticate": "Bearer"}
    assert ApiError(400, "invalid", "no").headers() == {}


def test_a_fault_travels_with_all_that_is_told() -> None:
    fault = ApiError(503, "busy", "later", "field", 2.5)
    kind, told = fault.__reduce__()  # by which Ray carries it
    copy = kind(*told)
    assert vars(copy) == vars(fault)
