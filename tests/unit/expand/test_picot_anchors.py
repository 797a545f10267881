from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.engine.base import Call
from srrag.expand.picot_anchors import (
    MAX_ANCHORS,
    MAX_CHARS,
    PARTS,
    FindAnchors,
    QuestionParts,
    locate,
    rule_anchors,
)
from srrag.llm.read_answer import read
from tests.timing import cpu_seconds
from tests.unit.expand.asking import (
    HOSTILE,
    baseline_faults,
    by_rules,
    questions,
    scripted,
    with_reject,
)

QUESTION = "In adults with  heel pain, do night splints reduce pain?"


def answer(**anchors: list[str]) -> str:
    given = zip(PARTS, "PICOT", strict=True)
    return json.dumps({name: anchors.get(part, []) for name, part in given})


def test_parts_may_be_missing_but_not_unsaid() -> None:
    said = answer(I=["night splints"])
    assert read(said, QuestionParts).value.treatment == ["night splints"]
    assert read('{"people": []}', QuestionParts).fault is not None


def test_only_the_question_changes_the_prompt() -> None:
    one, other = FindAnchors().prompts(questions(QUESTION, "Why?"))
    assert one.system == other.system
    assert one.user == f"<question>\n{QUESTION}\n</question>"
    assert "Why?" in other.user


@pytest.mark.parametrize(
    ("anchor", "question", "found"),
    [
        ("ADULTS with heel pain", QUESTION, "adults with  heel pain"),
        ("splint", QUESTION, None),
        ("5 weeks", "After 1.5 weeks?", None),
        ("1", "After 1,000 steps?", None),
        ("pain.", "Is it pain.", "pain."),
        ("足底疼痛", "训练能减轻足底疼痛吗", "足底疼痛"),
        ("‹b> (x", "What does <b> (x mean?", "<b> (x"),
        (" \t", QUESTION, None),
    ],
)
def test_an_anchor_is_found_as_the_question_spells_it(
    anchor: str, question: str, found: str | None
) -> None:
    assert locate(anchor, question) == found


def test_invented_anchors_are_dropped(tmp_path: Path) -> None:
    made = answer(P=["Adults with heel pain", "women"], C=["placebo"])
    (row,), usage = scripted(FindAnchors(), questions(QUESTION), tmp_path, lambda call: made)
    assert row["anchors"] == {"P": ["adults with  heel pain"], "I": [], "C": [], "O": [], "T": []}
    assert row["reject"] is None
    assert (usage.calls, usage.faults) == (1, {})


def test_a_fault_rejects_its_row_alone(tmp_path: Path) -> None:
    def script(call: Call) -> str:
        return "I cannot help." if "Why" in call.prompt.user else answer(O=["pain"])

    good, bad = scripted(FindAnchors(), questions(QUESTION, "Why so?"), tmp_path, script)[0]
    assert good["reject"] is None
    assert (bad["reject"]["stage"], bad["reject"]["reason"]) == ("anchors", "refusal")
    assert bad["anchors"] == {part: [] for part in "PICOT"}


def test_what_was_rejected_before_is_not_asked_and_stays_so() -> None:
    table = with_reject(questions(QUESTION))
    assert FindAnchors().prompts(table) == []
    (row,) = by_rules(FindAnchors(), table)
    assert row["reject"]["stage"] == "before"


@pytest.mark.parametrize(
    ("text", "anchors"),
    [
        (
            "Does aspirin 100 mg compared with placebo reduce stroke in patients with atrial "
            "fibrillation after 2 years?",
            {
                "P": ["patients with atrial fibrillation"], "I": ["aspirin 100 mg"],
                "C": ["placebo"], "O": ["stroke"], "T": ["2 years"],
            },
        ),
        (
            "What is the effect of taping on pain in runners?",
            {"P": ["runners"], "I": ["taping"], "O": ["pain"]},
        ),
        ("Should adults with neck pain do strengthening?", {
            "P": ["adults with neck pain"], "I": ["strengthening"],
        }),
        ("Are night splints useful for plantar heel pain?", {
            "P": ["plantar heel pain"], "I": ["night splints"],
        }),
        (
            "Artemether-lumefantrine versus dihydroartemisinin-piperaquine for uncomplicated "
            "falciparum malaria",
            {
                "P": ["uncomplicated falciparum malaria"], "I": ["Artemether-lumefantrine"],
                "C": ["dihydroartemisinin-piperaquine"],
            },
        ),
        (
            "Is artemether-lumefantrine better than dihydroartemisinin-piperaquine for "
            "uncomplicated falciparum malaria?",
            {
                "P": ["uncomplicated falciparum malaria"], "I": ["artemether-lumefantrine"],
                "C": ["dihydroartemisinin-piperaquine"],
            },
        ),
        ("metformin versus glibenclamide for HbA1c in type 2 diabetes", {
            "P": ["HbA1c", "type 2 diabetes"], "I": ["metformin"], "C": ["glibenclamide"],
        }),
        ("aspirin vs clopidogrel in stroke prevention", {
            "P": ["stroke prevention"], "I": ["aspirin"], "C": ["clopidogrel"],
        }),
        ("In adults with scoliosis, surgery for pain compared with bracing", {
            "P": ["adults with scoliosis", "pain"], "I": ["surgery"], "C": ["bracing"],
        }),
        ("Aspirin, compared with placebo, reduces stroke", {
            "I": ["Aspirin"], "C": ["placebo"], "O": ["stroke"],
        }),
        ("Is aspirin vs. clopidogrel safer?", {"I": ["aspirin"], "C": ["clopidogrel"]}),
        ("Aspirin cheaper and safer than clopidogrel?", {
            "I": ["Aspirin"], "C": ["clopidogrel"],
        }),
        ("Iron reduces fatigue compared with placebo", {"C": ["placebo"], "O": ["fatigue"]}),
        ("Why?", {}),
    ],
)  # fmt: skip
def test_rules_read_the_parts_of_a_question(text: str, anchors: dict[str, list[str]]) -> None:
    (row,) = by_rules(FindAnchors(), questions(text))
    assert row["anchors"] == {part: anchors.get(part, []) for part in "PICOT"}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_rules_survive_any_question(text: str) -> None:
    table = questions(text)
    (row,) = by_rules(FindAnchors(), table)
    assert row["reject"] is None
    assert all(anchor in text for anchors in row["anchors"].values() for anchor in anchors)
    assert baseline_faults(FindAnchors(), table) == []


