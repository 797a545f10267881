"""Every damage of every kind of file is found and mended, as docs/damage.md says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.crash.damage import KINDS, OF_BENCHMARK
from tests.crash.test_kills import harness

_LOSSES = ("bit", "cut", "zero", "gone")
_ASKED_AGAIN = ("stages/questions", "stages/answers-", "forgotten.copy.json")
_NOT_OURS = ("output", "attempt note", "file of organize")
_BY_ITS_COMMAND = ("fitted file", "trained model", "results")
"""Named by `verify` until the command that wrote them has made them again."""
HARMLESS = {(kind, damage) for kind in _NOT_OURS for damage in _LOSSES}
HARMLESS |= {("journal", "cut"), ("journal", "zero")}
"""Not looked for, as the docs say: the user's own, and what reads as not written."""
ELSEWHERE = {
    "lock": "tests/unit/storage",
    "lock of completions": "tests/unit/storage",
    "note of a forgetting": "tests/unit/runner/deletion/test_delete.py",
    "list of statuses": "tests/unit/runner/test_verify.py",
}
"""Kinds that only a command at work, one that was killed, or a user's own list leaves; where they
are damaged."""


def rows() -> dict[str, list[str]]:
    """The first table of the docs: its cells by the kind of file."""
    text = (REPOSITORY / "docs" / "damage.md").read_text("utf-8").partition("\n## ")[0]
    lines = re.findall(r"^\| (.+) \|$", text, re.M)[1:]
    return {cells[0]: cells[1:] for cells in (line.split(" | ") for line in lines)}


def missed(kind: str) -> bool:
    """Whether the docs say that nothing misses a file of this kind, or only what asks for it."""
    told = rows()[kind.removesuffix(OF_BENCHMARK)][2]
    return told.startswith(("not", "nothing", "asked again", "the same; of the copy alone not"))


def test_every_kind_of_file_has_a_row() -> None:
    kinds = set(KINDS.values()) - {"manifest"}
    assert rows().keys() == kinds | {"manifest of a step", "manifest of a build"}
    assert all(len(cells) == 4 and all(cells) for cells in rows().values())


@pytest.mark.rounds
@pytest.mark.long(3000, "every place of a command is tried")
def test_every_damage_is_found_and_mended(tmp_path: Path) -> None:
    table = harness("damage", tmp_path)
    assert {kind.removesuffix(OF_BENCHMARK) for kind in table} == rows().keys() - ELSEWHERE.keys()
    assert {kind for kind in table if kind.endswith(OF_BENCHMARK)} >= {f"marker{OF_BENCHMARK}"}
    may_go = {(kind, "gone") for kind in table if missed(kind)}
    amiss = []
    for kind, cases in table.items():
        for damage in ("bit", "cut", "zero", "gone"):
            case = cases[damage]
            found = case["verify"] or case["build"] or case["benchmark"]
            if not found and (kind, damage) not in HARMLESS | may_go:
                amiss.append((kind, damage, "not found"))
            if case["organize"]:
                amiss.append((kind, damage, f"organize: {case['organize']}"))
            anew = (kind, damage) == ("pointer", "gone")  # built from nothing before the repair
            unequal = [name for name in case["unequal"] if not name.startswith(_ASKED_AGAIN)]
            left = case["after repair"] != (case["verify"] if kind in _BY_ITS_COMMAND else [])
            if case["repair"] or left or (unequal and not anew):
                amiss.append((kind, damage, str(case)[:500]))
    assert amiss == []
