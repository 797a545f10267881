from __future__ import annotations

import time

import pytest

from srrag.reading.concepts import MAX_WORDS, concept_name, concept_spans

LONG = " ".join(["word"] * (MAX_WORDS + 1))


@pytest.mark.parametrize(
    ("kind", "text", "names"),
    [
        ("Population", "856 patients with arthritis seen at our institution",
         ["patients with arthritis"]),
        ("Population", "sixty-seven individuals with psychosis", ["individuals with psychosis"]),
        ("Population", "children who have spina bifida", ["children who have spina bifida"]),
        ("Population", "patients", []),
        ("Intervention", "3) a bone loading exercise program", ["bone loading exercise program"]),
        ("Intervention", "intervention group: aerobic training", ["aerobic training"]),
        ("Intervention", "6-minute walk test", ["6-minute walk test"]),
        ("Intervention", "colonoscopy (ctc)", ["colonoscopy (ctc)"]),
        ("Intervention", "fibroblast growth factor receptor (fgfr) 1",
         ["fibroblast growth factor receptor (fgfr) 1"]),
        ("Intervention", "training (40 min", ["training"]),
        ("Intervention", "pharmacological", []),
        ("Intervention", "abstract", []),
        ("Condition", "(n = 1023)", []),
        ("Arm", "resistance (n = 18) exercise", ["resistance exercise"]),
        ("Outcome", "pain, physical functioning and global perceived effect",
         ["pain", "physical functioning", "global perceived effect"]),
        ("Outcome", "physical and mental health", ["physical and mental health"]),
        ("Outcome", "mobility of knee and hip", ["mobility of knee and hip"]),
        ("Outcome", "balance scale (bbs, 0-56), barthel index (bi)",
         ["balance scale (bbs, 0-56)", "barthel index (bi)"]),
        ("Outcome", "weight loss improved endothelial function", ["weight loss"]),
        ("Outcome", "risk of falling at six months post-randomisation", ["risk of falling"]),
        ("Outcome", "primary outcome measures", []),
        ("Outcome", LONG, []),
        ("Timepoint", "over 12 weeks", ["12 weeks"]),
        ("Recommendation", "should be offered to 30 adults, 3 times", ["should be offered to 30 "
         "adults, 3 times"]),
    ],
)  # fmt: skip
def test_a_mention_names_its_concepts(kind: str, text: str, names: list[str]) -> None:
    found = concept_spans(text, kind, 0, len(text))
    assert [concept_name(text[a:b]) for a, b in found] == names


def test_an_age_is_no_point_in_time() -> None:
    text = "adults of a mean age of 79.2 years were seen at 12 weeks"
    for words, found in (("79.2 years", 0), ("12 weeks", 1)):
        start = text.index(words)
        assert len(concept_spans(text, "Timepoint", start, start + len(words))) == found


@pytest.mark.parametrize("text", ["1 " * 500, "a, " * 300, "(" * 900, "one " * 300, " and " * 200])
def test_no_text_takes_long(text: str) -> None:
    started = time.thread_time()
    concept_spans(text, "Population", 0, len(text))
    concept_spans(text, "Outcome", 0, len(text))
    assert time.thread_time() - started < 60, "a search that goes back and forth takes hours"
