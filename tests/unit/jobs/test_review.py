"""`srrag review`: what is wrong with its arguments is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.review import run
from srrag.config.compose import configure
from srrag.core.errors import UsageError
from tests.e2e.command import check_summary
from tests.judged import ANSWERS
from tests.unit.lab.review.kits import rows


def review(folder: Path, *arguments: str) -> dict[str, Any]:
    return run(configure("review", [f"out={folder}/kit", "resamples=50", *arguments]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(rows("one"), schema=ANSWERS), tmp_path / "a.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "answers= is missing"),
        (["answers=none.parquet"], "answers.system=none.parquet: there is no such file"),
        (["answers=[{A}]"], "answers: name the systems"),
        (["answers={A}", "gold=none.jsonl"], "gold=none.jsonl: there is no such file"),
        (["answers={A}", "questions=some"], "questions=some: a whole number, at least 1"),
        (["import=3"], "key.json: there is no such file"),
        (["answers={A}", "questions=40"], "questions=40: only 6"),
        (["answers={A}", "strata=colour"], "strata=colour"),
        (["answers={A}", "evidence=some"], "evidence=some: there are cited and all"),
        (["import=none.json"], "key.json: there is no such file"),
    ],
)
def test_wrong_usage_is_named(folder: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("[", r"\[")):
        review(folder, *(each.replace("{A}", str(folder / "a.parquet")) for each in arguments))


def test_the_key_of_sheets_that_were_given_out_is_kept(folder: Path) -> None:
    given = [f"answers={folder}/a.parquet", "questions=3"]
    first = review(folder, *given)
    assert review(folder, *given)["sample"] == first["sample"]
    with pytest.raises(UsageError, match=r"key\.json is the key of another sample"):
        review(folder, *given, "seed=1")
    (folder / "kit" / "key.json").write_text(json.dumps({"sample": "x"}))
    with pytest.raises(UsageError, match=r"key\.json: not the key of a review"):
        review(folder, *given)


def test_systems_and_raters_are_told_apart_in_the_summary(folder: Path) -> None:
    pq.write_table(pa.Table.from_pylist(rows("two"), schema=ANSWERS), folder / "b.parquet")
    review(folder, f"answers={{one: {folder}/a.parquet, two: {folder}/b.parquet}}", "questions=6")
    key = json.loads((folder / "kit" / "key.json").read_text())
    for rater, high in (("Ann", 5), ("Bo", 4)):
        ratings = [
            {"item": item, "safety": high if each["system"] == "one" else 2}
            for item, each in key["items"].items()
        ]
        content = {"kind": "srrag review", "layout": 1, "sample": key["sample"]}
        path = folder / f"{rater}.json"
        path.write_text(json.dumps({**content, "rater": rater, "ratings": ratings}))
    given = f"import=[{folder}/Ann.json,{folder}/Bo.json]"
    summary = review(folder, given, "baseline=two")
    check_summary("review", {"job": "review", **summary})
    one, two = summary["systems"]["one"], summary["systems"]["two"]
    assert one["metrics"]["safety"]["value"] == 4.5
    assert two["metrics"]["safety"]["missing"] == 0
    assert two["metrics"]["accuracy"]["value"] is None
    assert one["difference"]["safety"]["value"] == 2.5
    with pytest.raises(UsageError, match="baseline=zzz: the systems are one, two"):
        review(folder, given, "baseline=zzz")
