from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from srrag.corpus.record import RawRecord
from srrag.organize.communities import DetectCommunities
from srrag.organize.entities import MergeEntities
from srrag.runner.build import BuildJob
from srrag.runner.local import LocalRunner
from srrag.schema import TRIPLES
from srrag.stage import Plan, Stage
from srrag.step import Function, Place, Step
from srrag.store import Store
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


def build(root: Path, documents: Sequence[Sequence[str]], **settings: Any) -> dict[str, Any]:
    plan = Plan(
        "raw",
        "source",
        [
            Stage("triples", ReadFacts(), ("raw",)),
            Stage("entities", MergeEntities(), ("triples",)),
            Stage("communities", DetectCommunities(), ("entities",)),
        ],
    )
    records = [
        RawRecord(f"{n}", f"{n}", "text", json.dumps(heads).encode())
        for n, heads in enumerate(documents)
    ]
    job = BuildJob(Store(root), plan, LocalRunner(), max_failed_share=1.0, **settings)
    return job.run(records, Place())


def tables(root: Path) -> dict[str, bytes]:
    artifacts = Store(root).artifacts("default")
    files = [artifacts["entities"] / f"{name}.parquet" for name in ("entities", "edges")]
    files.append(artifacts["communities"] / "communities.parquet")
    return {path.name: path.read_bytes() for path in files}


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
    assert build(root, DOCUMENTS)["reused"] == {"triples": 1, "entities": 1, "communities": 1}
