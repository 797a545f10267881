from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from srrag.answer.select.papers import GatherPapers, joined
from srrag.core.schema import CONVERSATION, HITS, UNITS, empty_value
from srrag.core.standing import Standings
from srrag.core.step import Place
from srrag.index.units import BuildUnits
from tests.unit.index.tables import documents, row, uid, write

ABSTRACT = ("Aim one.", "Method one.", "Result one.")
LONG = ("Introduction", "Methods", "Results", "Results > Harms", "Discussion", "Conclusion")


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return index_of_papers(tmp_path_factory.mktemp("units"))


def index_of_papers(out: Path) -> Place:
    """An abstract a in three windows, its copy b, a full text c of one article with d, and e."""
    known = {
        "a": ("11", "Laser", 2015), "b": ("", "LASER", 2015), "c": ("12", "Casts", 2020),
        "d": ("12", "Casts", 2020), "e": ("13", "Rest", 2001),
    }  # fmt: skip
    rows: list[dict[str, Any]] = []

    def window(name: str, section: str, start: int, text: str, tokens: int) -> None:
        span = {"char_start": start, "char_end": start + len(text), "order": start}
        unit = uid(len(rows))
        rows.append(
            row(UNITS, unit_id=unit, doc_id=doc[name], section=section, text=text)
            | span
            | {"num_tokens": tokens}
        )

    doc = {name: uid(100 + n) for n, name in enumerate(known)}
    for n, text in enumerate(ABSTRACT):
        window("a", ("Aim", "Methods", "Results")[n], 40 * n, text, 20)
    window("b", "", 0, "Aim one. Result one.", 20)
    for n, section in enumerate(LONG):
        window("c", section, 1000 * n, f"{section} told.", 90)
    window("d", "", 0, "Casts in short.", 30)
    window("e", "", 0, "Rest helps those who", 10)
    window("e", "", 11, "those who wait.", 10)
    inputs = {
        "windows": [write(rows, UNITS, out / "w.parquet")],
        "documents": [
            documents(
                [
                    {"doc_id": doc[k], "source_id": k, "pmid": p, "title": t, "year": y}
                    for k, (p, t, y) in known.items()
                ],
                out / "d.parquet",
            )
        ],
    }
    BuildUnits().build(inputs, out, Place())
    return Place(artifacts={"units": out})


def gathered(
    at: Place, ranked: list[int], recalled: Sequence[str] = (), **fields: Any
) -> list[dict[str, Any]]:
    hits = [{"unit_id": uid(n), "score": 9.0 - k, "rank": k + 1} for k, n in enumerate(ranked)]
    said = empty_value(CONVERSATION) | {  # type: ignore[operator]
        "papers": [{"key": key, "line": "", "recalled": bool(key)} for key in recalled]
    }
    table = pa.table(
        {
            "hits": pa.array([hits, []], HITS),
            "conversation": pa.array([said, empty_value(CONVERSATION)], CONVERSATION),
        }
    )
    out = GatherPapers(**fields).open(at)(table)
    assert out["evidence"].to_pylist()[1] == []
    found: list[dict[str, Any]] = out["evidence"].to_pylist()[0]
    return found


def test_an_abstract_is_whole_with_its_headings_whichever_window_was_found(at: Place) -> None:
    (paper,) = gathered(at, [2])
    assert paper["text"] == (
        "## Aim\n\nAim one.\n\n## Methods\n\nMethod one.\n\n## Results\n\nResult one."
    )
    assert (paper["kind"], paper["pmid"], paper["char_start"]) == ("document", "11", -1)


def test_papers_come_best_first_and_each_work_once(at: Place) -> None:
    """Window 3 has the title and year of the first; 10 and 4 are of one article."""
    papers = gathered(at, [2, 3, 11, 0, 10, 4])
    assert [paper["title"] for paper in papers] == ["Laser", "Rest", "Casts"]
    assert [paper["score"] for paper in papers] == [9.0, 7.0, 5.0]


def test_overlapping_windows_are_read_once(at: Place) -> None:
    assert gathered(at, [12])[0]["text"] == "Rest helps those who wait."


def test_of_a_long_paper_come_what_was_found_its_conclusion_and_its_results(at: Place) -> None:
    """A quarter of 1,200 tokens holds three of its windows of 90 tokens, and a short one."""
    (paper,) = gathered(at, [5], evidence_tokens=1200)
    told = [line for line in paper["text"].split("\n\n") if not line.startswith("#")]
    assert told == ["Methods told.", "Results told.", "Conclusion told.", "Casts in short."]
    (whole,) = gathered(at, [5], evidence_tokens=6000)
    assert "Introduction told." in whole["text"]
    assert "Casts in short." in whole["text"]


