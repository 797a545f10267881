"""What a question costs: calls that an endpoint counts, pipeline by pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from srrag.config import factory
from srrag.config.compose import configure
from srrag.retrieve.questions import question_table
from tests.conftest import linked
from tests.endpoint import Endpoint, serve

WIDE = (
    "pipeline.rank.search.search.rank.sparse.k=200",
    "pipeline.rank.search.rerank.rerank.keep=30",
)
UNFILTERED = (
    "pipeline.rank.judge=null",
    "pipeline.rank.filter=null",
    "pipeline.rank.fuse.into=hits",
)
UNRANKED = ("pipeline.rank.coarse=null", "pipeline.rank.fine=null",
            "pipeline.rank.search.into=hits")  # fmt: skip


@pytest.mark.parametrize(
    ("pipeline", "settings", "most"),
    [
        ("biogen_b", (), 4),
        ("biogen_b", WIDE, 8),
        ("biogen_c", (), 3),
        ("rethinking", UNFILTERED, 3),
        ("srrag_paper", UNRANKED, 14),
        ("unaided", (), 1),
    ],
)
def test_a_question_costs_at_most_so_many_calls(
    sample_root: Path, tmp_path: Path, pipeline: str, settings: tuple[str, ...], most: int
) -> None:
    root = linked(sample_root, tmp_path / "root")
    with serve(Endpoint()) as endpoint:
        config = configure(
            "ask",
            [f"root={root}", "question=x", f"pipeline={pipeline}", *settings, "engine=http",
             "engine.model=m", f"engine.base_url={endpoint.url}", "engine.max_retries=0"],
        )  # fmt: skip
        bound = factory.pipeline_run(config, factory.make(config["pipeline"], "pipeline"))
        asked = [{"query_id": "q", "text": "Do braces prevent ankle sprains in athletes?"}]
        (row,) = bound.run(question_table(asked), factory.place(config)).to_pylist()
        assert len(endpoint.answered) == len(endpoint.requests), "nothing is asked twice"
        assert 1 <= len(endpoint.requests) <= most
    assert "JudgeAnswerable" not in {each["step"] for each in row["trace"]}
