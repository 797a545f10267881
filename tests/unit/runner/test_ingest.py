from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from srrag.config import factory
from srrag.config.compose import configure
from srrag.core.stage import Plan, Stage
from srrag.core.step import Place
from srrag.corpus.chunk import ChunkBySections
from srrag.corpus.parse import ParseDocuments
from srrag.corpus.record import RawRecord
from srrag.engine.base import Reply, Session
from srrag.extract.extract_documents import ExtractDocuments
from srrag.graph.communities import DetectCommunities
from srrag.graph.entities import MergeEntities
from srrag.graph.knowledge_tree import BuildKnowledgeTree
from srrag.graph.name_vectors import EncodeNames
from srrag.llm.completion import NOT_ASKED, Account, Completion, Prompt, Rules
from srrag.runner import ingest as module
from srrag.runner.build import BuildJob
from srrag.runner.estimate import CountingClient, EstimateJob, readable
from srrag.runner.ingest import ingest
from srrag.runner.runner import LocalRunner
from srrag.storage.store import Store
from tests.engines import AskNumbers, ScriptedSession, ToyModel, prompt
from tests.toys import records
from tests.unit.runner.test_update import ReadFacts


def ids(store: Store, parts: list[str]) -> list[str]:
    return [
        row for part in parts for row in store.read_part("raw", "f", part)["source_id"].to_pylist()
    ]


