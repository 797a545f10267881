from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.lab.measure.cases import make_cases, read_answers, read_gold_answers
from srrag.lab.measure.references import resource_path
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
