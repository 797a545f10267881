"""`estimate=true` of answer, evaluate and sweep: nothing is called, and no run asks for more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jobs.answer
import jobs.evaluate
import jobs.sweep
from srrag.config.compose import configure
from srrag.errors import UsageError
from tests.conftest import linked
from tests.endpoint import Endpoint, serve
from tests.endpoint_script import answer_with_more_slips
from tests.sample_json import answer_at_length, answer_by_schema

pytestmark = pytest.mark.e2e
JOBS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "answer": jobs.answer.run, "evaluate": jobs.evaluate.run, "sweep": jobs.sweep.run,
}  # fmt: skip
SCRIPTS = [answer_with_more_slips, answer_at_length]
"""Prompts asked twice, and answers as long as they may be."""
BOUNDS = ("calls_max", "tokens_in_max", "tokens_out_max")
OPTIONS = ['exercise "at home"', "rest", "surgery"]
PRICES = ("engine.usd_per_mtok_in=1", "engine.usd_per_mtok_out=10")


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


def check(name: str, root: Path, script: Callable[[Any], str], *args: str) -> dict[str, Any]:
    """Estimate, then run; return the estimate with what was asked."""
    with serve(Endpoint(script=script, keep_requests=0)) as endpoint:
        files = sorted(root.rglob("*"))
        told = run(name, root, endpoint.url, "estimate=true", *args)
        assert (endpoint.calls.total(), sorted(root.rglob("*"))) == (0, files)
        run(name, root, endpoint.url, *args)
        asked = (endpoint.calls.total(), endpoint.tokens_in, endpoint.tokens_out)
    assert min(asked) > 0, "it asked"
    for bound, spent in zip(BOUNDS, asked, strict=True):
        assert spent <= told[bound], (bound, told)
    return {**told, "calls": asked[0]}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize(
    "pipeline",
    [
        ["hybrid_maxsim"],
        ["srrag_graph", "pipeline.rank.fine.model=${root}/jobs/fit_betr/srrag/betr.json"],
        ["biogen_d"],
        ["biogen_e"],
        [
            "rethinking",
            "pipeline.rank.judge=null",
            "pipeline.rank.filter=null",
            "pipeline.rank.fuse.into=hits",
        ],
        ["mcq"],
        ["unaided"],
    ],
    ids=lambda given: given[0],
)
def test_no_answer_asks_for_more(
    pipeline: list[str], script: Callable[[Any], str], root: Path, questions: Path
) -> None:
    if pipeline == ["mcq"] and script is not answer_at_length:
        pytest.skip("the other script knows no patterns")
    chosen, *rest = pipeline
    asked = (f"pipeline={chosen}", f"queries={questions}", "max_failed_share=1", *rest)
    told = check("answer", root, script, *asked, *PRICES)
    assert told["usd_max"] == pytest.approx(
        (told["tokens_in_max"] + 10 * told["tokens_out_max"]) / 1e6, abs=1e-3
    )


def test_rounds_passages_and_documents_are_known(root: Path, questions: Path) -> None:
    """Three rounds of three passages and two reflections; 4 wordings of 30 articles each."""
    asked = ("estimate=true", f"queries={questions}")
    fitted = "pipeline.rank.fine.model=${root}/jobs/fit_betr/srrag/betr.json"
    steps = {
        name: run("answer", root, "http://127.0.0.1:9/v1", *asked, f"pipeline={name}", *rest)[
            "pipelines"
        ]["answers"]["steps"]
        for name, rest in {"srrag": [fitted], "biogen_e": []}.items()
    }
    calls = {n: {s: each["calls_max"] / 12 for s, each in m.items()} for n, m in steps.items()}
    documents = calls["biogen_e"].pop("SummariseDocuments")
    assert calls == {
        "srrag": {
            "FindAnchors": 3, "WriteHyde": 9, "Reflect": 2, "FindSnippets": 12,
            "NoticeMismatch": 1, "ComposeAnswer": 1,
        },
        "biogen_e": {"Reformulate": 1, "ComposeParagraph": 1},
    }  # fmt: skip
    assert 12 < documents <= 120, "no more than the sample has windows"


@pytest.mark.parametrize("script", SCRIPTS)
def test_judges_count_and_rows_share_what_they_share(
    script: Callable[[Any], str], root: Path, questions: Path
) -> None:
    bench = (
        "bench=answers", f"bench.path={questions}", "bench.limit=3", "resamples=20",
        "controls=false", "bench.judges.accuracy.trials=2",
    )  # fmt: skip
    evaluated = check("evaluate", root, script, *bench, "pipeline=hybrid_maxsim", "baseline=hybrid")
    steps = evaluated["pipelines"]["hybrid_maxsim"]["steps"]
    assert {"ComposeAnswer", "SplitClaims", "JudgeFaithfulness", "JudgeAccuracy"} <= steps.keys()
    one = run("sweep", root, "http://127.0.0.1:9/v1", *bench, "pipeline=biogen_e", "estimate=true")
    two = check(
        "sweep",
        root,
        script,
        *bench,
        "pipeline=biogen_e",
        "pipeline.answer.bullets.diversity=0.85,0.5",
    )
    names = [each["steps"] for each in two["pipelines"].values()]
    assert "SummariseDocuments" in names[0] and "SummariseDocuments" not in names[1]
    assert two["calls_max"] < 2 * one["calls_max"]


def test_stages_of_an_answer_are_judged_within_the_bound(root: Path, questions: Path) -> None:
    bench = ("bench=stages", f"bench.path={questions}", "resamples=20", "controls=false")
    check("evaluate", root, answer_by_schema, *bench, "pipeline=hybrid_maxsim")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["bench=answers", "engine.tokenizer=null"], "engine.tokenizer: an estimate needs"),
        (["bench=answers", "controls=paid"], "it does not know controls=paid"),
        (["bench=ebmnlp", f"bench.path={__file__}"], "bench.kind=ebmnlp asks no pipeline"),
        (
            ["bench=answers", "pipeline=biogen_b", "pipeline.rank.reword.engine={_target_: Rules}"],
            "SummariseDocuments shows 'documents'; Reformulate: nothing bounds",
        ),
    ],
)
def test_what_it_does_not_know_it_says(args: list[str], message: str, root: Path) -> None:
    with pytest.raises(UsageError, match=message):
        run("evaluate", root, "http://127.0.0.1:9/v1", "estimate=true", *args)


def test_rules_ask_nothing(root: Path, questions: Path) -> None:
    config = configure("answer", [f"root={root}", f"queries={questions}", "estimate=true"])
    with pytest.raises(UsageError, match="the engine is 'rules', which calls nothing"):
        jobs.answer.run(config)
