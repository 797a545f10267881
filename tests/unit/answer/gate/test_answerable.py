"""The gate before an answer, and what an abstention says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from srrag.answer.gate.answerable import (
    OTHER_PEOPLE,
    JudgeAnswerable,
    abstention_note,
    lack_note,
    packaged_model,
    people_note,
    read_model,
    typo_note,
)
from srrag.answer.gate.coverage import FEATURES
from srrag.answer.write.compose import ComposeAnswer
from srrag.core.schema import EVIDENCE
from srrag.core.step import Place
from srrag.retrieve.questions import question_table

TITLE = "Manual physiotherapy for chronic neck pain: a randomised trial"
TEXT = (
    "Manual physiotherapy reduced chronic neck pain more than advice did (P = 0.01). "
    "Physiotherapy was associated with less neck disability."
)


def item(number: int, title: str, text: str) -> dict[str, Any]:
    """A piece of evidence."""
    return {
        "evidence_id": f"w{number}", "unit_id": f"u{number}", "doc_id": f"d{number}",
        "source_id": f"s{number}", "pmid": "", "grade": "C", "title": title, "section": "Results",
        "year": 2020, "text": text, "score": 1.0,
    }  # fmt: skip


def asked(*questions: str, evidence: list[dict[str, Any]] | None = None) -> pa.Table:
    found = [item(1, TITLE, TEXT)] if evidence is None else evidence
    table = question_table({"query_id": q, "text": q} for q in questions)
    return table.append_column("evidence", pa.array([found] * len(questions), EVIDENCE))


def gated(table: pa.Table, **settings: Any) -> pa.Table:
    return JudgeAnswerable(**settings).open(Place())(table)


def test_what_the_evidence_holds_is_answered_and_what_it_lacks_is_not() -> None:
    good, bad = gated(
        asked(
            "Does manual physiotherapy reduce chronic neck pain?",
            "Does bisoprolol reduce mortality in cirrhosis?",
        )
    ).to_pylist()
    assert good["gate"]["answers"] and good["gate"]["lacking"] == []
    assert not bad["gate"]["answers"]
    assert bad["gate"]["lacking"] == ["bisoprolol", "mortality", "cirrhosis"]
    assert good["answerable"] > bad["answerable"]


def test_an_abstention_says_what_is_missing_and_what_is_near() -> None:
    question = "How effective is manual physiotherapy for whiplash?"
    table = gated(asked(question), threshold=1.0)
    (row,) = ComposeAnswer(gate="gate").open(Place())(table).to_pylist()
    assert row["state"] == "not" and row["sentences"] == []
    assert row["missing"] == (
        "Nothing in the evidence on “whiplash”. The nearest that there is speaks of “manual” and "
        f"“physiotherapy” (“{TITLE}”)."
    )


def test_an_answer_says_that_it_may_be_about_others_than_asked() -> None:
    for question, note in (
        ("Does manual physiotherapy reduce neck pain in infants?", OTHER_PEOPLE),
        ("Does manual physiotherapy reduce neck pain in people with cirrhosis?", OTHER_PEOPLE),
        ("Does bisoprolol reduce neck pain in people with neck disability?", ""),
        ("Does manual physiotherapy reduce chronic neck pain?", ""),
    ):
        table = gated(asked(question), threshold=0.0)
        (row,) = ComposeAnswer(gate="gate", max_unsaid=1.0).open(Place())(table).to_pylist()
        assert row["sentences"] and (OTHER_PEOPLE in row["answer_note"]) == bool(note), question
    shut = gated(asked("Does physiotherapy reduce neck pain in infants?"), threshold=1.0)
    (row,) = ComposeAnswer(gate="gate").open(Place())(shut).to_pylist()
    assert row["state"] == "not" and OTHER_PEOPLE not in row["answer_note"]


def test_a_paper_elsewhere_in_the_evidence_does_not_make_an_answer_be_about_the_people() -> None:
    other = item(2, "Yoga in pregnancy", "Yoga was safe in pregnancy.")
    table = gated(asked("Does manual physiotherapy reduce neck pain in pregnancy?",
                        evidence=[item(1, TITLE, TEXT), other]))  # fmt: skip
    (row,) = table.to_pylist()
    question, gate = row["text"], row["gate"]
    assert people_note(question, gate, {"w1"}) == OTHER_PEOPLE
    assert people_note(question, gate, {"w1", "w2"}) == people_note(question, gate, ()) == ""


def test_a_bullet_counts_with_the_whole_of_its_document_where_that_is_named() -> None:
    question = "How effective is manual physiotherapy for whiplash?"
    bullet, other = item(1, TITLE, "Manual physiotherapy is cheap."), item(2, "Other", "Of knees.")
    table = asked(question, evidence=[bullet])
    whole = item(1, TITLE, f"{TEXT} Whiplash got better with physiotherapy.")
    documents = pa.array([[other, whole]], EVIDENCE)
    (alone,) = gated(table).to_pylist()
    read = gated(table.append_column("documents", documents), documents="documents").to_pylist()[0]
    assert alone["gate"]["lacking"] == ["whiplash"]
    assert read["gate"]["lacking"] == [] and read["gate"]["on_topic"] == ["w1"]
    assert read["answerable"] > alone["answerable"]


def test_missing_words_stand_beside_an_answer_too() -> None:
    question = "How effective is manual physiotherapy for whiplash?"
    table = gated(asked(question), threshold=0.0)
    (row,) = ComposeAnswer(gate="gate").open(Place())(table).to_pylist()
    assert row["state"] == "not", "what could be quoted is not on whiplash"
    (row,) = ComposeAnswer(gate="gate", max_unsaid=1.0).open(Place())(table).to_pylist()
    assert row["state"] == "answered" and row["sentences"]
    assert "Nothing in the evidence on “whiplash”." in row["answer_note"]


def test_papers_beside_the_question_are_not_on_it() -> None:
    other = item(2, "Vitamin D and chronic fatigue", "Vitamin D changed nothing in fatigue.")
    table = gated(asked("Does manual physiotherapy reduce neck pain?", evidence=[
        item(1, TITLE, TEXT), other,
    ]))  # fmt: skip
    assert table["gate"].to_pylist()[0]["on_topic"] == ["w1"]


def test_no_evidence_is_no_answer() -> None:
    (row,) = gated(asked("Does yoga help?", evidence=[])).to_pylist()
    assert row["answerable"] == 0 and not row["gate"]["answers"]


def test_notes_are_never_empty_and_never_endless() -> None:
    gate = {"lacking": [], "near": [], "nearest": ""}
    assert lack_note(gate) == ""
    assert abstention_note(gate).startswith("No paper in the evidence")
    many = lack_note(gate | {"lacking": [f"w{n}" for n in range(12)]})
    assert many.endswith("“w7” and 4 more.")


def test_a_threshold_is_a_probability() -> None:
    with pytest.raises(ValueError, match=r"threshold is 1\.5"):
        JudgeAnswerable(threshold=1.5)


def test_a_file_of_other_features_is_named(tmp_path: Path) -> None:
    path = tmp_path / "answerable.json"
    path.write_text(json.dumps({"features": ["x"]}), "utf-8")
    with pytest.raises(ValueError, match=r"answerable\.json: .*fit it again"):
        read_model(path)


def test_the_packaged_model_says_where_it_comes_from_and_is_sane() -> None:
    model = packaged_model()
    weights = dict(zip(FEATURES, model.weights, strict=True))
    assert weights["absent_telling"] < 0 < weights["passage_coverage"]
    assert model.frequencies.weight("whiplash") > model.frequencies.weight("pain")


def test_a_note_says_how_a_typo_was_read() -> None:
    evidence = [{"title": "Balance training", "text": "Anemia was rare."}]
    assert typo_note("Does balnce help?", evidence) == "“balnce” is read as “Balance”."
    assert typo_note("Does balance help in anaemia?", evidence) == ""
