"""A model checks each sentence against what it cites; what is not there is mended or goes."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pytest

from srrag.answer.support.check_answer import LOST_LEAD, CheckAnswer, CheckedAnswer, checked
from srrag.answer.write.cited import ABSTENTION
from srrag.core.pipeline import spare
from srrag.core.schema import (
    ANSWER,
    EVIDENCE,
    NO_CHOICE,
    QUESTIONS,
    REJECT,
    empty_value,
    sentence_row,
)
from srrag.core.step import Place
from srrag.engine.openai.engine import HttpEngine
from srrag.llm.completion import Completion
from srrag.llm.read_answer import read

STEP = CheckAnswer(engine=HttpEngine(model="m"))
QUESTION = "Does strength training help plantar heel pain more than stretching?"
TRIAL = (
    "Forty-eight adults with plantar heel pain were randomised. At 3 months the Foot Function "
    "Index was 29 points lower with strength training (P = 0.016). At 12 months the groups did "
    "not differ."
)
REVIEW = "Stretching helped in 3 of 10 trials. No harm was seen."
LEAD = "Yes: strength training lowered the index by 29 points at 3 months."
LATER = "At 12 months the groups did not differ."
OTHER = "Stretching helped in 3 of 10 trials."


def place_of(evidence_id: str, text: str, quote: str) -> dict[str, Any]:
    start = text.index(quote)
    return {"evidence_id": evidence_id, "start": start, "end": start + len(quote)}


def answered(*sentences: dict[str, Any], **told: Any) -> pa.Table:
    """One question with these sentences; without any, a lead, a later result and another paper."""
    item = {field.name: empty_value(field.type) for field in EVIDENCE.value_type}
    evidence = [
        item | {"evidence_id": "e1", "title": "A trial", "grade": "C", "text": TRIAL, "year": 2015},
        item | {"evidence_id": "e2", "title": "Unread", "text": "Nothing that is cited."},
        item | {"evidence_id": "e3", "title": "A review", "grade": "B", "text": REVIEW},
    ]
    said = list(sentences) or [
        sentence_row(LEAD, ["e1"], places=[place_of("e1", TRIAL, "At 3 months")]),
        sentence_row(LATER, ["e1"], part="evidence", places=[place_of("e1", TRIAL, LATER)]),
        sentence_row(OTHER, ["e3"], part="evidence"),
    ]
    fields = [field for field in QUESTIONS if field.name != "reject"]
    schema = pa.schema(
        [*fields, pa.field("evidence", EVIDENCE), *ANSWER, pa.field("reject", REJECT)]
    )
    blank = {field.name: empty_value(field.type) for field in schema} | {"reject": None}
    row = blank | {
        "text": QUESTION,
        "evidence": evidence,
        "sentences": said,
        "answer": "As written.",
    }
    row |= {"state": "answered", "verdict": "yes", "choice": 1} | told
    return pa.Table.from_pylist([row], schema=schema)


def reply(*checks: dict[str, Any]) -> Completion:
    """An answer with these checks; what a check does not tell is as for a supported sentence."""
    told = [
        {"n": n, "reason": "It says so.", "verdict": "full", "correction": "", "cites": []} | check
        for n, check in enumerate(checks, 1)
    ]
    return read(json.dumps({"checks": told}), CheckedAnswer)


def parsed(table: pa.Table, completion: Completion) -> dict[str, Any]:
    rows: list[dict[str, Any]] = STEP.parse(table, STEP.prompts(table), [completion]).to_pylist()
    return rows[0]


def papers_shown(table: pa.Table, step: CheckAnswer = STEP) -> list[dict[str, Any]]:
    """Each paper with its sentences by number; a gap is a sentence too."""
    (prompt,) = step.prompts(table)
    papers: list[dict[str, Any]] = []
    for line in re.findall(r'^\{"(?!n").*$', prompt.user, re.M):
        told = json.loads(line)
        if "paper" in told:
            papers.append(told | {"sentences": {}})
        else:
            papers[-1]["sentences"] |= told
    return papers


def sentences_shown(table: pa.Table) -> list[dict[str, Any]]:
    (prompt,) = STEP.prompts(table)
    return [json.loads(line) for line in re.findall(r'^\{"n".*$', prompt.user, re.M)]


def test_sentences_may_refer_to_what_was_said_before() -> None:
    said = {
        "asked": "Did you not say otherwise?",
        "turns": [{"question": "Does it last?", "answer": "No."}],
        "papers": [],
    }
    (prompt,) = STEP.prompts(answered(conversation=said))
    (alone,) = STEP.prompts(answered())
    before, _, rest = prompt.user.partition("Question: ")
    assert 'Earlier answer: "No."' in before and f"Question: {rest}" == alone.user


def test_one_prompt_shows_all_sentences_and_the_cited_papers_alone_by_sentence() -> None:
    trial, review = papers_shown(answered())
    assert trial == {
        "paper": 1, "year": 2015, "title": "A trial", "design": "randomised trial (grade C)",
        "results": True,
        "sentences": {
            "1.1": "Forty-eight adults with plantar heel pain were randomised.",
            "1.2": "At 3 months the Foot Function Index was 29 points lower with strength training "
            "(P = 0.016).",
            "1.3": "At 12 months the groups did not differ.",
        },
    }  # fmt: skip
    assert review["paper"] == 3 and len(review["sentences"]) == 2
    assert [(each["text"], each["cites"]) for each in sentences_shown(answered())] == [
        (LEAD, "1.2"), (LATER, "1.3"), (OTHER, "3"),
    ]  # fmt: skip


def test_a_long_paper_is_shown_around_what_is_cited() -> None:
    said = sentence_row(LATER, ["e1"], places=[place_of("e1", TRIAL, LATER)])
    step = CheckAnswer(engine=STEP.engine, whole_chars=50, neighbours=1)
    (trial,) = papers_shown(answered(said), step)
    assert [*trial["sentences"]] == ["…", "1.2", "1.3"]
    (whole,) = papers_shown(answered(said | {"places": []}), step)
    assert len(whole["sentences"]) == 3, "a paper that is cited as a whole is shown as a whole"


def test_a_number_that_nothing_cited_holds_is_shown_as_such() -> None:
    wrong = LEAD.replace("29", "31")
    said = sentence_row(wrong, ["e1"], places=[place_of("e1", TRIAL, "At 3 months")])
    assert sentences_shown(answered(said))[0]["not_found"] == "31"
    other_place = sentence_row(LEAD, ["e1"], places=[place_of("e1", TRIAL, LATER)])
    assert sentences_shown(answered(other_place))[0]["not_found"] == "29, 3"
    assert "not_found" not in sentences_shown(answered())[0]


def test_what_is_supported_stays_as_it_is() -> None:
    table = answered()
    row = parsed(table, reply({}, {}, {}))
    assert row.pop("support") == {
        "sentences": 3, "kept_sentences": 3, "repaired_sentences": 0,
    }  # fmt: skip
    assert row.pop("unsupported") == []
    assert row == table.to_pylist()[0]


def test_a_sentence_is_replaced_by_its_correction_and_the_answer_is_written_anew() -> None:
    mended = "Strength training lowered the index by 29 points at 3 months."
    row = parsed(answered(), reply({"verdict": "partial", "correction": mended}, {}, {}))
    assert row["answer"] == f"{mended} [1]\n\n- {LATER} [1]\n- {OTHER} [3]"
    assert row["sentences"][0]["text"] == mended
    assert row["sentences"][0]["places"] == answered().to_pylist()[0]["sentences"][0]["places"]
    assert (row["state"], row["verdict"], row["choice"]) == ("answered", "yes", 1)
    assert row["unsupported"] == [
        {"text": LEAD, "fault": "partial", "evidence_ids": ["e1"], "reason": "It says so.",
         "repaired": mended},
    ]  # fmt: skip
    assert row["support"]["repaired_sentences"] == 1


@pytest.mark.parametrize(
    "correction",
    ["", LATER, "At 12 months the groups differed by 77 points.", "Call 0800 123 4567."],
)
def test_a_sentence_without_a_correction_that_can_stand_is_left_out(correction: str) -> None:
    """Nothing, the sentence again, a number from nowhere, a contact."""
    row = parsed(answered(), reply({}, {"verdict": "none", "correction": correction}, {}))
    assert [each["text"] for each in row["sentences"]] == [LEAD, OTHER]
    assert row["answer"] == f"{LEAD} [1]\n\n- {OTHER} [3]"
    assert [(each["fault"], each["repaired"]) for each in row["unsupported"]] == [("none", "")]
    assert row["state"] == "answered"


def test_a_correction_that_says_what_stands_already_is_left_out() -> None:
    check = {"verdict": "contradicted", "correction": LATER, "cites": ["1.3"]}
    row = parsed(answered(), reply({}, {}, check))
    assert [each["text"] for each in row["sentences"]] == [LEAD, LATER]


def test_a_correction_rests_on_the_sentences_that_it_names_as_far_as_they_exist() -> None:
    check = {"verdict": "contradicted", "correction": "No harm was seen."}
    row = parsed(answered(), reply({}, check | {"cites": ["3.2", "9.9", "1.77", "x"]}, {}))
    assert row["sentences"][1] == sentence_row(
        "No harm was seen.", ["e3"], part="evidence",
        places=[place_of("e3", REVIEW, "No harm was seen.")],
    )  # fmt: skip
    row = parsed(answered(), reply({}, check | {"cites": ["9.9"]}, {}))
    assert row["sentences"][1]["evidence_ids"] == ["e1"], "what the sentence rested on"


def test_a_sentence_stands_as_it_is_where_its_check_cites_what_states_it() -> None:
    said = sentence_row(LATER, ["e1"], places=[place_of("e1", TRIAL, "At 3 months")])
    check = {"verdict": "partial", "correction": LATER}
    again = parsed(answered(said), reply(check | {"cites": ["1.3"]}))["sentences"]
    assert [each["text"] for each in again] == [LATER]
    assert again[0]["places"] == [place_of("e1", TRIAL, LATER)]
    assert parsed(answered(said), reply(check | {"cites": []}))["sentences"] == []


def test_an_answer_that_lost_its_lead_is_no_answer() -> None:
    second = sentence_row("Its effect was small.", ["e1"])
    table = answered(*answered().to_pylist()[0]["sentences"][:1], second)
    row = parsed(table, reply({"verdict": "none", "reason": "Not tested."}, {}))
    assert row["answer"] == f"{LOST_LEAD}\n\n- Its effect was small. [1]"
    assert [each["part"] for each in row["sentences"]] == ["evidence"]
    assert (row["state"], row["verdict"], row["choice"]) == ("partly", "", NO_CHOICE)
    assert row["answer_note"] == f"{LOST_LEAD} Not tested."


def test_what_comes_nearest_is_checked_like_an_answer() -> None:
    near = [sentence_row(text, ["e1"], part="evidence") for text in (LEAD, LATER)]
    (row,) = answered(*near).to_pylist()
    table = pa.Table.from_pylist([row | {"state": "not", "verdict": ""}], answered().schema)
    told = parsed(table, reply({}, {"verdict": "none"}))
    assert told["answer"] == f"{ABSTENTION}\n\nNearest:\n- {LEAD} [1]"
    assert (told["state"], told["support"]["kept_sentences"]) == ("not", 1)


def test_with_nothing_left_but_limits_the_evidence_does_not_answer() -> None:
    limits = sentence_row("No harm was looked for.", ["e1"], part="limits")
    table = answered(*answered().to_pylist()[0]["sentences"][:1], limits)
    row = parsed(table, reply({"verdict": "none"}, {}))
    assert row["answer"] == f"{ABSTENTION}\n\nLimits: No harm was looked for. [1]"
    assert row["state"] == "not"
    row = parsed(table, reply({"verdict": "none"}, {"verdict": "none"}))
    assert (row["answer"], row["sentences"], row["state"]) == (ABSTENTION, [], "not")


def test_a_lead_that_was_turned_round_takes_the_verdict_with_it() -> None:
    check = {"verdict": "contradicted", "correction": LATER}
    row = parsed(answered(*answered().to_pylist()[0]["sentences"][:1]), reply(check))
    assert (row["state"], row["verdict"], row["choice"]) == ("answered", "", NO_CHOICE)
    assert row["answer"] == f"{LATER} [1]"


def test_it_takes_the_verdict_with_it_also_where_it_is_held_back_for_its_words() -> None:
    lead = sentence_row("Yes: 50 mg ibuprofen lowered the index by 29 points.", ["e1"])
    row = parsed(answered(lead), reply({"verdict": "contradicted", "correction": LATER}))
    assert (row["verdict"], row["choice"], row["answer"]) == ("", NO_CHOICE, f"{LATER} [1]")
    row = parsed(answered(lead), reply({}))
    assert [each["fault"] for each in row["unsupported"]] == ["name"]


def test_a_lost_answer_leaves_all_as_it_was_and_the_question_goes_on_degraded() -> None:
    table = answered()
    checked = STEP.parse(table, STEP.prompts(table), [read("no json", CheckedAnswer)])
    row = checked.to_pylist()[0]
    assert row["answer"] == "As written." and row["unsupported"] == []
    assert row["reject"]["stage"] == "check"
    assert spare(STEP, checked)[1].keys() == {0}


def test_a_missing_check_costs_its_own_sentence_alone() -> None:
    table = answered()
    short = reply({}, {"verdict": "none"})
    (prompt,) = STEP.prompts(table)
    fault = STEP.check(table, prompt, short.value)
    assert fault is not None and "3" in fault.detail
    row = parsed(table, short)
    assert [each["text"] for each in row["sentences"]] == [LEAD, OTHER]
    assert row["reject"]["reason"] == "incomplete"


@pytest.mark.parametrize("completion", [reply({}, {}), read("no json", CheckedAnswer)])
def test_a_contact_is_held_back_whatever_the_model_says(completion: Completion) -> None:
    link = sentence_row("Book at https://x.example/now.", ["e1"], part="evidence")
    finding = {"kind": "result", "evidence_id": "e1", "start": 0, "end": 9}
    table = answered(
        *answered().to_pylist()[0]["sentences"][:1],
        link,
        findings=[
            {"text": "See www.x.example", **finding},
            {"text": "48 adults", **finding},
            {"text": "49 adults", **finding},
        ],
        missing="Ask info@x.example.",
    )
    row = parsed(table, completion)
    assert [each["text"] for each in row["sentences"]] == [LEAD]
    assert [each["fault"] for each in row["unsupported"]] == ["link"]
    assert [each["text"] for each in row["findings"]] == ["48 adults"]
    assert row["missing"] == ""


@pytest.mark.parametrize(("verdict", "kept"), [("full", 1), ("partial", 0), ("", 0)])
def test_a_strange_word_stands_if_its_sentence_was_found_in_the_papers(
    verdict: str, kept: int
) -> None:
    said = "Adults with fasciopathia plantaris had a lower index at 3 months."
    check = reply({"verdict": verdict}) if verdict else read("no json", CheckedAnswer)
    row = parsed(answered(sentence_row(said, ["e1"])), check)
    assert len(row["sentences"]) == kept
    assert [each["fault"] for each in row["unsupported"]] == ["name"] * (1 - kept)


def test_rules_have_nothing_to_check() -> None:
    step, table = CheckAnswer(), answered()
    row = step.open(Place())(table).to_pylist()[0]
    assert step.off and step.prompts(table) == []
    assert {name: row[name] for name in table.column_names} == table.to_pylist()[0]
    assert row["unsupported"] == [] and row["support"]["sentences"] == 0


def test_a_question_that_was_rejected_or_cites_nothing_is_not_asked_about() -> None:
    rejected = answered().to_pylist()[0] | {"reject": {"stage": "x", "reason": "y", "detail": "z"}}
    table = pa.Table.from_pylist([rejected], schema=answered().schema)
    assert STEP.prompts(table) == []
    assert STEP.parse(table, [], []).to_pylist()[0]["reject"] == rejected["reject"]
    assert STEP.prompts(answered(sentence_row("Nobody says so.", []))) == []


def test_what_another_passage_of_a_cited_paper_says_is_said_by_the_paper() -> None:
    said = "Dexamethasone improved hearing in 53.6% of nine patients."
    row = answered(sentence_row(said, ["e1"], part="answer")).to_pylist()[0]
    texts = ("53.6% of nine patients improved in the Dex group.", "Dexamethasone (Dex) was given.")
    for one, text in zip(row["evidence"], texts, strict=False):
        one |= {"doc_id": "d", "title": "Sudden deafness", "text": text}
    assert checked(row, {})["unsupported"] == []
    row["evidence"][1]["doc_id"] = "other"
    assert [each["fault"] for each in checked(row, {})["unsupported"]] == ["name"]
