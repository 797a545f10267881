"""What a clinician reads first of an answer: facts about its evidence."""

from __future__ import annotations

from typing import Any

import pytest

from srrag.answer.clinical import (
    LOWER,
    ClinicalReading,
    as_bibtex,
    as_ris,
    claimed_guideline,
    clinical_reading,
    other_language,
    reference_line,
)
from srrag.answer.evidence import Evidence, papers_of
from srrag.answer.record import AnswerNote, AnswerRecord, AnswerSentence
from srrag.core.standing import STUDIES

ASKED = "Does bracing prevent ankle sprains in adults?"
FOUND = {"doc_id": "d", "source_id": "s", "standing": "ok", "grade_source": "metadata"}


def piece(number: int, grade: str = "C", **more: Any) -> Evidence:
    told = {**FOUND, "doc_id": f"d{number}", "year": 2020, "unit_id": f"u{number}", **more}
    return Evidence(number=number, grade=grade, study=STUDIES.get(grade, ""), **told)


def answered(
    *evidence: Evidence, said: tuple[AnswerSentence, ...] = (), **more: Any
) -> AnswerRecord:
    said = said or tuple(
        AnswerSentence(text=f"Quote {each.number}.", citations=(each.number,)) for each in evidence
    )
    cited = {number for each in said for number in each.citations}
    told = {"question": ASKED, "state": "answered", "model": "rules", "answer": "The text.", **more}
    return AnswerRecord(
        sentences=said, evidence=evidence, papers=papers_of(evidence, cited), **told
    )  # fmt: skip


def read(*evidence: Evidence, **more: Any) -> ClinicalReading:
    return clinical_reading(answered(*evidence, **more))


def points(reading: ClinicalReading) -> dict[str, str]:
    return {point.kind: point.text for point in reading.untold}


CITES_ONE = (AnswerSentence(text="Yes.", citations=(1,)),)


def test_of_quotes_the_first_two_are_the_bottom_line_and_of_a_model_the_first() -> None:
    lead = AnswerSentence(text="Grade C, randomised trial: Sprains were fewer.", citations=(1,))
    said = (lead, AnswerSentence(text="Falls were fewer.", citations=(2,)), *CITES_ONE)
    by_rules = read(piece(1), piece(2), said=said)
    assert [line.text for line in by_rules.bottom_line] == [
        "Sprains were fewer.", "Falls were fewer.",
    ]  # fmt: skip
    assert by_rules.bottom_line[0].citations == (1,) and by_rules.heading == "Bottom line"
    assert len(read(piece(1), piece(2), said=said, model="m").bottom_line) == 1
    long = (lead, AnswerSentence(text="word " * 90, citations=(2,)))
    assert len(read(piece(1), piece(2), said=long).bottom_line) == 1, "two that are long crowd it"
    other = (AnswerSentence(text="Elsewhere.", part="evidence", citations=(2,)), *said[:1])
    assert [line.citations for line in read(piece(1), piece(2), said=other).bottom_line] == [(1,)]


def test_the_grade_is_that_of_the_first_sentence_also_where_a_better_one_is_cited() -> None:
    reading = read(piece(1, "D"), piece(2, "B"), piece(3, ""))
    told = reading.certainty
    assert (told.grade, told.study, told.sources, told.claimed) == ("D", STUDIES["D"], 3, False)
    assert told.sentence.startswith("The answer rests on 1 systematic review or meta-analysis, ")
    assert LOWER in told.sentence
    assert LOWER not in read(piece(1, "B"), piece(2, "D")).certainty.sentence
    assert read(piece(1, "A", grade_source="rule:guideline_title")).certainty.claimed


def test_an_abstention_has_no_bottom_line_no_points_and_no_references() -> None:
    reading = read(piece(1), state="not")
    assert reading.heading == "Not enough evidence" and reading.certainty.sources == 0
    assert reading.bottom_line == reading.untold == reading.references == ()
    assert reading.ris == reading.bibtex == ""


def test_what_is_not_told_is_counted_from_the_papers() -> None:
    told = points(read(piece(1), piece(2, "D", year=2024), said=CITES_ONE))
    assert told == {
        "single": "Only one paper is cited: the answer stands on it alone.",
        "no_guideline": "No guideline and no systematic review on this was found in this library.",
        "year": "Nothing cited is newer than 2020; the newest paper found is of 2024.",
    }
    assert "guideline_uncited" in points(read(piece(1), piece(2, "A"), said=CITES_ONE))
    assert not {"single", "no_guideline"} & points(read(piece(1, "A"), piece(2))).keys()
    assert points(read(piece(1, year=0)))["year"].startswith("When the cited papers appeared")


def test_papers_that_are_not_in_order_are_named_by_a_number_that_is_cited() -> None:
    of_one = {"doc_id": "d", "standing": "retracted", "standing_link": "pmid:9"}
    told = points(read(piece(1, **of_one), piece(2, **of_one),
                       said=(AnswerSentence(text="Yes.", citations=(2,)),)))  # fmt: skip
    assert told["standing"] == "[2] is retracted (PMID 9)."


@pytest.mark.parametrize(
    ("title", "other"),
    [("Braces in rats", "rats"), ("Braces for children", "children"), ("Braces for adults", "")],
)
@pytest.mark.parametrize("model", ["rules", "a model"])
def test_a_paper_of_animals_or_of_other_people_than_asked_is_named(
    title: str, other: str, model: str
) -> None:
    told = points(read(piece(1), piece(2, title=title), model=model))
    assert told.get("other", "") == (
        f"[2] is about others than you asked about: “{other}”." if other else ""
    )


