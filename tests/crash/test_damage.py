"""Every damage of every kind of file is found and mended, as docs/damage.md says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from srrag.runner import inventory
from tests.conftest import REPOSITORY
from tests.crash.test_kills import harness

_LOSSES = ("bit", "cut", "zero", "gone")
_ASKED_AGAIN = ("stages/questions", "stages/answers-", "forgotten.copy.json")
HARMLESS = {(kind, damage) for kind in ("output", "attempt note") for damage in _LOSSES}
HARMLESS |= {("journal", "cut"), ("journal", "zero"), ("index of completions", "bit")}
HARMLESS |= {("index of completions", "cut"), ("index of completions", "zero")}
"""Not looked for, as the docs say: the user's own, and what reads as not written."""


def rows() -> dict[str, list[str]]:
    """The first table of the docs: its cells by the kind of file."""
    text = (REPOSITORY / "docs" / "damage.md").read_text("utf-8").partition("\n## ")[0]
    lines = re.findall(r"^\| (.+) \|$", text, re.M)[1:]
    return {cells[0]: cells[1:] for cells in (line.split(" | ") for line in lines)}


def test_every_kind_of_file_has_a_row() -> None:
    kinds = set(inventory._OWN.values()) - {"manifest"}
    assert rows().keys() == kinds | {"manifest of a step", "manifest of a build"}
    assert all(len(cells) == 4 and all(cells) for cells in rows().values())


@pytest.mark.rounds
@pytest.mark.long(3000, "every place of a command is tried")
def test_every_damage_is_found_and_mended(tmp_path: Path) -> None:
    table = harness("damage", tmp_path)
    assert table.keys() >= {"pointer", "raw part", "completions", "marker", "output"}
    assert table.keys() <= rows().keys()
    amiss = []
    for kind, cases in table.items():
        for damage in ("bit", "cut", "zero", "gone"):
            case = cases[damage]
            found = case["verify"] or case["build"]
            lost = damage == "gone" and "not" in rows()[kind][2]
            if not found and (kind, damage) not in HARMLESS and not lost and damage != "gone":
                amiss.append((kind, damage, "not found"))
            anew = (kind, damage) == ("pointer", "gone")  # built from nothing before the repair
            unequal = [name for name in case["unequal"] if not name.startswith(_ASKED_AGAIN)]
            if case["repair"] or case["after repair"] or (unequal and not anew):
                amiss.append((kind, damage, str(case)[:500]))
    assert amiss == []
