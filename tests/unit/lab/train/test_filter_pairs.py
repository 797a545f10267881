from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srrag.lab.train.filter.pairs import check_both_classes, folds, held_out, read_judged
from tests.unit.lab.train.filter_toys import judged_rows, write_rows

ROW = {"query_id": "1", "query": "Is it?", "passage": "It is.", "label": 1}


def test_reads_labels_of_both_kinds(tmp_path: Path) -> None:
    rows = [ROW, {**ROW, "passage": "No idea.", "label": "No"}]
    rows += [{**ROW, "query": "is  IT?", "passage": "Third.", "label": "yes"}]
    pairs = read_judged(write_rows(tmp_path / "p.jsonl", rows))
    assert pairs.labels.tolist() == [1, 0, 1]
    assert pairs.groups.tolist() == [0, 0, 0], "questions of the same words are one"


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"label": float("nan")}, ":2: column 'label' is nan"),
        ({"label": 2}, ":2: column 'label' is 2"),
        ({"label": None}, ":2: column 'label' is None"),
        ({"label": [1]}, ":2: column 'label'"),
        ({"label": "maybe"}, "one of 0, 1, Yes, No"),
        ({"passage": float("nan")}, ":2: column 'passage' is nan, not a text"),
        ({"passage": "  "}, "column 'passage'"),
        ({"query": None}, "column 'query'"),
        ({"label": 0, "passage": "it  is."}, "p.jsonl:2 judge the same pair"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, change: dict[str, Any], hint: str) -> None:
    path = write_rows(tmp_path / "p.jsonl", [ROW, {**ROW, "passage": "x", **change}])
    with pytest.raises(ValueError, match=r"p\.jsonl") as caught:
        read_judged(path)
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "there is no pair"),
        ("\n\n", "there is no pair"),
        ("{\n", ":1: not a judged pair"),
        ("[1]\n", ":1: not a judged pair (no JSON object)"),
        (
            '{"query_id": "1", "query": "a", "passage": "b"}\n',
            "'label' is missing",
        ),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, hint: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"p\.jsonl") as caught:
        read_judged(path)
    assert hint in str(caught.value)


def test_no_file() -> None:
    with pytest.raises(ValueError, match="/nowhere: there is no such file"):
        read_judged(Path("/nowhere"))


def test_one_question_needs_both_labels(tmp_path: Path) -> None:
    rows = [ROW, {**ROW, "query": "Other?", "passage": "x", "label": 0}]
    with pytest.raises(ValueError, match="no question has both"):
        check_both_classes(read_judged(write_rows(tmp_path / "p.jsonl", rows)))
    check_both_classes(read_judged(write_rows(tmp_path / "p.jsonl", judged_rows(1))))


def test_folds_part_questions_whatever_the_order(tmp_path: Path) -> None:
    rows = judged_rows(23)
    pairs = read_judged(write_rows(tmp_path / "p.jsonl", rows))
    found = folds(pairs, 5, seed=0)
    assert sorted(set(found.tolist())) == [0, 1, 2, 3, 4]
    for question in set(pairs.questions):
        assert len({f for f, q in zip(found, pairs.questions, strict=True) if q == question}) == 1
    turned = read_judged(write_rows(tmp_path / "t.jsonl", rows[::-1]))
    assert (folds(turned, 5, seed=0)[::-1] == found).all()
    with pytest.raises(ValueError, match="23 questions cannot make 24 folds"):
        folds(pairs, 24, seed=0)


def test_held_out_questions(tmp_path: Path) -> None:
    pairs = read_judged(write_rows(tmp_path / "p.jsonl", judged_rows(20)))
    mask = held_out(pairs, 0.15, seed=0)
    assert mask.sum() == 6
    assert not set(pairs.select(mask).questions) & set(pairs.select(~mask).questions)
    with pytest.raises(ValueError, match="leave none to train on"):
        held_out(pairs, 0.99, seed=0)


def test_questions_of_the_test_file_are_left_out(tmp_path: Path) -> None:
    pairs = read_judged(write_rows(tmp_path / "p.jsonl", judged_rows(5)))
    asked = [{**ROW, "query": "does  INSULIN help in case 1?", "passage": pairs.passages[0]}]
    test = read_judged(write_rows(tmp_path / "t.jsonl", asked))
    left = pairs.without_questions_of(test)
    assert len(left) == 8
    assert left.num_questions == 4
    assert left.groups.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert test.seen_passages(pairs).tolist() == [True]
    assert left.fingerprint != pairs.fingerprint
    assert np.array_equal(left.labels, [1, 0] * 4)