@pytest.mark.parametrize(
    ("title", "grade", "source", "claims"),
    [
        ("Guideline for ankle sprains", "A", "publication_type", ""),
        ("Guideline for ankle sprains", "A", "rule:guideline_title", "its own wording"),
        ("Ankle sprains: a guideline", "D", "metadata", "but is graded D"),
        ("Adherence to guidelines for ankle sprains", "D", "metadata", ""),
        ("Bracing after sprain", "C", "metadata", ""),
    ],
)
def test_what_only_calls_itself_a_guideline_is_told(
    title: str, grade: str, source: str, claims: str
) -> None:
    item = piece(1, grade, title=title, grade_source=source)
    told = claimed_guideline(papers_of([item], {1})[0], [item])
    assert claims in told and bool(told) == bool(claims)
    reading = read(item)
    assert reading.papers[0].claims == told
    assert points(reading).get("claims_guideline", "") == (f"[1] {told}." if told else "")


def test_why_a_piece_of_evidence_is_there_is_told_by_what_found_it() -> None:
    found = [{"channel": "dense"}, {"channel": "sparse", "track": "guidelines"}]
    why = ({"unit_id": "u1", "found": found}, {"unit_id": "u2", "found": []})
    first, second = read(piece(1, "A"), piece(2), why=why).papers
    assert first.because == (
        "Here because its meaning is close to the question, it uses the question’s words and it "
        "was found among the guidelines."
    )
    assert second.because == ""


def test_pieces_of_one_paper_count_once() -> None:
    evidence = [piece(1, pmid="7"), piece(2, pmid="7"), piece(3, doc_id="d1")]
    assert [paper.numbers for paper in papers_of(evidence, {2})] == [(1, 2), (3,)]


def test_a_papers_status_is_the_gravest_of_its_pieces() -> None:
    """Two documents of one PMID, of which the one that comes second is known to be retracted."""
    gone = {"standing": "retracted", "standing_link": "pmid:9"}
    evidence = [piece(1, pmid="7", standing="ok"), piece(2, pmid="7", **gone)]
    (paper,) = papers_of(evidence, {2})
    assert (paper.numbers, paper.status) == ((1, 2), "retracted (PMID 9)")
    unread = [piece(1, pmid="7", standing=""), piece(2, pmid="7", standing="corrected")]
    assert papers_of(unread, {1})[0].status == "corrected after publication"


def test_the_whole_is_also_text() -> None:
    text = read(piece(1, title="Braces")).text
    assert text.startswith(f"{ASKED}\n\nThe text.\n\nWhat this does not tell\n- Only one paper")
    assert "Sources\n[1] Braces. 2020. Grade C (randomised trial)." in text
    assert "What this" not in read(piece(1), state="not").text


def test_the_text_tells_what_is_missing_and_what_was_not_used() -> None:
    note = AnswerNote(kind="publication", text="Not used: “Lamps”, retracted (PMID 9).")
    text = read(piece(1), state="partly", missing="Doses.", notes=(note,)).text
    told = f"Answered in part.\n\nMissing: Doses.\n\nNote: {note.text}"
    assert text.startswith(f"{ASKED}\n\nThe text.\n\n{told}\n\nWhat this does not tell\n")


def test_a_question_in_another_language_is_told() -> None:
    texts = ["The patients in the study were treated with exercise and the pain was less."]
    told = other_language("Wie lange darf der Knöchel nach einer Verletzung in den Gips?", texts)
    assert told.startswith("Your question seems to be in German; the papers here are in English.")
    assert other_language("How long may the ankle be in a cast?", texts) == ""
    asked = {"question": "Wie lange darf der Knöchel nach einer Verletzung in den Gips?"}
    reading = read(piece(1, text=texts[0]), **asked)
    assert reading.language == told and f"\n\n{told}\n\n" in reading.text
    assert other_language("ACL exercise", texts) == "", "too short to tell"


def test_references_hold_what_is_known_and_escape_the_rest() -> None:
    item = Evidence(
        number=4, title="Rest & 50% {less}", pmid="123", year=2020, grade="C",
        study="randomised trial", source_id="s", standing="retracted",
    )  # fmt: skip
    papers = papers_of([item], {4})
    ris = as_ris(papers).split("\r\n")
    assert ris[:4] == ["TY  - JOUR", "TI  - Rest & 50% {less}", "PY  - 2020", "AN  - 123"]
    assert "ER  - " in ris and any("retracted" in line for line in ris)
    told = as_bibtex(papers)
    assert r"title = {{Rest \& 50\% \{less\}}}" in told and "@article{pmid123," in told
    line = reference_line(papers[0], {4})
    assert line.startswith("[4] Rest & 50% {less}. 2020. PMID 123. Grade C (randomised trial)")


def test_a_paper_without_title_pmid_and_year_goes_by_its_own_id() -> None:
    papers = papers_of([Evidence(number=1, source_id="a b/c")], {1})
    assert (
        as_ris(papers) == "TY  - JOUR\r\nTI  - a b/c\r\nID  - a b/c\r\nN1  - No grade\r\nER  - \r\n"
    )
    assert as_bibtex(papers) == "@article{abc,\n  title = {{a b/c}},\n  note = {No grade},\n}\n"
    assert reference_line(papers[0], set()) == " a b/c. No grade."
