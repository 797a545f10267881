from __future__ import annotations

import types

import pytest

from tests.mutation.__main__ import REPOSITORY, modules, reasons
from tests.mutation.mutate import mutants
from tests.mutation.score import _forget, _function

SOURCE = '''
class Range:
    def holds(self, n: int = 3) -> bool:
        """Not 7 + 7."""
        return self.low <= n and n < self.high

def last(rows):
    if not rows:
        raise ValueError(f"{1 + 1} rows")
    return max(rows) - 1
'''


def test_each_mutant_is_one_change_of_one_function() -> None:
    found = {each.name for each in mutants(SOURCE, "toy.py", most=99)}
    assert found >= {
        "Range.holds: self.low <= n -> self.low < n",
        "Range.holds: n < self.high -> n > self.high",
        "Range.holds: self.low <= n and n < self.high -> self.low <= n or n < self.high",
        "Range.holds: self.low <= n and n < self.high -> n < self.high",
        "last: not rows -> rows",
        "last: max(rows) - 1 -> max(rows) + 1",
        "last: max(rows) -> min(rows)",
        "last: 1 -> 2",
        "last: return max(rows) - 1 -> return",
    }
    assert not [name for name in found if "7" in name or "1 + 1" in name or "3" in name]
    drawn = [each.name for each in mutants(SOURCE, "toy.py", most=4)]
    assert len(drawn) == 4 and drawn == [each.name for each in mutants(SOURCE, "toy.py", most=4)]


def test_a_mutant_takes_the_place_of_its_function() -> None:
    module = types.ModuleType("toy")
    exec(SOURCE, module.__dict__)
    (found,) = [each for each in mutants(SOURCE, "toy.py", 99) if "min(rows)" in each.name]
    _function(module, found.function).__code__ = found.code
    assert module.last([2, 5]) == 1
    with pytest.raises(ValueError, match="2 rows"):
        module.last([])


def test_a_mutant_below_warm_caches_is_called() -> None:
    module = types.ModuleType("toy")
    source = """
from functools import cache

@cache
def two():
    return 2

class Range:
    @staticmethod
    @cache
    def low():
        return two()
"""
    exec(source, module.__dict__)
    assert module.Range.low() == 2
    (found,) = [each for each in mutants(source, "toy.py", 99) if "2 -> 3" in each.name]
    _function(module, found.function).__code__ = found.code
    _forget(module)
    assert module.Range.low() == 3


def test_each_module_of_the_table_stands() -> None:
    for module in modules():
        assert (REPOSITORY / "srrag" / f"{module}.py").is_file(), module


def test_what_may_live_is_of_a_module_and_has_a_reason() -> None:
    for mutant, reason in reasons().items():
        assert mutant.partition(": ")[0] in modules() and len(reason) > 10, mutant
