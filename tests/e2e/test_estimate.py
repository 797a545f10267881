"""`estimate=true` of answer, evaluate and sweep: nothing is called, and the figures come true."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jobs.answer
import jobs.evaluate
import jobs.sweep
import srrag.lab.experiment.estimate
from srrag.config.compose import configure
from srrag.core.errors import UsageError
from tests.conftest import linked
from tests.endpoint import Endpoint, serve
from tests.endpoint_script import answer_by_rules

pytestmark = pytest.mark.e2e
JOBS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "answer": jobs.answer.run, "evaluate": jobs.evaluate.run, "sweep": jobs.sweep.run,
}  # fmt: skip
COUNTS = ("calls", "tokens_in", "tokens_out")
OPTIONS = ['exercise "at home"', "rest", "surgery"]
PRICES = ("engine.usd_per_mtok_in=1", "engine.usd_per_mtok_out=10")
NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture
def root(fitted_root: Path, tmp_path: Path) -> Path:
    return linked(fitted_root, tmp_path / "root", "answers-*", "questions", "completions", "judged")


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """Some of the packaged questions; of those with an even number one has options."""
    source = Path(__file__).parents[2] / "srrag" / "sample" / "questions.jsonl"
    rows = [json.loads(line) for line in source.read_text("utf-8").splitlines()[:6]]
    for row in rows[::2]:
        row |= {"options": OPTIONS, "gold_option": OPTIONS[1]}
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def run(name: str, root: Path, url: str, *args: str) -> dict[str, Any]:
    model = ("engine=http", "engine.model=toy", f"engine.base_url={url}", "engine.tokenizer=utf8")
    out = () if "estimate=true" in args else (f"out={root.parent / 'out'}",)
    config = configure(name, [f"root={root}", *model, "profile.threads=1", *out, *args])
    return JOBS[name]({**config, "command": "test"})


def values(told: dict[str, Any]) -> list[float]:
    return [told[name]["value"] for name in COUNTS]


TWO_ROUNDS = (
    "pipeline.rank.search.rounds=2",
    "+pipeline.rank.search.reflect={_target_:Reflect,engine:${engine}}",
)


@pytest.mark.parametrize(
    "pipeline",
    [["hybrid_maxsim"], ["srrag", *TWO_ROUNDS], ["biogen_b"], ["unaided"]],
    ids=lambda given: given[0],
)
def test_what_was_answered_costs_nothing_more(
    pipeline: list[str], root: Path, questions: Path
) -> None:
    asked = (f"pipeline={pipeline[0]}", f"queries={questions}", "max_failed_share=1", *pipeline[1:])
    with serve(Endpoint(script=answer_by_rules, keep_requests=0)) as endpoint:
        files = sorted(root.rglob("*"))
        before = run("answer", root, endpoint.url, "estimate=true", *asked, *PRICES)
        assert (endpoint.calls.total(), sorted(root.rglob("*"))) == (0, files)
        run("answer", root, endpoint.url, *asked)
        after = run("answer", root, endpoint.url, "estimate=true", *asked, *PRICES)
    calls, tokens_in, tokens_out = values(before)
    assert calls >= 6 and tokens_in > tokens_out > 0
    assert before["usd"]["value"] == pytest.approx((tokens_in + 10 * tokens_out) / 1e6, abs=1e-3)
    assert values(after) == [0, 0, 0]


def test_the_calls_of_an_answer_come_true(root: Path, questions: Path) -> None:
    """Of questions without options, as the endpoint errs on those and is asked again."""
    rows = [row for row in questions.read_text("utf-8").splitlines() if OPTIONS[1] not in row]
    questions.write_text("\n".join(rows), "utf-8")
    asked = ("pipeline=hybrid_maxsim", f"queries={questions}", "max_failed_share=1")
    with serve(Endpoint(script=answer_by_rules, keep_requests=0)) as endpoint:
        told = run("answer", root, endpoint.url, "estimate=true", *asked)
        run("answer", root, endpoint.url, *asked)
        spent = endpoint.calls.total(), endpoint.tokens_in
    calls, tokens_in, *_ = values(told)
    assert spent[0] == calls
    assert spent[1] == pytest.approx(tokens_in, rel=0.2), "a check holds what the answer cites"
    assert told["usd"] is None, "no price is known"


def test_a_sample_speaks_for_all_with_an_interval(
    root: Path, questions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("estimate=true", "pipeline=hybrid_maxsim", f"queries={questions}")
    whole = run("answer", root, NOWHERE, *asked)
    monkeypatch.setattr(srrag.lab.experiment.estimate, "SAMPLE", 4)
    some = run("answer", root, NOWHERE, *asked)
    assert (whole["rendered"], some["rendered"], some["questions"]) == (6, 4, 6)
    for name in COUNTS:
        assert whole[name]["low"] == whole[name]["value"] == whole[name]["high"]
    assert some["tokens_in"]["low"] <= whole["tokens_in"]["value"] <= some["tokens_in"]["high"]
    assert some["tokens_in"]["low"] < some["tokens_in"]["high"]


def test_judges_count_and_rows_share_what_they_share(root: Path, questions: Path) -> None:
    bench = (
        "estimate=true", "bench=answers", f"bench.path={questions}", "bench.limit=3",
        "controls=false",
    )  # fmt: skip
    alone = run("answer", root, NOWHERE, bench[0], f"queries={questions}", "pipeline=biogen_b")
    one = run("evaluate", root, NOWHERE, *bench, "pipeline=biogen_b")
    assert one["calls"]["value"] > alone["calls"]["value"] / 2 + 3, "the judges of 3 questions"
    two = run(
        "sweep", root, NOWHERE, *bench, "pipeline=biogen_b",
        "pipeline.answer.bullets.diversity=0.85,0.5",
    )  # fmt: skip
    assert len(two["pipelines"]) == 2
    assert one["calls"]["value"] <= two["calls"]["value"] < 2 * one["calls"]["value"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["bench=answers", "engine.tokenizer=null"], "engine.tokenizer: an estimate needs"),
        (["bench=answers", "controls=paid"], "it does not know controls=paid"),
        (["bench=ebmnlp", f"bench.path={__file__}"], "bench.kind=ebmnlp asks no pipeline"),
    ],
)
def test_what_it_does_not_know_it_says(args: list[str], message: str, root: Path) -> None:
    with pytest.raises(UsageError, match=message):
        run("evaluate", root, NOWHERE, "estimate=true", *args)


def test_rules_ask_nothing(root: Path, questions: Path) -> None:
    config = configure("answer", [f"root={root}", f"queries={questions}", "estimate=true"])
    with pytest.raises(UsageError, match="the engine is 'rules', which calls nothing"):
        jobs.answer.run(config)