def test_a_long_paper_behind_the_best_ones_takes_an_abstract_of_room(
    at: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srrag.answer.select.papers.BEST_PAPERS", 1)
    _, long = gathered(at, [2, 5], evidence_tokens=1200)
    told = [line for line in long["text"].split("\n\n") if not line.startswith("#")]
    assert told == ["Methods told.", "Casts in short."]


def test_the_block_ends_before_the_paper_that_does_not_fit(at: Place) -> None:
    assert len(gathered(at, [4, 2, 11], evidence_tokens=400)) == 3
    assert len(gathered(at, [4, 2, 11], k=2)) == 2
    with pytest.raises(ValueError, match="at least 400"):
        GatherPapers(evidence_tokens=10)
    with pytest.raises(ValueError, match="'hide' or 'show'"):
        GatherPapers(status="gone")


def test_papers_far_below_the_best_are_not_read(at: Place) -> None:
    """The three papers have the scores 9, 7 and 5."""
    found = [gathered(at, [2, 3, 11, 0, 10], floor=floor) for floor in (0.5, 0.6, 0.9)]
    assert [len(papers) for papers in found] == [3, 2, 1]
    with pytest.raises(ValueError, match="at least 0 and below 1"):
        GatherPapers(floor=1.0)


def test_papers_that_a_message_speaks_of_come_first_found_or_not(at: Place) -> None:
    ranked = [3, 5, 0]
    assert [each["title"] for each in gathered(at, ranked)] == ["LASER", "Casts"]
    papers = gathered(at, ranked, ["PMID 13", "PMID 12", "PMID 99", "nowhere"], floor=0.9)
    assert [each["title"] for each in papers] == ["Rest", "Casts", "LASER"]
    assert papers[0]["text"] == "Rest helps those who wait."
    assert [each["title"] for each in gathered(at, [], ["b"])] == ["LASER"]


C, D = uid(102), uid(103)
"""The full text and the abstract of one paper; the windows of D come after those of C."""


def told(monkeypatch: pytest.MonkeyPatch, said: dict[str, str]) -> None:
    """Let a build say this of its documents, and of the others that they are in order."""

    class Told(Standings):
        def find(self, doc_ids: Sequence[str]) -> tuple[list[str], list[str]]:
            return [said.get(each, "ok") for each in doc_ids], [""] * len(doc_ids)

    monkeypatch.setattr("srrag.answer.select.papers.Standings.of", lambda at, stage: Told(None))


@pytest.mark.parametrize("ranked", [[10, 5], [5, 10], [2, 10, 5], [10, 2, 5]])
def test_a_copy_neither_hides_its_paper_nor_is_read_along(
    ranked: list[int], at: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(monkeypatch, {D: "copy"})
    *others, casts = gathered(at, ranked)
    assert [each["title"] for each in others] == ["Laser"] * (2 in ranked)
    assert (casts["title"], casts["doc_id"]) == ("Casts", C)
    assert casts["score"] == 9.0 - ranked.index(5)
    assert "Methods told." in casts["text"] and "Casts in short." not in casts["text"]
    assert gathered(at, [10]) == []


@pytest.mark.parametrize("ranked", [[], [10], [3, 10], [3]])
def test_a_message_that_speaks_of_a_copy_gets_the_paper(
    ranked: list[int], at: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(monkeypatch, {D: "copy"})
    casts, *others = gathered(at, ranked, ["d"])
    assert (casts["title"], casts["doc_id"]) == ("Casts", C)
    assert [each["title"] for each in others] == ["LASER"] * (3 in ranked)
    told(monkeypatch, {C: "copy", D: "copy"})
    assert [each["title"] for each in gathered(at, ranked, ["d"])] == ["LASER"] * (3 in ranked)


@pytest.mark.parametrize("hidden", ["deleted", "retracted"])
def test_a_document_that_must_not_be_cited_is_not_read_along(
    hidden: str, at: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(monkeypatch, {C: hidden})
    for status in ("hide", "show"):
        (casts,) = gathered(at, [10, 5], status=status)
        assert (casts["text"], casts["standing"]) == ("Casts in short.", "ok")
    assert gathered(at, [5, 10]) == []
    (shown,) = gathered(at, [5, 10], status="show")
    assert shown["standing"] == hidden and "Methods told." in shown["text"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-2.41 to -0.70) and counselling fell. Both helped.", "Both helped."),
        ("months. At a year it had gone.", "At a year it had gone."),
        ("48 adults were treated. All improved.", "48 adults were treated. All improved."),
        ("SD of 3. None fell.", "SD of 3. None fell."),
        ("all of it", "all of it"),
    ],
)
def test_a_window_begins_with_a_whole_sentence_where_it_has_one(text: str, shown: str) -> None:
    window = {"doc_id": "a", "section": "Results", "char_start": 9, "char_end": 90, "text": text}
    assert joined([window]) == shown
