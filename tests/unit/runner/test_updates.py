"""A corpus that grew or shrank has the rows of one built at once, and only new rows are made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from srrag.runner import runner as local
from srrag.runner.part import run_part
from tests.unit.runner.deletion.test_delete import PLAIN, TREATMENTS, build, tables, write_papers

MORE = (*TREATMENTS, "acupuncture", "walking")


def rows_made(monkeypatch: pytest.MonkeyPatch, root: Path, papers: Path) -> dict[str, int]:
    """Build, and count the rows that each stage is given."""
    given: dict[str, int] = {}

    def counted(*arguments: Any) -> Any:
        receipt = run_part(*arguments)
        stage = arguments[1].name
        given[stage] = given.get(stage, 0) + receipt.rows_in
        return receipt

    with monkeypatch.context() as patched:
        patched.setattr(local, "run_part", counted)
        build(root, papers, *PLAIN)
    return given


def test_after_growing_only_new_rows_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    papers = write_papers(tmp_path / "papers")
    assert rows_made(monkeypatch, tmp_path / "grown", papers)["documents"] == 4
    write_papers(papers, MORE)
    new = rows_made(monkeypatch, tmp_path / "grown", papers)
    assert (new["parsed"], new["documents"], new["chunks"]) == (2, 2, 2)
    made = rows_made(monkeypatch, tmp_path / "once", papers)
    assert 3 * new["triples"] == made["triples"]
    assert tables(tmp_path / "grown") == tables(tmp_path / "once")


def test_after_shrinking_no_row_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    papers = write_papers(tmp_path / "papers", MORE)
    build(tmp_path / "shrunk", papers, *PLAIN)
    (papers / "taping.md").unlink()
    assert rows_made(monkeypatch, tmp_path / "shrunk", papers) == {}
    build(tmp_path / "once", papers, *PLAIN)
    assert tables(tmp_path / "shrunk") == tables(tmp_path / "once")


def test_a_damaged_part_is_not_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    papers = write_papers(tmp_path / "papers", MORE)
    root = tmp_path / "shrunk"
    build(root, papers, *PLAIN)
    part = next((root / "stages" / "extracts").rglob("part-*.parquet"))
    part.write_bytes(part.read_bytes()[:-1] + b"!")
    (papers / "taping.md").unlink()
    assert rows_made(monkeypatch, root, papers).keys() == {"extracts", "triples"}
    build(tmp_path / "once", papers, *PLAIN)
    assert tables(root) == tables(tmp_path / "once")


def test_growing_and_shrinking_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    papers = write_papers(tmp_path / "papers", MORE[:-1])
    build(tmp_path / "changed", papers, *PLAIN)
    (papers / "taping.md").unlink()
    write_papers(papers, MORE[-1:])
    assert rows_made(monkeypatch, tmp_path / "changed", papers)["parsed"] == 1
    build(tmp_path / "once", papers, *PLAIN)
    assert tables(tmp_path / "changed") == tables(tmp_path / "once")
