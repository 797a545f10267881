"""Benchmarks in the shapes that their authors give them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srrag.lab.measure.cases import read_gold_answers, read_ids
from srrag.retrieve.questions import question_table

CHOICE = {"question": "Q?", "options": {"A": "rest", "B": "load"}, "answer": "B"}
PROMPT = {"id": "e", "intervention": "I", "comparator": "C", "outcome": "O"}


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def whole(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_mirage_has_subsets(tmp_path: Path) -> None:
    path = whole(tmp_path / "benchmark.json", {"medqa": {"1": CHOICE}, "mmlu": {"1": CHOICE}})
    rows = list(read_gold_answers(path))
    assert [row["query_id"] for row in rows] == ["medqa:1", "mmlu:1"]
    assert (rows[0]["options"], rows[0]["gold_option"]) == (["rest", "load"], "load")
    assert rows[0]["strata"] == {"subset": "medqa"}
    assert [row["query_id"] for row in read_gold_answers(path, "mmlu")] == ["mmlu:1"]
    with pytest.raises(ValueError, match=r"bench\.subset=x: .* has medqa, mmlu"):
        list(read_gold_answers(path, "x"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": "C"}, "answer 'C' is not one of"), ({"answer": None}, "answer 'None' is not"),
        ({"options": ["rest"]}, "no question with"), ({"options": None}, "no question with"),
        ({"options": {"A": "load"}, "answer": "A"}, "answer 'A' is not one of the labels"),
        ({"question": " "}, "the question has no text"),
    ],
)  # fmt: skip
def test_a_bad_question_of_mirage_is_named(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = whole(tmp_path / "b.json", {"medqa": {"1": CHOICE, "2": {**CHOICE, **change}}})
    with pytest.raises(ValueError, match=rf"b\.json: medqa, question '2': .*{message}"):
        list(read_gold_answers(path))


def test_a_bad_question_costs_itself_alone(tmp_path: Path) -> None:
    bad = {**CHOICE, "answer": "C"}
    path = whole(tmp_path / "b.json", {"medqa": {"1": CHOICE, "2": bad}, "mmlu": {"1": CHOICE}})
    faulty: list[str] = []
    rows = list(read_gold_answers(path, faulty=faulty))
    assert [row["query_id"] for row in rows] == ["medqa:1", "mmlu:1"]
    assert len(faulty) == 1 and "medqa, question '2': answer 'C'" in faulty[0]


def test_equal_options_are_allowed_and_the_label_says_which_is_right(tmp_path: Path) -> None:
    twice = {**CHOICE, "options": {"A": "load", "B": "load", "C": "rest"}, "answer": "C"}
    (row,) = read_gold_answers(whole(tmp_path / "b.json", {"medqa": {"1": twice}}))
    assert (row["options"], row["gold_option"]) == (["load", "load", "rest"], "rest")


def test_multiple_choice_in_lines_is_told_from_other_lines(tmp_path: Path) -> None:
    one = {"id": "a", "set": "medqa", **CHOICE}
    other = {"realidx": 7, **CHOICE, "answer": "load", "answer_idx": "B"}
    folder = tmp_path / "mcq"
    folder.mkdir()
    lines(folder / "x.jsonl", one)
    lines(folder / "mmlu.jsonl", other, {"realidx": 8})
    faulty: list[str] = []
    rows = list(read_gold_answers(folder, faulty=faulty))
    assert [row["query_id"] for row in rows] == ["mmlu:7", "medqa:a"]
    assert {row["gold_option"] for row in rows} == {"load"}
    assert len(faulty) == 1 and "mmlu.jsonl:2: no question with options" in faulty[0]
    assert [row["query_id"] for row in read_gold_answers(folder, "medqa")] == ["medqa:a"]
    with pytest.raises(ValueError, match=r"bench\.subset=x: .* has mmlu, medqa"):
        list(read_gold_answers(folder, "x"))


def test_all_real_sets_are_read(shared_data: Path) -> None:
    """Equal options, questions above 4,000 characters and two to ten options among them."""
    faulty: list[str] = []
    rows = list(read_gold_answers(shared_data / "mcq", faulty=faulty))
    assert (len(rows), faulty) == (5066, [])
    assert sum(len({*row["options"]}) < len(row["options"]) for row in rows) >= 8
    assert question_table(rows)["reject"].null_count == len(rows)


def test_ids_of_a_part(tmp_path: Path) -> None:
    lines(tmp_path / "r.jsonl", {"id": 1, "set": "medqa"}, {"query_id": "b"})
    assert read_ids(tmp_path) == read_ids(tmp_path / "r.jsonl") == {"medqa:1", "b"}
    with pytest.raises(ValueError, match=r"r\.jsonl:1: there is no id"):
        read_ids(lines(tmp_path / "r.jsonl", {"text": "x"}))


def test_pubmedqa_as_its_authors_give_it(tmp_path: Path) -> None:
    row = {"QUESTION": "Q?", "LONG_ANSWER": "L", "final_decision": "maybe"}
    path = whole(tmp_path / "ori_pqal.json", {"123": row})
    (found,) = read_gold_answers(path)
    assert (found["query_id"], found["text"], found["ideal_answer"]) == ("123", "Q?", "L")
    assert found["gold_option"] == "maybe"
    whole(path, {"123": row, "4": {"QUESTION": "Q?"}})
    with pytest.raises(ValueError, match=r"ori_pqal\.json: PMID 4: no question with a decision"):
        list(read_gold_answers(path))
    whole(path, {"123": {**row, "final_decision": "perhaps"}})
    with pytest.raises(ValueError, match=r"PMID 123: not gold .*'perhaps'"):
        list(read_gold_answers(path))


def test_kqa_as_its_authors_give_it(tmp_path: Path) -> None:
    row = {"Question": "Q?", "Free_form_answer": "A", "Must_have": ["m"], "Nice_to_have": ["n"]}
    (found,) = read_gold_answers(lines(tmp_path / "k.jsonl", row))
    assert (found["text"], found["ideal_answer"]) == ("Q?", "A")
    assert [(n["text"], n["importance"]) for n in found["nuggets"]] == [
        ("m", "vital"),
        ("n", "okay"),
    ]


def test_answers_beside_queries_have_their_texts(tmp_path: Path) -> None:
    lines(tmp_path / "queries.jsonl", {"_id": "a", "text": "Q?"}, {"_id": "b", "text": "R?"})
    lines(tmp_path / "answers.jsonl", {"id": "b", "ideal_answer": ["I"], "type": "summary"})
    (found,) = read_gold_answers(tmp_path)
    assert (found["query_id"], found["text"], found["ideal_answer"]) == ("b", "R?", "I")
    assert found["strata"] == {"type": "summary"}
    lines(tmp_path / "answers.jsonl", {"id": "z", "ideal_answer": ["I"]})
    with pytest.raises(ValueError, match=r"answers\.jsonl:1: 'z' is not in queries\.jsonl"):
        list(read_gold_answers(tmp_path))


def test_labelled_prompts_of_evidence_inference_are_questions(tmp_path: Path) -> None:
    lines(tmp_path / "articles.jsonl", {})
    label = "significantly decreased"
    lines(tmp_path / "prompts.jsonl", {**PROMPT, "label": None}, {**PROMPT, "label": label})
    (found,) = read_gold_answers(tmp_path)
    assert found["text"] == "What is the effect of I, compared with C, on O?"
    assert (len(found["options"]), found["gold_option"]) == (3, label)
    lines(tmp_path / "prompts.jsonl", {"id": "e"})
    with pytest.raises(ValueError, match=r"prompts\.jsonl:1: not a prompt"):
        list(read_gold_answers(tmp_path))


def test_a_folder_with_one_file_is_that_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds neither"):
        list(read_gold_answers(tmp_path))
    lines(tmp_path / "questions.jsonl", {"id": "a", "question": "Q?"})
    assert [row["query_id"] for row in read_gold_answers(tmp_path)] == ["a"]
    with pytest.raises(ValueError, match=r"bench\.subset=x: .* has no subsets"):
        list(read_gold_answers(tmp_path, "x"))


@pytest.mark.parametrize("content", [{}, [], {"a": 1}, {"a": {"b": {}}}])
def test_another_json_file_is_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises(ValueError, match=r"x\.json: neither MIRAGE"):
        list(read_gold_answers(whole(tmp_path / "x.json", content)))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"a\.jsonl: not UTF-8"):
        list(read_gold_answers(tmp_path / "a.jsonl"))


def test_the_real_sets(shared_data: Path) -> None:
    counts = {"kqa": 132, "pubmedqa": 699, "bioasq": 1599, "rehab": 379, "evidence_inference": 864}
    for name, count in counts.items():
        rows = list(read_gold_answers(shared_data / name))
        assert len(rows) == count
        assert all(row["text"] for row in rows)
