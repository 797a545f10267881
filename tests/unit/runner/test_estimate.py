"""An estimate counts what steps ask, and foretells what a build will."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srrag.config import factory
from srrag.config.compose import configure
from srrag.corpus.chunk import ChunkBySections
from srrag.corpus.parse import ParseDocuments
from srrag.corpus.record import RawRecord
from srrag.extract.triples import ExtractTriples
from srrag.graph.communities import DetectCommunities
from srrag.graph.encode_names import EncodeNames
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
            Stage("names", EncodeNames(), ("entities",)),
            Stage("communities", DetectCommunities(), ("entities", "names")),
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


def test_the_bound_holds_every_try_of_the_most_chunks(tmp_path: Path) -> None:
    """Six paragraphs: the rules make one chunk of them, a model may make six."""
    engine = ToyModel(tokenizer="utf8", usd_per_mtok_in=1.0, usd_per_mtok_out=1.0)
    pico = factory.make(configure("build", [f"root={tmp_path}"])["schema"], "schema")
    extract = ExtractTriples(engine=engine, ontology=pico, max_tokens=1000)
    stages = [
        Stage("parsed", ParseDocuments(), ("raw",)),
        Stage("chunks", ChunkBySections(engine=engine, max_tokens=100), ("parsed",)),
        Stage("triples", extract, ("chunks",)),
    ]
    plan = Plan("raw", "source", stages)
    text = "# Title\n\n" + "\n\n".join(f"Paragraph {n} on pain and exercise." for n in range(6))
    records = [RawRecord("a", "a", "markdown", text.encode())]
    told = EstimateJob(Store(tmp_path), plan).run(records, Place(root=tmp_path))
    chunks, triples = told["stages"]["chunks"], told["stages"]["triples"]
    assert (chunks["calls"], chunks["calls_max"]) == (1, 2)
    assert (triples["calls"], triples["calls_max"]) == (1, 12)
    assert triples["tokens_out_max"] == 12 * 1000
    assert triples["tokens_in_max"] > 6 * (triples["tokens_in"] + 1000)
    assert told["usd_max"] == pytest.approx(
        (told["tokens_in_max"] + told["tokens_out_max"]) / 1e6, abs=1e-4
    )
