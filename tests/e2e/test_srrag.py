"""The whole SR-RAG pipeline from the command line, by rules and with a model behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import linked
from tests.e2e.answered import sends
from tests.e2e.command import fault, srrag
from tests.endpoint_process import started

pytestmark = pytest.mark.e2e
QUESTION = "question=Should bed rest be prescribed for acute low back pain in adults?"


@pytest.fixture(scope="module")
def root(fitted_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root of its own, with the sample and what its training questions taught."""
    return linked(fitted_root, tmp_path_factory.mktemp("srrag") / "root")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An endpoint whose answers fit their schema, filled with words of the prompt."""
    with started(tmp_path_factory.mktemp("endpoint"), "--lifetime", "300") as (_, url):
        yield url


def cited_within(summary: dict[str, Any]) -> bool:
    numbers = {item["number"] for item in summary["evidence"]}
    return all(set(item["citations"]) <= numbers for item in summary["sentences"])


def test_by_rules_it_answers_from_the_guideline(root: Path) -> None:
    summary, shown = srrag("ask", f"root={root}", "pipeline=srrag", QUESTION)
    assert summary["state"] == "answered"
    assert cited_within(summary)
    first = summary["sentences"][0]
    assert "bed rest should not be prescribed" in first["text"].casefold()
    grades = {item["number"]: item["grade"] for item in summary["evidence"]}
    assert [grades[number] for number in first["citations"]] == ["A"]
    assert "Off with engine" not in shown


def test_with_a_model_every_step_asks_it_and_nothing_is_paid_twice(root: Path, url: str) -> None:
    engine = ["engine=http", "engine.model=m", f"engine.base_url={url}"]
    summary, shown = srrag("ask", f"root={root}", "pipeline=srrag", QUESTION, *engine, "trace=true")
    assert summary["off"] == []
    assert cited_within(summary), "whatever a model cites"
    assert len(summary["expansion"]["hyde_passages"]) >= 1
    channels = {each["channel"] for item in summary["why"] for each in item["found"]}
    assert {"dense", "hyde"} <= channels
    assert "How the answer came about" in shown
    paid = sends(url)
    # Plan and read; check what is said, if anything; read again where a search is asked for. Each
    # may be asked for once more.
    assert 2 <= paid <= 2 * 4
    again, _ = srrag("ask", f"root={root}", "pipeline=srrag", QUESTION, *engine)
    assert sends(url) == paid, "every answer stands in the log"
    assert again["answer"] == summary["answer"]


SEARCH = "pipeline.rank.search.search.rank"
NO_HYDE = [f"{SEARCH}.{part}=null" for part in ("encode_hyde", "retrieve.channels.hyde")]
NO_COLBERT = ["pipeline.rank.weigh=null", "+pipeline.rank.fine.reranker.computed=[dense]"]
NO_COLBERT_MODEL = "pipeline.rank.fine.model=${root}/jobs/fit_betr/no_colbert/betr.json"


@pytest.mark.parametrize("ablation", [NO_HYDE, [*NO_COLBERT, NO_COLBERT_MODEL]])
def test_an_ablation_says_what_it_lacks(root: Path, ablation: list[str]) -> None:
    asked = [f"root={root}", "pipeline=srrag_graph", *ablation, QUESTION, "trace=true"]
    summary, _ = srrag("ask", *asked)
    assert cited_within(summary) and summary["evidence"]
    steps = [item["step"] for item in summary["trace"]]
    assert ("WeighTokens" in steps) == (ablation is NO_HYDE)


def test_parameters_of_another_reranker_are_refused(root: Path) -> None:
    model = f"pipeline.rank.fine.model={root}/jobs/fit_betr/srrag/betr.json"
    said = fault("ask", f"root={root}", "pipeline=srrag_graph", *NO_COLBERT, model, QUESTION)
    assert "was fitted to the scores of" in said


def test_the_neutral_schema_asks_a_build_of_its_own(root: Path) -> None:
    neutral = ("pipeline=srrag_graph", "schema=neutral", "build=neutral")
    said = fault("ask", f"root={root}", *neutral, QUESTION, code=2)
    assert "neutral" in said
    srrag("build", f"root={root}", "schema=neutral", "build=neutral", "plan=graph")
    summary, _ = srrag("ask", f"root={root}", *neutral, QUESTION)
    assert summary["evidence"] and cited_within(summary)
