from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.lab.measure.cases import make_cases, read_answers, read_gold_answers, read_ids
from srrag.lab.measure.references import resource_path
from srrag.retrieve.questions import question_table
from tests.judged import answers


def gold(tmp_path: Path, *rows: Any) -> list[dict[str, Any]]:
    path = tmp_path / "gold.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(read_gold_answers(path))


def test_gold_in_the_shapes_that_benchmarks_have(tmp_path: Path) -> None:
    ours, kqa, bioasq, pubmedqa = gold(
        tmp_path,
        {"query_id": "a", "text": "Q", "exact_answer": "E", "picot": {"P": "adults", "C": None}},
        {
            "id": "b",
            "question": "Q",
            "answer": "A",
            "nuggets": [{"text": "n", "importance": "okay"}],
        },
        {"id": 3, "ideal_answer": ["one", "two"], "exact_answer": [["x"]], "yesno": "no"},
        {"_id": "d", "long_answer": "L", "decision": "maybe", "nuggets": ["n"]},
    )
    assert (ours["ideal_answer"], ours["picot"]["P"], ours["picot"]["C"]) == ("E", "adults", "")
    assert (kqa["ideal_answer"], kqa["nuggets"]) == ("A", [{"text": "n", "importance": "okay"}])
    assert (bioasq["query_id"], bioasq["ideal_answer"]) == ("3", "one")
    assert (bioasq["options"], bioasq["gold_option"]) == (["yes", "no"], "no")
    assert (pubmedqa["gold_option"], pubmedqa["nuggets"][0]["importance"]) == ("maybe", "vital")


def test_what_gold_says_twice_counts_once(tmp_path: Path) -> None:
    okay = [{"text": text, "importance": "okay"} for text in "nm"]
    said = {"id": "a", "answer": "It helps. No harm. It helps.", "nuggets": [*okay, "n"]}
    (row,) = gold(tmp_path, said)
    assert row["ideal_answer"] == "It helps. No harm."
    assert [(n["text"], n["importance"]) for n in row["nuggets"]] == [("n", "vital"), ("m", "okay")]


@pytest.mark.parametrize(
    "row",
    [
        [], {"text": "no id"}, {"id": "a", "nuggets": [{"text": "n", "importance": "high"}]},
        {"id": "a", "nuggets": [{"text": " "}]}, {"id": "a", "options": ["x"], "gold_option": "y"},
        {"id": "a", "nuggets": [3]}, {"id": "a", "nuggets": {"text": "n"}},
        {"id": "a", "nuggets": [{}]}, {"id": "a", "options": "x", "gold_option": "x"},
        {"id": True}, {"id": "a", "decision": "perhaps"}, {"id": "a", "picot": ["P"]},
        {"query_id": "a", "answer": "A", "sentences": [], "state": "answered", "evidence": []},
    ],
)  # fmt: skip
def test_a_bad_line_is_named(tmp_path: Path, row: Any) -> None:
    with pytest.raises(ValueError, match=r"gold\.jsonl:2: not gold") as told:
        gold(tmp_path, {"id": "first"}, row)
    assert not re.search(r"'(int|str|list|dict)' object|attribute", str(told.value))


def test_an_id_may_stand_once(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"gold\.jsonl:2: id 'a' was first seen in .*gold\.jsonl:1"
    ):
        gold(tmp_path, {"id": "a"}, {"id": "a"})


def test_the_packaged_questions_are_gold() -> None:
    rows = list(read_gold_answers(resource_path("pkg://srrag/sample/questions.jsonl")))
    assert len(rows) > 50
    assert all(row["nuggets"] and row["ideal_answer"] for row in rows)


def test_the_real_gold_is_read(shared_data: Path) -> None:
    for name in ("kqa/questions.jsonl", "bioasq/answers.jsonl", "pubmedqa/answers.jsonl"):
        rows = list(read_gold_answers(shared_data / name))
        assert sum(bool(row["ideal_answer"]) for row in rows) > 0.9 * len(rows)


def test_every_question_of_the_gold_is_a_case(tmp_path: Path) -> None:
    rows = gold(tmp_path, *({"id": name, "answer": "A"} for name in "abcdef"), {"id": "g"})
    said = {"text": "s", "evidence_ids": []}
    found = make_cases(
        rows,
        answers(
            {"query_id": "a", "sentences": [said]},
            {"query_id": "b", "state": "not"},
            {"query_id": "c", "answer": " "},
            {"query_id": "d", "reject": {"stage": "answer", "reason": "timeout", "detail": ""}},
            {"query_id": "e", "state": "partly", "sentences": [said]},
            {"query_id": "z"},
        ),
    )
    cases = found.table.to_pylist()
    assert [case["missing"] for case in cases] == [
        "", "", "empty", "failed: timeout", "", "not answered", "not answered",
    ]  # fmt: skip
    assert [case["abstained"] for case in cases] == [False, True, *[False] * 5]
    assert dict(found.missing) == {"empty": 1, "failed: timeout": 1, "not answered": 2}
    assert (found.without_gold, found.strangers) == (1, 1)
    assert cases[0]["text"] == "asked"


def test_a_choice_counts_where_the_system_makes_one(tmp_path: Path) -> None:
    rows = gold(tmp_path, {"id": "a", "yesno": "no"}, {"id": "b", "yesno": "no"})
    table = answers({"query_id": "a"})
    (unsaid, _) = make_cases(rows, table).table.to_pylist()
    assert (unsaid["chooses"], unsaid["choice"]) == (False, -1)
    chose = table.append_column("choice", pa.array([1], pa.int32()))
    said, absent = make_cases(rows, chose).table.to_pylist()
    assert (said["chooses"], said["choice"]) == (True, 1)
    assert (absent["chooses"], absent["choice"], absent["missing"]) == (False, -1, "not answered")


def test_answers_to_other_questions_are_refused(tmp_path: Path) -> None:
    rows = gold(tmp_path, {"id": "a"})
    with pytest.raises(ValueError, match="none of 1 is to one of the gold's 1"):
        make_cases(rows, answers({"query_id": "b"}))
    with pytest.raises(ValueError, match="two to question 'a'"):
        make_cases(rows, answers({"query_id": "a"}, {"query_id": "a"}))


def test_a_file_that_holds_no_answers_is_named(tmp_path: Path) -> None:
    path = tmp_path / "answers.parquet"
    pq.write_table(answers({"query_id": "a"}), path)
    assert read_answers(path).num_rows == 1
    pq.write_table(answers({"query_id": "a"}).drop_columns(["sentences"]), path)
    with pytest.raises(ValueError, match=r"answers\.parquet: column 'sentences' is missing"):
        read_answers(path)
    path.write_text("no parquet")
    with pytest.raises(ValueError, match=r"answers\.parquet: not a Parquet file"):
        read_answers(path)


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