def test_segments_are_bounded_and_named_by_content(tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = ingest(store, "f", records(range(1200)), [])
    assert len(parts) == 3
    assert sorted(map(int, ids(store, parts))) == list(range(1200))
    assert ingest(Store(tmp_path / "again"), "f", records(range(1200)), []) == parts


def test_one_more_document_is_one_more_segment(tmp_path: Path) -> None:
    store = Store(tmp_path)
    before = ingest(store, "f", records(range(1200)), [])
    after = ingest(store, "f", records(range(1201)), before)
    assert set(before) < set(after)
    assert len(after) == len(before) + 1


def test_a_lost_document_dissolves_its_segment_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    before = ingest(store, "f", records(range(1200)), [])
    fewer = [record for record in records(range(1200)) if record.source_id != "7"]
    after = ingest(store, "f", fewer, before)
    assert len(set(after) & set(before)) == 2
    assert sorted(map(int, ids(store, after))) == [n for n in range(1200) if n != 7]


def test_a_segment_is_bounded_in_bytes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    big = [RawRecord("s", str(n), "text", b"x" * (module.SEGMENT_BYTES // 2)) for n in range(3)]
    assert len(ingest(store, "f", big, [])) == 2


def test_nothing_in_nothing_out(tmp_path: Path) -> None:
    assert ingest(Store(tmp_path), "f", [], []) == []


UNPRICED = ToyModel(tokenizer="utf8")
MODEL = ToyModel(tokenizer="utf8", usd_per_mtok_in=1.0, usd_per_mtok_out=10.0)


def plan_of(engine: ToyModel | Rules) -> Plan:
    """A plan whose tree alone asks."""
    stages = [
        Stage("triples", ReadFacts(), ("raw",)),
        Stage("entities", MergeEntities(), ("triples",)),
        Stage("names", EncodeNames(), ("entities",)),
        Stage("communities", DetectCommunities(), ("entities", "names")),
        Stage(
            "tree",
            BuildKnowledgeTree(engine=engine, units="triples"),
            ("entities", "communities", "triples"),
        ),
    ]
    return Plan("raw", "source", stages)


def test_a_build_that_asks_about_its_own_results_is_named_as_not_counted(tmp_path: Path) -> None:
    found = EstimateJob(Store(tmp_path), plan_of(MODEL)).run([], Place(root=tmp_path))
    assert (found["not_counted"], found["calls"], found["stages"]) == (["tree"], 0, {})
    assert "not counted, though they ask a model: tree" in readable(found)


def test_without_a_model_there_is_nothing_to_estimate(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the engine is 'rules', which calls nothing"):
        EstimateJob(Store(tmp_path), plan_of(Rules())).run([], Place(root=tmp_path))


def test_what_the_rules_would_answer_determines_later_prompts(tmp_path: Path) -> None:
    """Three sections that can be grouped in several ways, and a document to extract from."""
    pico = factory.make(configure("build", [f"root={tmp_path}"])["schema"], "schema")
    stages = [
        Stage("parsed", ParseDocuments(), ("raw",)),
        Stage(
            "chunks", ChunkBySections(engine=MODEL, max_tokens=100, target_tokens=11), ("parsed",)
        ),
        Stage("extracts", ExtractDocuments(engine=MODEL, ontology=pico), ("parsed",)),
    ]
    body = "\n\n".join(
        f"## Part {n}\n\nParagraph {n} on pain.\n\nOn exercise {n}.\n\nOn rest." for n in range(3)
    )
    records = [RawRecord("a", "a", "markdown", f"# Title\n\n{body}".encode())]
    job = EstimateJob(Store(tmp_path), Plan("raw", "source", stages))
    found = job.run(records, Place(root=tmp_path))
    chunks, extracts = found["stages"]["chunks"], found["stages"]["extracts"]
    assert (chunks["calls"], extracts["calls"], found["calls"]) == (3, 1, 4)
    assert extracts["tokens_in"] > chunks["tokens_in"] > chunks["tokens_out"] > 0
    usd = (found["tokens_in"] + 10 * found["tokens_out"]) / 1e6
    assert found["usd"] == pytest.approx(usd, abs=1e-4)
    assert not list(tmp_path.iterdir()), "an estimate writes nothing"


@dataclass(frozen=True, kw_only=True)
class Babbling(ToyModel):
    """Never answers in the schema."""

    async def open(self) -> Session:
        return ScriptedSession(lambda call: Reply("no JSON", tokens_in=10, tokens_out=5))


@dataclass(frozen=True, kw_only=True)
class AskRecords(AskNumbers):
    """Asks a word for each record."""

    reads: ClassVar[tuple[str, ...]] = ("raw_id",)

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        return [prompt(f"{name}.", row) for row, name in enumerate(batch["raw_id"].to_pylist())]


@dataclass(frozen=True, kw_only=True)
class AskAgain(AskRecords):
    """Asks another word for each."""

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        return [replace(each, user=f"More: {each.user}") for each in super().prompts(batch)]


def test_what_is_tried_again_is_counted(tmp_path: Path) -> None:
    engine = Babbling(tokenizer="utf8", usd_per_mtok_in=1.0, usd_per_mtok_out=10.0)
    stages = [
        Stage("asked", AskRecords(engine=engine), ("raw",)),
        Stage("more", AskAgain(engine=engine), ("asked",)),
    ]
    plan, at = Plan("raw", "source", stages), Place(root=tmp_path)
    store = Store(tmp_path)
    BuildJob(store, plan, LocalRunner(), max_failed_share=1.0).run(records(range(4)), at)
    job = EstimateJob(store, plan)
    assert job.run(records(range(4)), at)["calls"] == 0, "all parts stand"
    again = replace(at, account=Account(fresh=True))
    found = job.run(records(range(4)), again)
    assert {name: row["calls"] for name, row in found["stages"].items()} == {"asked": 4, "more": 4}
    assert found["stages"]["asked"]["tokens_out"] > 0


def test_a_prompt_is_counted_once_by_clients_that_share_what_they_saw(tmp_path: Path) -> None:
    seen: set[bytes] = set()
    first, second = (CountingClient(MODEL, tmp_path, seen=seen) for _ in range(2))
    asked = [prompt("one"), prompt("two"), prompt("one")]
    unknown = first.complete(asked, 0, [True] * 3)
    assert [each.fault for each in unknown] == [NOT_ASKED] * 3
    texts = ['{"word": "a"}', "no JSON", '{"word": "a"}']
    answers = first.stand_in(asked, [Completion()] * 3, texts)
    assert [each.fault.kind if each.fault else each.value.word for each in answers] == [
        "a", "invalid_json", "a",
    ]  # fmt: skip
    second.complete([prompt("one"), prompt("three")], 0, [True] * 2)
    assert (first.found.prompts, first.found.calls, second.found.calls) == (3, 2, 1)
    assert first.found.tokens_out == 4 + 2, "four bytes a token, the same answer once"


def test_calls_without_a_known_price_have_none(tmp_path: Path) -> None:
    plan = Plan("raw", "source", [Stage("asked", AskRecords(engine=UNPRICED), ("raw",))])
    found = EstimateJob(Store(tmp_path), plan).run(records(range(4)), Place(root=tmp_path))
    assert (found["calls"], found["usd"], found["stages"]["asked"]["usd"]) == (4, None, None)
    assert readable(found).splitlines()[1].split()[-2:] == ["–", "–"]
    none = EstimateJob(Store(tmp_path), plan).run([], Place(root=tmp_path))
    assert (none["calls"], none["usd"]) == (0, 0.0), "no call costs nothing"


def test_an_estimate_needs_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"engine\.tokenizer: an estimate needs"):
        CountingClient(ToyModel(), tmp_path)
