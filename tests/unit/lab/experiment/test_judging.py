"""`srrag evaluate bench=answers` and `bench=nli`: by rules, by a model, and by one gone mad."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs.evaluate import run
from srrag.config.compose import configure
from srrag.config.run_job import launch
from srrag.core.errors import UsageError
from srrag.lab.judges.support import JudgeClaims, Supported
from srrag.lab.measure.judgements import JUDGEMENTS
from srrag.lab.report.results import read_results
from tests.e2e.command import check_summary
from tests.endpoint import Endpoint, serve
from tests.judged import answers, case

GOLD: list[dict[str, Any]] = [
    {"id": "a", "text": "What helps?", "answer": "Training.", "picot": {"I": "eccentric training"},
     "nuggets": ["Eccentric training reduces tendon pain", "Shock waves calm calcium"]},
    {"id": "b", "text": "And braces?", "answer": "They do not.", "nuggets": ["Braces do not help"]},
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Gold, answers to both questions, and answers to the first alone."""
    lines = "".join(json.dumps(row) + "\n" for row in GOLD)
    (tmp_path / "gold.jsonl").write_text(lines)
    said = {key: case()[key] for key in ("answer", "sentences", "evidence")}
    one = {"query_id": "a", **said}
    pq.write_table(answers(one, {"query_id": "b", **said}), tmp_path / "both.parquet")
    pq.write_table(answers(one), tmp_path / "one.parquet")
    pq.write_table(answers({"query_id": "z"}), tmp_path / "other.parquet")
    return tmp_path


def arguments(folder: Path, *more: str, answers_: str = "both.parquet") -> list[str]:
    return [
        "bench=answers", f"bench.path={folder / 'gold.jsonl'}",
        f"bench.answers={folder / answers_}", f"out={folder / 'out'}", "resamples=200",
        "controls=false", *more,
    ]  # fmt: skip


def judged(folder: Path, *more: str, answers_: str = "both.parquet") -> dict[str, Any]:
    config = configure("evaluate", arguments(folder, *more, answers_=answers_))
    return run({**config, "command": "test"})


@pytest.mark.slow
def test_stored_answers_are_judged_by_rules_without_a_root(folder: Path) -> None:
    summary = judged(folder)
    metrics = summary["metrics"]
    assert metrics["nugget_coverage"]["value"] == pytest.approx((0.5 + 0.0) / 2)
    assert metrics["picot_match"]["value"] == 1.0
    assert metrics["faithfulness"]["value"] == metrics["citation_valid"]["value"] == 1.0
    assert metrics["choice_accuracy"]["value"] is None
    assert (summary["judge"], summary["ok"], summary["calls"]) == (
        "rules (lexical, no model)", True, 0,
    )  # fmt: skip
    table = read_results(folder / "out").judgements("both")
    assert table is not None and table.schema.equals(JUDGEMENTS)
    assert set(table["metric"].to_pylist()) == {
        name for name, found in metrics.items() if found["value"] is not None
    }
    assert judged(folder)["metrics"] == metrics


def test_questions_without_an_answer_count_as_failures(folder: Path) -> None:
    summary = judged(folder, f"bench.baseline_answers={folder / 'one.parquet'}")
    baseline = summary["rows"][summary["baseline"]]
    assert baseline["missing"] == {"not answered": 1}
    assert baseline["metrics"]["faithfulness"]["value"] == 0.5
    assert baseline["metrics"]["nugget_coverage"]["n"] == 2
    difference = summary["difference"]["faithfulness"]
    assert (difference["value"], difference["n"]) == (0.5, 2)
    assert difference["p_holm"] >= difference["p"] > 0
    assert summary["difference"]["choice_accuracy"]["value"] is None


@pytest.mark.slow
def test_what_a_control_reaches_too_is_unfit_and_not_tested(folder: Path) -> None:
    baseline = f"bench.baseline_answers={folder / 'one.parquet'}"
    summary = judged(folder, baseline, "controls=true")
    assert summary["unfit"]["citation_valid"].startswith("unfit here: echo 1.000")
    assert "p" not in summary["difference"]["citation_valid"]
    assert summary["controls"]["gold answer"]["metrics"]["nugget_coverage"]["value"] == 1.0


