"""`srrag make_benchmark` on the sample: what it writes is evaluated, reviewed, rebuilt, resumed."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from openpyxl import load_workbook

from srrag.core.units import Units
from srrag.storage.store import Store
from tests.conftest import linked
from tests.e2e.answered import logged, start, wait_for
from tests.e2e.command import fault, srrag
from tests.e2e.test_kill import kill
from tests.endpoint import Endpoint, serve
from tests.sample_json import asked_schema

pytestmark = pytest.mark.e2e
FILES = ("benchmark", "train", "validation", "challenge", "public", "review")
OTHERS = (
    "support", "citations", "evidence", "claims", "accuracy", "similarity", "choice",
)  # fmt: skip
"""Judges left out here: two kinds of gold are enough to see that it is read."""
Row = dict[str, Any]


def lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def root(sample_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample build, with room for what the job writes."""
    return linked(sample_root, tmp_path_factory.mktemp("benchmark") / "root", "jobs")


@pytest.fixture(scope="module")
def made(root: Path) -> tuple[Row, Path]:
    """A benchmark by rules, and where it lies."""
    summary, stderr = srrag("make_benchmark", f"root={root}", "sample.windows=80")
    assert "dropped at dense" in stderr
    return summary, Path(summary["out"])


def test_every_window_is_a_question_or_counted(made: tuple[Row, Path]) -> None:
    summary, out = made
    rows = {name: lines(out / f"{name}.jsonl") for name in FILES}
    lost = sum(sum(reasons.values()) for reasons in summary["dropped"].values())
    assert summary["sampled"] == 80 == len(rows["benchmark"]) + len(rows["challenge"]) + lost
    assert pq.read_table(out / "rejects.parquet").num_rows == lost
    assert summary["main"] + summary["challenge"] == summary["written"] > 15
    assert len(rows["train"]) + len(rows["validation"]) + summary["split"]["left_out"] == len(
        rows["benchmark"]
    )
    held = [
        {g["doc"] for row in rows[name] for g in row["gold"]} for name in ("train", "validation")
    ]
    assert held[1] and not held[0] & held[1], "no gold document of validation in train"
    assert {row["model"] for row in rows["benchmark"]} == {"rules"}
    for row in rows["benchmark"]:
        assert row["gold"] and row["nuggets"] and row["exact_answer"]
        grades = [s["grade"] for s in row["statements"] if s["part"] == "ideal"]
        assert grades == sorted(grades, key=lambda grade: grade or "F")
        assert all(each["sources"] for each in row["statements"])


def test_what_was_made_is_evaluated_as_it_is(root: Path, made: tuple[Row, Path]) -> None:
    path = f"bench.path={made[1]}/benchmark.jsonl"
    ranked, _ = srrag("evaluate", "bench=sample", path, f"root={root}", "resamples=100")
    assert ranked["questions"] == made[0]["questions"]
    assert ranked["metrics"]["recall@100"]["value"] > 0.9
    judged, _ = srrag(
        "evaluate", "bench=answers", path, f"root={root}", "resamples=100",
        *(f"bench.judges.{name}=null" for name in OTHERS),
    )  # fmt: skip
    assert judged["without_gold"] == 0
    assert judged["metrics"]["nugget_coverage"]["value"] > 0.5
    assert judged["metrics"]["picot_match"]["value"] > 0.5


def test_what_is_public_is_rebuilt_from_the_same_corpus(root: Path, made: tuple[Row, Path]) -> None:
    _, out = made
    texts = Units(Store(root).artifacts("default")["units"]).units["text"].to_pylist()
    windows = [" ".join(re.findall(r"\w+", text.casefold())) for text in texts]
    for row in lines(out / "public.jsonl"):
        said = [
            row["text"],
            row["exact_answer"],
            row["ideal_answer"],
            *map(str, row["picot"].values()),
        ]
        said += [each["text"] for each in (*row["nuggets"], *row["statements"])]
        for words in (re.findall(r"\w+", text.casefold()) for text in said):
            runs = (" ".join(words[n : n + 13]) for n in range(len(words) - 12))
            assert not any(run in window for run in runs for window in windows)
    summary, _ = srrag(
        "make_benchmark", f"root={root}", f"rebuild={out}/public.jsonl", f"out={out}/again"
    )
    assert (summary["lost"], summary["questions"]) == ({}, made[0]["public"]["questions"])
    quotes = {row["query_id"]: row["gold"] for row in lines(out / "benchmark.jsonl")}
    for row in lines(out / "again" / "benchmark.jsonl"):
        assert [g["quote"] for g in row["gold"]] == [g["quote"] for g in quotes[row["query_id"]]]


