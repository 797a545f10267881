"""The sample corpus is complete and consistent: the rules that srrag/sample/README.md promises."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[3] / "srrag" / "sample"
GRADES = "ABCDE"
# SR-RAG, Table S4: two guideline sets and 21 sub-conditions.
CONDITIONS = frozenset(
    ("GL-GEN", "GL-SP", "ACL", "AT", "BSI", "FS", "GPA", "GTPS", "HSI", "IS", "LAS", "LBP")
    + ("ITBS", "LET", "MACL", "MTSS", "NAHJP", "NP", "PHP", "PFP", "PT", "RCRSP", "FTASD")
)
REQUIRED = {"id", "condition", "year", "illustrative"}
ALLOWED = REQUIRED | {"grade", "publication_type"}
QUESTION_KEYS = {
    "query_id", "text", "condition", "task_kind", "answerable", "gold", "nuggets", "picot",
    "exact_answer", "certainty",
}  # fmt: skip


class Sample(NamedTuple):
    """One document: its file, its parsed front matter and the Markdown below it."""

    path: Path
    front: dict[str, Any]
    body: str


def read_sample(path: Path) -> Sample:
    opening, front, body = path.read_text(encoding="utf-8").split("---\n", 2)
    assert opening == "", f"{path}: does not begin with front matter"
    return Sample(path, yaml.safe_load(front), body)


SAMPLES = [read_sample(path) for path in sorted((ROOT / "documents").glob("*/*.md"))]
BODIES = {sample.front["id"]: sample.body for sample in SAMPLES}
QUESTIONS: list[dict[str, Any]] = [
    json.loads(line) for line in (ROOT / "questions.jsonl").read_text("utf-8").splitlines()
]
ANSWERABLE = [question for question in QUESTIONS if question["answerable"]]
EXPECTED: dict[str, str] = json.loads((ROOT / "expected_grades.json").read_text("utf-8"))
GRADE_OF = {s.front["id"]: s.front.get("grade") or EXPECTED[s.front["id"]] for s in SAMPLES}


def test_there_are_enough_documents_of_every_kind() -> None:
    assert len(SAMPLES) >= 48
    assert len({sample.front["condition"] for sample in SAMPLES}) >= 9
    grades = Counter(GRADE_OF.values())
    assert set(grades) == set(GRADES)
    assert min(grades.values()) >= 8


def test_every_condition_has_a_guideline_a_review_and_a_trial() -> None:
    held = {(s.front["condition"], GRADE_OF[s.front["id"]]) for s in SAMPLES}
    conditions = {condition for condition, _ in held}
    assert {(condition, grade) for condition in conditions for grade in "ABC"} <= held


def test_front_matter_is_complete_and_names_a_condition_of_table_s4() -> None:
    for path, front, _ in SAMPLES:
        assert set(front) >= REQUIRED and set(front) <= ALLOWED, path
        assert front["illustrative"] is True, path
        assert front["condition"] in CONDITIONS and path.parent.name == front["condition"], path
        assert front["id"] == f"{front['condition'].lower()}-{path.stem}", path
        assert isinstance(front["year"], int) and 2000 <= front["year"] <= 2025, path
        assert front.get("grade", "A") in GRADES, path


def test_ids_are_unique_and_no_two_documents_are_alike() -> None:
    assert len(BODIES) == len(SAMPLES)
    assert len({" ".join(body.split()).lower() for body in BODIES.values()}) == len(SAMPLES)
    titles = {body.strip().split("\n")[0] for body in BODIES.values()}
    assert len(titles) == len(SAMPLES)


def test_hardly_a_sentence_is_used_in_two_documents() -> None:
    seen: Counter[str] = Counter()
    for body in BODIES.values():
        seen.update({part for part in re.split(r"(?<=\.)\s+", body) if len(part.split()) >= 8})
    repeated = [sentence for sentence, count in seen.items() if count > 1]
    assert repeated == []


def test_each_document_is_a_short_text_with_headings_that_says_what_it_is() -> None:
    for path, _, body in SAMPLES:
        assert 150 <= len(body.split()) <= 450, path
        assert (
            body.strip().startswith("# ") and len(re.findall(r"^## ", body, re.MULTILINE)) >= 2
        ), path
        assert "illustrative text" in body.lower(), path
        assert body.isascii(), path


def test_the_side_file_names_exactly_the_documents_without_a_grade() -> None:
    assert set(EXPECTED) == {s.front["id"] for s in SAMPLES if "grade" not in s.front}
    assert set(EXPECTED.values()) == set(GRADES)
    untyped = {s.front["id"] for s in SAMPLES if "publication_type" not in s.front}
    assert untyped < set(EXPECTED)


def test_questions_have_unique_ids_and_complete_fields() -> None:
    assert len({question["query_id"] for question in QUESTIONS}) == len(QUESTIONS)
    assert len({question["text"] for question in QUESTIONS}) == len(QUESTIONS)
    for question in QUESTIONS:
        where = question["query_id"]
        assert set(question) == QUESTION_KEYS, where
        assert question["condition"] in CONDITIONS, where
        assert question["task_kind"] == "clinical", where
        assert question["certainty"] in {"sufficient", "uncertain"}, where
        assert question["text"].endswith("?") and question["exact_answer"].endswith("."), where
        assert list(question["picot"]) == list("PICOT"), where
        assert all(v is None or (isinstance(v, str) and v) for v in question["picot"].values())


def test_every_question_has_a_vital_nugget() -> None:
    for question in QUESTIONS:
        nuggets = question["nuggets"]
        assert all(nugget["text"].strip() for nugget in nuggets), question["query_id"]
        assert {nugget["importance"] for nugget in nuggets} <= {"vital", "okay"}
        assert "vital" in {nugget["importance"] for nugget in nuggets}, question["query_id"]


def test_answerable_questions_have_decisive_gold_and_the_others_none() -> None:
    assert len(ANSWERABLE) >= 48
    assert len(QUESTIONS) - len(ANSWERABLE) >= 4
    for question in QUESTIONS:
        grades = {gold["relevance"] for gold in question["gold"]}
        assert grades <= {1, 2}, question["query_id"]
        assert (2 in grades) == question["answerable"], question["query_id"]
        assert bool(grades) == question["answerable"], question["query_id"]


def test_gold_quotes_are_verbatim_within_one_paragraph() -> None:
    for question in QUESTIONS:
        for gold in question["gold"]:
            assert gold["doc"] in BODIES, f"{question['query_id']}: {gold['doc']}"
            paragraphs = BODIES[gold["doc"]].split("\n\n")
            found = sum(paragraph.count(gold["quote"]) for paragraph in paragraphs)
            assert found == 1, f"{question['query_id']}: {gold['quote']!r} found {found} times"


def test_many_questions_have_gold_of_several_grades() -> None:
    several = [q for q in ANSWERABLE if len({GRADE_OF[gold["doc"]] for gold in q["gold"]}) > 1]
    assert len(several) >= 20


def test_every_document_is_gold_for_some_question() -> None:
    assert {gold["doc"] for question in QUESTIONS for gold in question["gold"]} == set(BODIES)


def test_the_readme_counts_what_is_there() -> None:
    rows = re.findall(
        r"^\| ([A-Z-]+) \|" + r" (\d+) \|" * 6 + r"$",
        (ROOT / "README.md").read_text(),
        re.MULTILINE,
    )
    counted = Counter((s.front["condition"], GRADE_OF[s.front["id"]]) for s in SAMPLES)
    conditions = sorted({sample.front["condition"] for sample in SAMPLES})
    expected = []
    for condition in conditions:
        counts = [counted[condition, grade] for grade in GRADES]
        expected.append((condition, *map(str, [*counts, sum(counts)])))
    assert sorted(rows) == expected
