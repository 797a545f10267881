"""A tiny root with every index, and the commands whose kills are tried on it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from srrag.core import kinds
from srrag.core.schema import VECTORS
from srrag.core.spec import file_sha256
from srrag.core.stage import Plan, Stage
from srrag.core.step import Function, Place, Step
from srrag.engine.log.entry import Entry
from srrag.engine.log.journal import Journal
from srrag.engine.log.recover import recover
from srrag.index.dense import BuildDenseIndex
from srrag.index.sparse import BuildSparseIndex
from srrag.index.tokens import BuildTokenIndex
from srrag.index.units import BuildUnits
from srrag.lab.report.drilldown import pack
from srrag.runner.build import BuildJob
from srrag.runner.deletion.delete import ForgetJob
from srrag.runner.deletion.vacuum import prune
from srrag.runner.runner import LocalRunner
from srrag.storage.store import Store
from tests.unit.runner.forgetting import PLAIN, SECRET, TREATMENTS, document_of, write_papers

WIDTH = 16


@dataclass(frozen=True, kw_only=True)
class HashVectors(Step):
    """Windows → vectors of unit length that are drawn by their text, and two tokens each."""

    reads: ClassVar[tuple[str, ...]] = ("unit_id", "text")
    writes: ClassVar[pa.Schema] = VECTORS
    keeps_rows: ClassVar[bool] = True

    def open(self, at: Place) -> Function:
        def run(batch: pa.Table) -> pa.Table:
            rows = [
                {
                    "unit_id": row["unit_id"], "text_key": 0, "cut": False, "reject": None,
                    "vector": vector_of(row["text"]), "tokens": tokens_of(row["text"]),
                    "token_scales": np.full(2, 1 / 127, np.float16).tobytes(),
                }
                for row in batch.to_pylist()
            ]  # fmt: skip
            return pa.Table.from_pylist(rows, schema=VECTORS)

        return run


def vector_of(text: str) -> bytes:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    vector = np.random.default_rng(seed).standard_normal(WIDTH).astype(np.float32)
    return bytes((vector / np.linalg.norm(vector)).astype(np.float32).tobytes())


def tokens_of(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=2 * WIDTH).digest()


@cache
def plain_plan(papers: Path, *options: str) -> tuple[Plan, object]:
    from srrag.config import factory
    from srrag.config.compose import configure

    given = ["corpus=folder", f"corpus.path={papers}", "root=/nowhere", *PLAIN, *options]
    config = configure("build", given)
    reader = factory.make(config["corpus"], "corpus")
    return factory.plan(config, reader), reader


def plan_of(papers: Path, *options: str) -> tuple[Plan, object]:
    """The stages that need no encoder, and every index on vectors of a toy one."""
    plan, reader = plain_plan(papers, *options)
    if options:  # another configuration beside it: its tables alone
        return plan, reader
    stages = [
        *plan.stages,
        Stage("vectors", HashVectors(), ("chunks",)),
        Stage("units", BuildUnits(windows="chunks"), ("chunks", "documents")),
        Stage("dense", BuildDenseIndex(windows="chunks"), ("vectors", "chunks")),
        Stage("tokens", BuildTokenIndex(), ("vectors",)),
        Stage("sparse", BuildSparseIndex(windows="chunks"), ("chunks",)),
    ]
    return Plan(plan.source, plan.fingerprint(plan.source), stages), reader


def build(root: Path, papers: Path, *options: str, name: str = "default", **more: bool) -> None:
    plan, reader = plan_of(papers, *options)
    job = BuildJob(Store(root), plan, LocalRunner(), name=name, **more)
    job.run(reader.scan(), Place(threads=1))  # type: ignore[attr-defined]


COARSE = ("+stages.chunks.run.target_tokens=40",)


def make_base(folder: Path) -> None:
    """A root of two versions, two configurations, answers, outputs and a log; and its corpora."""
    root, papers = folder / "root", folder / "papers"
    folder.mkdir(parents=True)
    write_papers(papers)
    few = write_papers(folder / "few", [*TREATMENTS[:1], SECRET])
    build(root, few)
    build(root, papers)
    build(root, papers, *COARSE, name="coarse")
    build(root, few, *COARSE, name="gone")
    (root / "builds" / "gone.json").unlink()
    document = document_of(root, f"{SECRET}.md")
    other = document_of(root, f"{TREATMENTS[0]}.md")
    _questions(root, {"one": (document, f"Does {SECRET} help?"), "two": (other, "And rest?")})
    export = root / "jobs" / "export" / "graph.graphml"
    export.parent.mkdir(parents=True)
    export.write_text(f"<node>{SECRET}</node>")
    page = root / "jobs" / "sweep" / "report" / "report.html"
    page.parent.mkdir(parents=True)
    page.write_text(f"<script>{pack({'doc_id': document, 'text': SECRET})}</script>")
    feedback = root / "jobs" / "serve" / "feedback.jsonl"
    feedback.parent.mkdir(parents=True)
    feedback.write_text(json.dumps({"question": f"Is {SECRET} safe?"}) + "\n")
    write_log(root / "completions")
    shrunk = write_papers(folder / "shrunk", [*TREATMENTS[1:3], "acupuncture"])
    assert shrunk.is_dir()
    (folder / "told.json").write_text(json.dumps(_told(root, document)), "utf-8")


def _questions(root: Path, asked: dict[str, tuple[str, str]]) -> None:
    for stage in ("questions", "answers-SearchSparse-0123abcd"):
        folder = root / "stages" / stage / "f"
        folder.mkdir(parents=True)
        for name, (document, text) in asked.items():
            table = pa.table({"text": [text], "evidence": [[{"doc_id": document}]]})
            if stage == "questions":
                table = table.select(["text"])
            pq.write_table(table, folder / f"part-{name}.parquet")
            sha256 = file_sha256(folder / f"part-{name}.parquet")
            (folder / f"part-{name}.json").write_text(json.dumps({"sha256": sha256}))


def write_log(folder: Path) -> None:
    """A log of sealed parts, one with faults, and of a journal that no run has sealed."""
    for start in range(0, 12, 3):
        journal = Journal(folder)
        journal.append([_entry(start), _entry(start + 1), _entry(start + 2, fault="empty")])
        journal.close()
    journal = Journal(folder)
    journal.append([_entry(20)])
    journal._leave()


def _entry(number: int, fault: str = "") -> Entry:
    key = hashlib.blake2b(str(number).encode(), digest_size=16).digest()
    return Entry(key, f"answer {number} on {SECRET}", fault, tokens_in=7, tokens_out=3)


def _told(root: Path, document: str) -> dict[str, list[str]]:
    """What has to be gone: words, ids, and vectors and tokens as hex."""
    store, found = Store(root), {"words": [SECRET], "ids": [document], "bytes": []}
    for name in ("default", "coarse"):
        stages = store.read_pointer(name)["stages"]
        for part in stages["chunks"]["parts"]:
            table = store.read_part("chunks", stages["chunks"]["fingerprint"], part)
            for row in table.to_pylist():
                if row["doc_id"] == document:
                    found["ids"].append(row["unit_id"])
                    found["bytes"] += [each.hex() for each in _bytes_of(row["text"])]
    assert len(found["ids"]) > 2
    return found


def _bytes_of(text: str) -> Sequence[bytes]:
    return vector_of(text), tokens_of(text)


def run_forget(folder: Path) -> None:
    told = json.loads((folder / "told.json").read_text("utf-8"))
    job = ForgetJob(Store(folder / "root"), LocalRunner())
    job.run([told["ids"][0]], [], Place(threads=1))


def run_forget_anew(folder: Path) -> None:
    """As what a damaged note says: delete it, and forget the same documents again."""
    (folder / "root" / "forgetting.json").unlink(missing_ok=True)
    run_forget(folder)


def run_prune(folder: Path) -> None:
    store = Store(folder / "root")
    with store.lock():
        prune(store)


def run_build(folder: Path) -> None:
    """An update by a corpus that lost two documents and won one."""
    build(folder / "root", folder / "shrunk")


def run_log(folder: Path) -> None:
    """Journals are sealed, and parts become few."""
    recover(folder / "root" / "completions", settle_s=0, max_parts=2)


def run_organize(folder: Path) -> None:
    """The communities of a graph of another tool, and of a larger one in their place."""
    import jobs.organize
    from srrag.config.compose import configure

    for count in (2, 3):
        nodes = [{"id": name, "name": name, "label": "entity"} for name in TREATMENTS[:count]]
        graph = {"nodes": nodes, "edges": [[TREATMENTS[0], "helps as", TREATMENTS[1]]]}
        (folder / "graph.json").write_text(json.dumps(graph), "utf-8")
        given = [f"graph.path={folder / 'graph.json'}", f"root={folder / 'root'}"]
        jobs.organize.run(configure("organize", given))


COMMANDS = {
    "forget": run_forget,
    "anew": run_forget_anew,
    "prune": run_prune,
    "build": run_build,
    "log": run_log,
    "organize": run_organize,
}


# Known in this process as an installed package would be: manifests name its steps.
kinds.extensions = lambda: {"HashVectors": f"{__name__}:HashVectors"}  # type: ignore[assignment]