def test_reviewers_decisions_are_applied_and_wrong_ones_named(
    root: Path, made: tuple[Row, Path], tmp_path: Path
) -> None:
    summary, out = made
    book = load_workbook(out / "review.xlsx")
    sheet = book["questions"]
    names = [cell.value for cell in sheet[1]]
    ids = [sheet.cell(line, 1).value for line in (2, 3, 4)]
    assert ids == [row["query_id"] for row in lines(out / "review.jsonl")][:3]
    filled = ({"decision": "accept"}, {"decision": "reject"},
              {"decision": "revise", "revised_exact_answer": "Yes. It does."})  # fmt: skip
    for line, values in enumerate(filled, start=2):
        for name, value in values.items():
            sheet.cell(line, names.index(name) + 1).value = value
    book.save(tmp_path / "decided.xlsx")
    command = ["make_benchmark", f"root={root}", "sample.windows=80", f"out={tmp_path}/out"]
    decided, _ = srrag(*command, f"decisions={tmp_path}/decided.xlsx")
    counts = decided["decisions"]
    assert (counts["accept"], counts["reject"], counts["revise"]) == (1, 1, 1)
    assert decided["dropped"]["review"] == {"rejected": 1}
    assert decided["to_review"] == summary["to_review"] - 3
    rows = {row["query_id"]: row for row in lines(tmp_path / "out" / "benchmark.jsonl")}
    assert rows[ids[0]]["review"]["decision"] == "accept"
    assert ids[1] not in rows
    assert rows[ids[2]]["exact_answer"] == "Yes. It does."
    assert rows[ids[2]]["ideal_answer"] == ""
    (tmp_path / "odd.jsonl").write_text('{"query_id": "nobody", "decision": "accept"}\n')
    told = fault(*command, f"decisions={tmp_path}/odd.jsonl", code=2)
    assert "odd.jsonl:1" in told and "nobody" in told


def scripted(request: Row) -> str:
    """A model that copies first sentences; some of its answers are bad."""
    user = request["messages"][1]["content"]
    draw = hashlib.blake2b(user.encode(), digest_size=1).digest()[0]
    if draw < 8 or (draw < 24 and len(request["messages"]) == 2):
        return "I am sorry, I cannot help."
    passage = user.rpartition("<passage>\n")[2].removesuffix("\n</passage>")
    sentence = re.split(r"(?<=\.)\s", passage.split("\n", 1)[-1].strip())[0]
    match (asked_schema(request) or {})["title"]:
        case "SeedQuestion":
            title = re.sub(r"\d", "", json.loads(user.split("\n")[0].removeprefix("title: ")))
            picot = {"P": "adults", "I": title[:60], "C": "", "O": "pain", "T": ""}
            asked = f"What is best in {title.strip()} {draw % 7 * 'x'}?"
            answer = {"conclusion": sentence, "question": asked, "picot": picot}
            return json.dumps({**answer, "certainty": "sufficient", "reason": "said"})
        case "GradedPassages":
            return json.dumps({"passages": [*_graded(user)]})
        case "Reference":
            given = [json.loads(line) for line in user.split("\n") if line.startswith('{"n": ')]
            said = [
                {"text": f"Passage says so in grade {g['grade']}.", "cites": [g["n"]]}
                for g in given
            ]
            return json.dumps({"exact": said[:1], "ideal": said[:16]})
        case "Nuggets":
            return json.dumps({"nuggets": [{"text": "It says so", "importance": "vital"}]})
    raise AssertionError(request)


def _graded(user: str) -> Iterator[Row]:
    """Grades by the hash of each passage; quotes are first sentences."""
    for n, part in enumerate(user.split("<passage>\n")[1:], start=1):
        passage = part.partition("\n</passage>")[0]
        draw = hashlib.blake2b(passage.encode(), digest_size=1).digest()[0]
        support = ("strong", "supportive", "weak", "unrelated")[min(draw % 8, 3)]
        quote = re.split(r"(?<=\.)\s", passage.split("\n", 1)[-1].strip())[0]
        support = "strong" if draw % 2 else support
        yield {"n": n, "quote": quote, "reason": "so", "support": support}


@pytest.fixture(scope="module")
def model() -> Iterator[Endpoint]:
    """An endpoint that answers by the script."""
    with serve(Endpoint(script=scripted)) as endpoint:
        yield endpoint


def test_a_killed_run_ends_as_one_left_in_peace(
    sample_root: Path, model: Endpoint, tmp_path: Path
) -> None:
    def command(name: str) -> list[str]:
        linked(sample_root, tmp_path / name, "jobs")
        return [
            "make_benchmark", f"root={tmp_path / name}", "sample.windows=60", "pool_windows=5",
            "engine=http", "engine.model=toy", f"engine.base_url={model.url}",
            "engine.concurrency=8", "max_failed_share=1.0",
        ]  # fmt: skip

    whole, _ = srrag(*command("whole"))
    assert whole["questions"] > 5
    assert whole["usage"]["support"]["again"] > 0, "bad answers are asked for again"
    assert "refusal" in whole["dropped"]["questions"], "and counted where no good one comes"
    assert whole["calls"] == model.calls.total() == len(model.calls)
    model.calls.clear()
    killed = command("killed")
    priced = ["engine.tokenizer=utf8", "estimate=true"]
    estimate, _ = srrag(*killed, *priced)
    assert estimate["stages"]["questions"]["calls"] == whole["dense"]
    assert model.calls.total() == 0
    for moment in (whole["calls"] // 6, whole["calls"] // 2):
        model.hold_after = moment
        process = start(killed)
        wait_for(lambda: model.held > 0, process)
        kill(process)
    model.hold_after = sys.maxsize
    resumed, _ = srrag(*killed)
    twice = model.calls.total() - len(model.calls)
    assert len(model.calls) == whole["calls"]
    assert twice <= 2 * 8, "only what was in flight is paid twice"
    assert logged(tmp_path / "killed").keys() == logged(tmp_path / "whole").keys()
    for name in FILES:
        files = [Path(each["out"]) / f"{name}.jsonl" for each in (resumed, whole)]
        assert files[0].read_bytes() == files[1].read_bytes(), name
    same = ("sampled", "dense", "written", "main", "challenge", "questions", "dropped", "split")
    assert [resumed[key] for key in same] == [whole[key] for key in same]
