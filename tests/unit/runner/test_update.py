from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from srrag.core.schema import TRIPLES
from srrag.core.stage import Plan, Stage
from srrag.core.step import Function, Place, Step
from srrag.corpus.record import RawRecord
from srrag.graph.communities import DetectCommunities, read_communities
from srrag.graph.encode_names import EncodeNames
from srrag.graph.entities import MergeEntities
from srrag.graph.partition import read_rows
from srrag.runner.build import BuildJob
from srrag.runner.local import LocalRunner
from srrag.runner.relation_builds import RelationBuilds, version_of
from srrag.runner.verify import verify
from srrag.storage.atomic_write import read_json
from srrag.storage.store import Store
from tests.unit.index.tables import row


@dataclass(frozen=True, kw_only=True)
class ReadFacts(Step):
    """RAW → TRIPLES: a body is a list of heads; one named in the file `broken` is an error."""

    reads: ClassVar[tuple[str, ...]] = ("raw_id", "body")
    writes: ClassVar[pa.Schema] = TRIPLES
    keeps_rows: ClassVar[bool] = False

    def open(self, at: Place) -> Function:
        broken = at.root / "broken" if at.root else Path("broken")

        def run(batch: pa.Table) -> pa.Table:
            rows = []
            for raw in batch.to_pylist():
                for head in json.loads(raw["body"]):
                    if broken.exists() and broken.read_text("utf-8") == head:
                        raise RuntimeError(head)
                    rows.append(
                        row(
                            TRIPLES, kind="relation", head=head, head_type="Drug",
                            relation="treats", tail="pain", tail_type="Outcome",
                            doc_id=raw["raw_id"], unit_id=raw["raw_id"],
                        )
                    )  # fmt: skip
            return pa.Table.from_pylist(rows, schema=TRIPLES)

        return run


def plan_of(communities: DetectCommunities) -> Plan:
    stages = [
        Stage("triples", ReadFacts(), ("raw",)),
        Stage("entities", MergeEntities(), ("triples",)),
        Stage("names", EncodeNames(), ("entities",)),
        Stage("communities", communities, ("entities", "names")),
    ]
    return Plan("raw", "source", stages)


def build(
    root: Path,
    documents: Sequence[Sequence[str]],
    communities: DetectCommunities | None = None,
    **settings: Any,
) -> dict[str, Any]:
    plan = plan_of(communities or DetectCommunities())
    records = [
        RawRecord(f"{n}", f"{n}", "text", json.dumps(heads).encode())
        for n, heads in enumerate(documents)
    ]
    job = BuildJob(Store(root), plan, LocalRunner(), max_failed_share=1.0, **settings)
    return job.run(records, Place())


def tables(root: Path) -> dict[str, list[dict[str, Any]]]:
    artifacts = Store(root).artifacts("default")
    files = [artifacts["entities"] / f"{name}.parquet" for name in ("entities", "edges")]
    found = {path.name: read_rows(path).to_pylist() for path in files}
    return {**found, "communities": read_communities(artifacts["communities"]).to_pylist()}


DOCUMENTS = [["aspirin"], ["Aspirin", "rest"], ["ibuprofen"]]


@pytest.mark.parametrize(
    ("before", "after"),
    [(DOCUMENTS[:1], DOCUMENTS), (DOCUMENTS, DOCUMENTS[:2]), (DOCUMENTS[:2], DOCUMENTS[1:])],
)
def test_a_grown_or_shrunk_corpus_has_the_tables_of_one_built_at_once(
    tmp_path: Path, before: list[list[str]], after: list[list[str]]
) -> None:
    build(tmp_path / "grown", before)
    build(tmp_path / "grown", after)
    build(tmp_path / "once", after)
    assert tables(tmp_path / "grown") == tables(tmp_path / "once")


def test_parts_made_again_under_their_name_reach_the_builds(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    Store(root).create()
    (root / "broken").write_text("ibuprofen", "utf-8")
    assert build(root, DOCUMENTS)["figures"]["entities"]["facts"] == 3
    (root / "broken").unlink()
    again = build(root, DOCUMENTS, retry_failed=True)
    assert again["figures"]["entities"]["facts"] == 4
    assert again["reused"]["communities"] == 0
    build(tmp_path / "once", DOCUMENTS)
    assert tables(root) == tables(tmp_path / "once")
    assert build(root, DOCUMENTS)["reused"] == {
        "triples": 1, "entities": 1, "names": 1, "communities": 1
    }  # fmt: skip


GOES_ON = DetectCommunities(max_drift=1.0)
"""Never sees the whole graph again, be it as small as these."""


def manifest(root: Path, stage: str) -> dict[str, Any]:
    found: dict[str, Any] = read_json(Store(root).artifacts("default")[stage] / "manifest.json")
    return found


def test_an_update_names_the_version_that_it_goes_on_from(tmp_path: Path) -> None:
    root = tmp_path / "grown"
    build(root, DOCUMENTS[:2], GOES_ON)
    assert manifest(root, "communities")["former"] is None
    before = version_of(Store(root).artifacts("default")["communities"])
    build(root, DOCUMENTS, GOES_ON)
    assert manifest(root, "communities")["former"] == before
    assert manifest(root, "entities")["former"] is None, "they equal those of a build from nothing"
    assert build(root, DOCUMENTS, GOES_ON)["reused"]["communities"] == 1
    assert verify(Store(root), "default")["problems"] == []


def test_while_documents_are_forgotten_no_version_before_has_a_part(tmp_path: Path) -> None:
    root = tmp_path / "root"
    build(root, DOCUMENTS, GOES_ON)
    (root / "forgetting.json").write_text("{}", "utf-8")
    build(root, DOCUMENTS[:2], GOES_ON)
    assert manifest(root, "communities")["former"] is None
    build(tmp_path / "never", DOCUMENTS[:2], GOES_ON)
    assert tables(root) == tables(tmp_path / "never")


def test_what_went_on_from_another_version_is_made_anew_while_forgetting(tmp_path: Path) -> None:
    """The version before may have held what is forgotten, though this one does not."""
    root = tmp_path / "root"
    build(root, DOCUMENTS, GOES_ON)
    build(root, DOCUMENTS[:2], GOES_ON)
    assert manifest(root, "communities")["former"] is not None
    (root / "forgetting.json").write_text("{}", "utf-8")
    assert build(root, DOCUMENTS[:2], GOES_ON)["reused"]["communities"] == 0
    assert manifest(root, "communities")["former"] is None


def test_without_update_it_is_made_from_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    build(root, DOCUMENTS[:2], GOES_ON)
    build(root, DOCUMENTS, GOES_ON)
    parts = Store(root).read_pointer("default")["stages"]["raw"]["parts"]
    plan = plan_of(GOES_ON)
    folder = Store(root).artifacts("default")["communities"]
    grown = version_of(folder)
    again = RelationBuilds(Store(root), plan, "default", LocalRunner(), tuple(parts), update=False)
    figures, reused = again.run(plan.builds[-1], Place())
    assert not reused and "drift" not in figures
    assert manifest(root, "communities")["former"] is None
    assert version_of(folder) != grown, "the past is part of what a version is"
    assert again.run(plan.builds[-1], Place())[1]
