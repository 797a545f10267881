from __future__ import annotations

from pathlib import Path

import pytest

from srrag.config import factory
from srrag.config.compose import configure
from srrag.errors import UsageError
from srrag.experiment.configurations import configurations
from srrag.experiment.table import ranks, readable_systems
from srrag.pipeline import Pipeline
from srrag.report.row import Figure, Row


def pipeline(name: str, answer: str = "common") -> Pipeline:
    argv = [f"pipeline={name}", f"answer={answer}", "bench.path=P", "root=R"]
    return factory.pipeline(configure("evaluate", argv))


@pytest.mark.parametrize("name", ["biogen_e", "ideprag", "rasrag", "bm25", "srrag"])
def test_with_a_common_answer_a_pipeline_ranks_by_itself_and_answers_as_the_default(
    name: str,
) -> None:
    own, common = pipeline(name, "own"), pipeline(name)
    wanted = pipeline("hybrid_maxsim", "own").answer
    assert common.rank == own.rank
    written = {"anchors"} if name == "srrag" else set()
    assert common.answer == tuple(s for s in wanted if written.isdisjoint(s.writes.names))
    assert "answer" in common.writes.names


def test_what_ranks_nothing_keeps_its_answer_and_another_word_is_refused() -> None:
    assert pipeline("unaided") == pipeline("unaided", "own")
    with pytest.raises(UsageError, match="answer=mine: own or common"):
        pipeline("bm25", "mine")


def test_rows_that_a_root_cannot_run_are_told_apart(sample_root: Path) -> None:
    argv = [f"root={sample_root}", "bench.path=P", "sweep=systems"]
    config = configure("sweep", argv)
    off: dict[str, str] = {}
    rows = configurations(config, Pipeline.ranking, off)
    names = [row.name for row in rows]
    assert {"bm25", "hybrid_maxsim", "biogen_d", "rethinking"} <= set(names)
    assert {"rasrag", "rasrag_soft", "ideprag"} <= set(off)
    assert "forest" in off["rasrag"]
    assert "hypergraph" in off["ideprag"]
    assert not set(names) & set(off)
    with pytest.raises(UsageError, match="configuration 'srrag"):
        configurations(config, Pipeline.ranking)


def test_systems_are_ranked_by_each_metric_and_never_by_a_mean() -> None:
    def row(name: str, **values: float) -> Row:
        metrics = {
            key: Figure(value=value, better="lower" if key == "miss@10" else "higher")
            for key, value in values.items()
        }
        return Row(name=name, bench="b", command="c", metrics=metrics)

    a, b = {"nDCG@10": 0.5, "miss@10": 0.1}, {"nDCG@10": 0.7, "miss@10": 0.2}
    order = ranks([row("a", **a), row("b", **b), row("c")], ["nDCG@10", "miss@10", "absent"])
    assert order == {"nDCG@10": ["b", "a"], "miss@10": ["a", "b"]}
    told = readable_systems(order, {"c": "no stage"}, "nobody")
    assert "nDCG@10, best first: b, a" in told
    assert "off, c: no stage" in told
    assert readable_systems({}, {}, "") == ""