@pytest.mark.parametrize(
    ("more", "hint"),
    [
        (["bench.answers=/nowhere.parquet"], "answers: /nowhere.parquet does not exist"),
        (["bench.judges.gold=null"], "bench.judges.nuggets reads nugget_verdicts"),
        (["out=null"], "root= or out= is missing"),
        (["bench.answers=null"], "root= is missing"),
        (["bench.judges.evidence.depth=0"], "depth is 0"),
        (["bench.depth=0"], "depth is 0"),
        (["bench.judges=3"], "bench.judges: judges=3 is no judge"),
        (["bench.judges.nuggets=3"], "bench.judges: nuggets=3 is no judge"),
        (["bench.answers=3"], "answers: 3 does not exist"),
        (["resamples=0"], "resamples=0: a whole number, at least 1"),
        (
            ["bench.judges.support=null"],
            "bench.judges.citations reads claims, which no step before",
        ),
    ],
)
def test_wrong_usage_names_the_key(folder: Path, more: list[str], hint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(hint)):
        judged(folder, *more)


def test_answers_to_other_questions_are_wrong_usage(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = arguments(folder, answers_="other.parquet")
    from jobs.evaluate import run as job

    assert launch("evaluate", job, argv) == 2
    assert "none of 1 is to one of the gold's 2" in capsys.readouterr().err


def said(request: dict[str, Any]) -> str:
    """Everything is good: one claim, all verdicts full."""
    properties = request["response_format"]["json_schema"]["schema"]["properties"]
    if "statements" in properties:
        found = [{"n": n, "reason": "passage 1", "passages": [1]} for n in (1, 2)]
        return json.dumps({"statements": found})
    if set(properties) == {"claims"}:
        claim = {
            "sentence": 1, "claim": "Training reduces pain.", "reason": "passage 1",
            "states": [1], "partly": [], "denies": [], "verdict": "full",
        }  # fmt: skip
        return json.dumps({"claims": [claim]})
    if "facts" in properties:
        told = {"reason": "so it is", "verdict": "full"}
        facts = [{"n": n, **told} for n in (1, 2)]
        parts = [{"part": part, "found": "training", **told} for part in "PICOT"]
        return json.dumps(
            {"facts": facts, "parts": parts, "claims": [{"n": 1, "facts": [1], **told}]}
        )
    if "nuggets" in properties:
        return '{"nuggets": [{"text": "They do not.", "importance": "vital"}]}'
    return '{"reason": "the same", "verdict": "full"}'


@pytest.fixture
def model() -> Iterator[Endpoint]:
    """A model that finds everything good: it takes the first of all choices."""

    with serve(Endpoint(script=said)) as endpoint:
        yield endpoint


def http(url: str) -> list[str]:
    return ["engine=http", f"engine.base_url={url}", "engine.model=m", "engine.max_retries=1"]


def test_a_model_judges_and_a_second_run_asks_it_nothing(folder: Path, model: Endpoint) -> None:
    summary = judged(folder, *http(model.url))
    values = {name: found["value"] for name, found in summary["metrics"].items()}
    good = (
        "nugget_coverage", "picot_match", "citation_support", "faithfulness", "answer_precision",
        "factuality", "evidence_coverage", "answer_accuracy",
    )  # fmt: skip
    assert {values[name] for name in good} == {1.0}
    assert summary["judge"].endswith("m")
    asked = sum(model.calls.values())
    assert asked == summary["calls"] == 2 * 5, "five an answer"
    again = judged(folder, *http(model.url))
    assert sum(model.calls.values()) == asked
    assert again["metrics"] == summary["metrics"]
    # One more question: what was judged before is in the log.
    with (folder / "gold.jsonl").open("a") as file:
        file.write(json.dumps({"id": "c", "text": "?", "nuggets": ["n"]}) + "\n")
    judged(folder, *http(model.url))
    assert sum(model.calls.values()) == asked


def test_a_judge_that_answers_nonsense_is_no_result(folder: Path) -> None:
    with serve(Endpoint(script=lambda request: "I had rather not say.")) as endpoint:
        summary = judged(folder, *http(endpoint.url))
        assert launch("evaluate", run, arguments(folder, *http(endpoint.url))) == 1
    assert summary["ok"] is False
    coverage = summary["metrics"]["nugget_coverage"]
    assert (coverage["value"], coverage["failed"], coverage["items"]) == (None, 3, 3)
    assert "failed on all 3 items" in coverage["reason"]
    assert summary["metrics"]["citation_valid"]["value"] == 1.0
    assert "citations" in summary["broken_judges"]
    (row,) = read_results(folder / "out").rows
    assert sorted(row.broken_judges) == summary["broken_judges"]
    assert summary["not_judged"] == sum(each["failed"] for each in summary["metrics"].values())
    assert summary["failures"][0]["reason"] == "invalid_json"
    with serve(Endpoint(script=said)) as endpoint:
        for again, asked in (("false", 0), ("true", 2 * 5)):
            judged(folder, *http(endpoint.url), f"retry_failed={again}")
            assert sum(endpoint.calls.values()) == asked


def test_of_rows_with_the_same_answers_one_asks_the_judge_anew(folder: Path) -> None:
    shutil.copy(folder / "both.parquet", folder / "same.parquet")
    asked = []
    with serve(Endpoint(script=lambda request: "I had rather not say.")) as endpoint:
        more = [*http(endpoint.url), "controls=false", "retry_failed=true"]
        for rows in ([], [], [f"bench.baseline_answers={folder / 'same.parquet'}"]):
            judged(folder, *more, *rows)
            asked.append(sum(endpoint.calls.values()))
    assert asked[2] - asked[1] == asked[1] - asked[0] > 0


def test_one_question_without_an_answer_does_not_hide_a_judge_that_failed(folder: Path) -> None:
    with serve(Endpoint(script=lambda request: "I had rather not say.")) as endpoint:
        summary = judged(folder, *http(endpoint.url), answers_="one.parquet")
    assert summary["missing"] == {"not answered": 1}
    faithfulness = summary["metrics"]["faithfulness"]
    assert (faithfulness["value"], faithfulness["items"], faithfulness["failed"]) == (None, 2, 1)
    assert summary["ok"] is False


def test_a_case_that_ends_a_judge_counts_where_its_gold_says_something(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [GOLD[0] | {"nuggets": []}, GOLD[1] | {"nuggets": []}]
    (folder / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rule = JudgeClaims.rule

    def odd(step: JudgeClaims, case: dict[str, Any]) -> Supported:
        if case["text"] == "And braces?":
            raise ValueError("odd")
        return rule(step, case)

    monkeypatch.setattr(JudgeClaims, "rule", odd)
    summary = judged(folder)
    metrics = summary["metrics"]
    assert (metrics["faithfulness"]["value"], metrics["faithfulness"]["failed"]) == (0.5, 1)
    assert metrics["citation_valid"]["value"] == 1.0, "known without the judge"
    assert metrics["evidence_precision"]["reason"] == "no question has vital nuggets in the gold"
    assert metrics["nugget_coverage"]["reason"] == "no question has nuggets in the gold"
    assert metrics["picot_match"]["n"] == 1, "the second question has none"
    assert summary["ok"] is True


def without_gold(request: dict[str, Any]) -> str:
    """As `said`, but it takes no ideal answer apart."""
    found = said(request)
    return "I had rather not say." if found.startswith('{"nuggets"') else found


def stages(folder: Path, *more: str) -> dict[str, Any]:
    """Question a has nuggets, b an ideal answer alone."""
    rows = [GOLD[0], {**GOLD[1], "nuggets": []}]
    (folder / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    argv = [f"bench.baseline_answers={folder / 'one.parquet'}", *arguments(folder, *more)[1:]]
    return run({**configure("evaluate", ["bench=stages", *argv]), "command": "test"})


def test_a_model_judges_stage_by_stage(folder: Path) -> None:
    with serve(Endpoint(script=said)) as endpoint:
        summary = stages(folder, *http(endpoint.url))
    values = {name: found["value"] for name, found in summary["metrics"].items()}
    assert values["selection_precision"] == values["selection_recall"] == 1.0
    assert values["factuality_cited_relevant"] == values["completeness_supported_referenced"] == 1.0
    assert values["completeness"] == 1.0
    assert values["factuality_no_reference"] is None
    assert summary["not_judged"] == 0
    baseline = summary["rows"][summary["baseline"]]["metrics"]
    assert baseline["factuality"]["value"] == baseline["completeness_response"]["value"] == 0.5
    assert summary["difference"]["completeness"]["n"] == 2
    named = ["completeness", "evidence", "claims", "form"]
    assert [*summary["judges"]] == named


def test_gold_that_could_not_be_made_counts_as_failed_in_every_metric(folder: Path) -> None:
    with serve(Endpoint(script=without_gold)) as endpoint:
        summary = stages(folder, *http(endpoint.url))
    assert summary["ok"] is True
    for name in ("evidence_precision", "factuality_no_reference", "completeness"):
        assert summary["metrics"][name]["failed"] == 1, name
    assert summary["metrics"]["completeness"]["value"] == 0.5
    assert summary["metrics"]["factuality_no_reference"]["value"] is None
    assert {lost["stage"] for lost in summary["failures"]} == {"nuggets"}


def test_stages_by_rules_state_what_they_are(folder: Path) -> None:
    summary = stages(folder)
    assert summary["judge"] == "rules (lexical, no model)"
    assert summary["metrics"]["factuality"]["n"] == 2


def votes(folder: Path, *said: str) -> Path:
    """A file of pairs: the first answer entails the nugget, and the others do not."""
    pairs = [
        {"id": str(n), "question": "Q", "answer": answer, "nugget": "Bananas help",
         "label": label, "votes": [label, label, "Neutral"]}
        for n, answer in enumerate(said) for label in ["Neutral" if n else "Entailment"]
    ]  # fmt: skip
    path = folder / "nli.jsonl"
    path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    return path


def nli(folder: Path, *more: str) -> dict[str, Any]:
    path = votes(folder, "Bananas help a lot.", "Drink water.")
    argv = ["bench=nli", f"bench.path={path}", f"out={folder / 'out'}", "resamples=50", *more]
    return run({**configure("evaluate", argv), "command": "test"})


def test_a_judge_is_judged(folder: Path) -> None:
    summary = nli(folder)
    check_summary("evaluate", {"job": "evaluate", **summary})
    values = {name: each["value"] for name, each in summary["metrics"].items()}
    assert (values["F1"], values["accuracy_3"], summary["failed"]) == (1.0, 1.0, 0)
    constant = summary["always_entailed"]["metrics"]["F1"]["value"]
    assert constant == pytest.approx(2 / 3, abs=1e-4)
    # The cosine tells these two apart as well: the rules do not beat it here.
    assert summary["cosine_best"]["metrics"]["F1"]["value"] == 1.0
    assert summary["fit"] is False
    assert summary["ok"] is True


def test_a_judge_that_answers_nothing_is_unfit(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(Endpoint(script=lambda request: "")) as endpoint:
        summary = nli(folder, *http(endpoint.url))
    values = {name: each["value"] for name, each in summary["metrics"].items()}
    assert (summary["failed"], values["accuracy"], values["F1"]) == (2, 0.0, 0.0)
    assert (summary["fit"], summary["ok"]) == (False, False)
    said = capsys.readouterr().err
    assert "NO RESULT: no answer of the judge could be used" in said
    assert "is unfit as a judge: its F1 does not beat the cosine and the constant" in said
    assert values["alpha"] is None


@pytest.mark.slow
def test_stored_answers_to_other_questions_count_nowhere(folder: Path) -> None:
    said = {key: case()[key] for key in ("answer", "sentences", "evidence")}
    others = ({"query_id": name, **said, "state": "not"} for name in "xyz")
    pq.write_table(answers({"query_id": "a", **said}, *others), folder / "more.parquet")
    summary = judged(folder, answers_="more.parquet")
    assert summary["answers_without_question"] == 3
    results = read_results(folder / "out")
    (row,) = (row for row in results.rows if not row.control)
    kept = results.answers(row.name)
    assert row.abstained == 0
    assert kept is not None and kept["query_id"].to_pylist() == ["a"]
