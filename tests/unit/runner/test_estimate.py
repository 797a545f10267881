"""An estimate counts what steps ask, and foretells what a build will."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srrag.corpus.record import RawRecord
from srrag.graph.communities import DetectCommunities
from srrag.graph.entities import MergeEntities
from srrag.graph.knowledge_tree import BuildKnowledgeTree
from srrag.runner.estimate import EstimateJob, readable
from srrag.stage import Plan, Stage
from srrag.step import Place
from srrag.storage.store import Store
from tests.engines import ToyModel
from tests.unit.runner.test_update import ReadFacts

TREE = BuildKnowledgeTree(
    engine=ToyModel(tokenizer="utf8", usd_per_mtok_in=1.0, usd_per_mtok_out=1.0), units="triples"
)


def estimated(root: Path, tree: BuildKnowledgeTree = TREE) -> tuple[Plan, dict[str, Any]]:
    plan = Plan(
        "raw",
        "source",
        [
            Stage("triples", ReadFacts(), ("raw",)),
            Stage("entities", MergeEntities(), ("triples",)),
            Stage("communities", DetectCommunities(), ("entities",)),
            Stage("tree", tree, ("entities", "communities", "triples")),
        ],
    )
    bodies = [[f"drug {n}", f"drug {n + 1}"] for n in range(40)]
    records = [
        RawRecord(f"{n}", f"{n}", "text", json.dumps(heads).encode())
        for n, heads in enumerate(bodies)
    ]
    return plan, EstimateJob(Store(root), plan).run(records, Place(root=root))


def test_the_calls_of_a_tree_are_foretold_though_no_step_asks(tmp_path: Path) -> None:
    _, summary = estimated(tmp_path)
    tree = summary["stages"]["tree"]
    assert (summary["documents"], summary["foretold"], summary["not_counted"]) == (40, ["tree"], [])
    assert tree["calls"] == tree["prompts"] == summary["calls"] == 2, "42 entities"
    assert tree["tokens_in"] > tree["tokens_out"] > 0
    assert summary["usd_max"] > summary["usd"] > 0
    assert "tree: foretold" in readable(summary)
    assert not list(tmp_path.iterdir()), "an estimate writes nothing"


def test_a_tree_that_stands_costs_nothing(tmp_path: Path) -> None:
    plan, _ = estimated(tmp_path)
    job = EstimateJob(Store(tmp_path), plan)
    tree = plan.stages[-1]
    assert job._foretold(tree, [], ["part"])[1].calls == 0, "no fact"
    folder = job.store.stage_dir("tree", plan.fingerprint("tree", ["part"]))
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    facts = [ReadFacts.writes.empty_table()]
    assert job._foretold(tree, facts, ["part"])[1].prompts == 0


def test_without_a_model_there_is_nothing_to_estimate(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the engine is 'rules', which calls nothing"):
        estimated(tmp_path, BuildKnowledgeTree())
