from __future__ import annotations

from pathlib import Path

import pytest

from srrag.runner.part import Attempt


def die_at(path: Path, row: int) -> Attempt:
    """One attempt that walks up to a row and dies there."""
    attempt = Attempt(path)
    for before in range(row + 1):
        attempt.touch(before)
    return attempt


def test_three_deaths_in_succession_on_one_row_count(tmp_path: Path) -> None:
    note = tmp_path / "note.json"
    for deaths in range(3):
        assert not die_at(note, 4).poisoned(4), deaths
    attempt = Attempt(note)
    assert attempt.poisoned(4)
    assert not attempt.poisoned(3)


def test_deaths_on_other_rows_in_between_start_anew(tmp_path: Path) -> None:
    note = tmp_path / "note.json"
    for row in (4, 4, 2, 4, 4, 1, 4):
        die_at(note, row)
    assert not Attempt(note).poisoned(4)


def test_who_is_told_to_stop_leaves_no_strike(tmp_path: Path) -> None:
    note = tmp_path / "note.json"
    for _ in range(5):
        die_at(note, 4).release()
    assert not note.exists()
    die_at(note, 4)
    die_at(note, 4).release()
    assert not Attempt(note).poisoned(4)


@pytest.mark.parametrize(
    "text",
    [
        "", '{"poison": [1', "[]", '{"poison": ["1"], "deaths": 0}',
        '{"poison": ["1"], "deaths": 0, "died": null, "row": null}',
    ],
)  # fmt: skip
def test_an_empty_or_cut_note_tells_of_an_attempt_and_no_more(tmp_path: Path, text: str) -> None:
    note = tmp_path / "note.json"
    note.write_text(text)
    attempt = Attempt(note)
    assert attempt.careful and not attempt.poison and not attempt.deaths
    attempt.done()
    assert not note.exists()