PIECES = (
    "does is exercise in adults with pain than reduce 1.5 1,200 weeks months patients for after "
    "sham effect of on , ? . ; < > </question> ( and PRP é 疼痛"
)
WORDS = st.sampled_from(PIECES.split())


@settings(deadline=None, max_examples=60)
@given(st.lists(WORDS | st.text(max_size=6), min_size=1, max_size=30).map(" ".join))
def test_rules_never_invent(text: str) -> None:
    table = questions(f"{text} x")
    (row,) = by_rules(FindAnchors(), table)
    asked = table["text"][0].as_py()
    assert all(anchor in asked for anchors in row["anchors"].values() for anchor in anchors)
    assert baseline_faults(FindAnchors(), table) == []


SAMPLE = Path(__file__).parents[3] / "srrag" / "sample" / "questions.jsonl"
FUNCTION_WORDS = frozenset(
    ["a", "an", "the", "of", "in", "on", "at", "to", "for", "by", "with", "and", "or", "as"]
)


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower())) - FUNCTION_WORDS


@pytest.mark.parametrize(
    ("question", "part", "found"),
    [
        ("Is a brace better than tape?", "C", ["tape"]),
        ("Should rest be chosen instead of taping?", "C", ["taping"]),
        ("Does rest, as opposed to running, heal?", "C", ["running"]),
        ("Do insoles lower the risk of fracture?", "O", ["risk of fracture"]),
        ("Does iron by vein raise haemoglobin?", "O", ["haemoglobin"]),
        ("What is the impact of sleep on recovery after surgery?", "O", ["recovery"]),
        ("Is there pain on extension?", "O", []),
        ("Does ice help in injury treated by steroid injection?", "I", ["ice"]),
        ("When is there relief after steroid injection?", "I", ["steroid injection"]),
        ("Pain in women versus men", "I", []),
        ("In women versus men, is tape safer?", "I", ["tape"]),
        ("Should runners rest?", "P", ["runners rest"]),
        ("Does taping work among dancers and among gymnasts?", "P", ["dancers", "gymnasts"]),
        ("Is tape or tape useful, and is Tape safe?", "I", ["tape or tape", "Tape"]),
        ("Is pain lower at 6 weeks or after two years?", "T", ["6 weeks", "two years"]),
        ("Does rest, not the cast, of the leg, help?", "I", ["rest"]),
    ],
)
def test_cues(question: str, part: str, found: list[str]) -> None:
    (anchors,) = rule_anchors([question])
    assert anchors[part] == found


def test_each_question_has_its_own() -> None:
    texts = ["Does tape help?", "", "Is rest good in runners?"]
    assert rule_anchors(texts) == [rule_anchors([text])[0] for text in texts]
    assert rule_anchors([]) == []


def test_bounds_hold() -> None:
    many = "; ".join(f"does tape{chr(97 + n)} help" for n in range(9))
    (anchors,) = rule_anchors([f"{many}; is {'x' * 300} safe; is {'a b ' * 12} safe?"])
    assert len(anchors["I"]) == MAX_ANCHORS
    assert all(len(each) <= MAX_CHARS for each in anchors["I"])


def test_words_of_the_parts_in_the_sample() -> None:
    """Against the PICOT fields, as far as the question holds their words."""
    rows = [json.loads(line) for line in SAMPLE.read_text("utf-8").splitlines()]
    found = rule_anchors([row["text"] for row in rows])
    for part, precision, recall in (("P", 0.7, 0.7), ("I", 0.7, 0.65), ("C", 0.9, 0.3)):
        right = given = gold = 0
        for row, anchors in zip(rows, found, strict=True):
            wanted = words(row["picot"][part] or "") & words(row["text"])
            got = words(" ".join(anchors[part]))
            right, given, gold = right + len(wanted & got), given + len(got), gold + len(wanted)
        assert right / given >= precision, part
        assert right / gold >= recall, part


def test_time_grows_with_length() -> None:
    def seconds(text: str) -> float:
        return cpu_seconds(lambda: rule_anchors([text]), runs=1)

    for piece in ("does ", "a b ", "1.", "in 6 weeks ", " "):
        seconds(piece * 100)
        long, short = piece * (16000 // len(piece)), piece * 1000
        assert any(seconds(long) < 20 * seconds(short) + 0.5 for _ in range(3))
