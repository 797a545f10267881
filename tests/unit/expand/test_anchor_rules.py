"""Anchors by rules; each case is a cue."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from srrag.expand.picot_anchors import MAX_ANCHORS, MAX_CHARS, rule_anchors

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
        started = time.process_time()
        rule_anchors([text])
        return time.process_time() - started

    for piece in ("does ", "a b ", "1.", "in 6 weeks ", " "):
        seconds(piece * 100)
        assert seconds(piece * (16000 // len(piece))) < 20 * seconds(piece * 1000) + 0.5
