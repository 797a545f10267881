"""The findings of a root, gathered for a question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.errors import UsageError
from srrag.core.ontology import DOCUMENT, HAS_ATTRIBUTE
from srrag.core.standing import COPY, Standings
from srrag.expand.anchor_rules import rule_anchors
from srrag.model.embed import few_texts, load
from srrag.model.encoder import Encoder
from srrag.reading.abbreviations import read_abbreviations
from srrag.storage.store import Store
from srrag.synthesis.names import NameMatcher
from srrag.synthesis.stated import stated
from srrag.synthesis.studies import StudyPaper
from srrag.synthesis.synthesis import Synthesis, synthesise

_ASKED = (("I", "treatment"), ("O", "outcome"))
_OTHER_NAME = "other_name"
_OF_THE_STUDY = (DOCUMENT, "Population")


def synthesis_of(store: Store, build: str, question: str) -> Synthesis:
    """Say what the findings of a build say to a question.

    Raises UsageError for a root without a build.
    """
    pointer = store.read_pointer(build)["stages"]
    folders = store.artifacts(build)
    (parts,) = rule_anchors([question])
    findings = _rows(store, pointer, "findings")
    if not findings and not (parts["I"] and parts["O"]):
        read = "; ".join(f"{name}: {', '.join(parts[part]) or 'none'}" for part, name in _ASKED)
        cure = "name both, or build with a model (model=…)"
        raise UsageError(f"root={store} holds no findings; rules read {read}: {cure}")
    wanted = {row["doc_id"] for row in findings}
    documents = [
        row
        for row in _rows(
            store, pointer, "documents", ["doc_id", "title", "text", "grade", "year", "pmid"]
        )
        if row["doc_id"] in wanted or not findings
    ]
    standings = Standings(folders.get("standing"))
    ids = [row["doc_id"] for row in documents]
    states, _ = standings.find(ids)
    told, others = _told(store, pointer, [row["doc_id"] for row in documents])
    papers = {
        row["doc_id"]: StudyPaper(
            row["doc_id"], row["title"], row["year"], row["grade"], row["pmid"], status,
            row["text"], told=told.get(row["doc_id"], {}),
        )
        for row, status in zip(documents, states, strict=True)
        if status != COPY
    }  # fmt: skip
    long = read_abbreviations(folders["abbreviations"]) if "abbreviations" in folders else {}
    with few_texts():
        names = NameMatcher(long, others, load(Encoder()).encode)
        if findings:
            return synthesise(question, parts, findings, papers, names, "a model")
        made = list(stated(papers.values(), parts, names))
        return synthesise(question, parts, made, papers, names, "rules")


def _rows(
    store: Store, pointer: dict[str, Any], stage: str, columns: list[str] | None = None
) -> list[dict[str, Any]]:
    return [row for part in _parts(store, pointer, stage, columns) for row in part.to_pylist()]


def _parts(
    store: Store, pointer: dict[str, Any], stage: str, columns: list[str] | None = None
) -> Iterator[pa.Table]:
    if stage in pointer:
        entry = pointer[stage]
        for part in entry["parts"]:
            yield store.read_part(stage, entry["fingerprint"], part, columns)


def _told(
    store: Store, pointer: dict[str, Any], wanted: Iterable[str]
) -> tuple[dict[str, dict[str, tuple[str, ...]]], dict[str, set[str]]]:
    """What papers say of their studies, by attribute, and the other names of names."""
    told: dict[str, dict[str, tuple[str, ...]]] = {}
    others: dict[str, set[str]] = {}
    columns = ["doc_id", "head", "head_type", "relation", "tail", "tail_type", "kind", "reject"]
    ids = pa.array(sorted(wanted), pa.string())
    for part in _parts(store, pointer, "triples", columns):
        own = part.filter(pc.and_(part["reject"].is_null(), pc.is_in(part["doc_id"], ids)))
        for row in own.to_pylist():
            of = told.setdefault(row["doc_id"], {})
            attribute = row["tail_type"]
            if row["relation"] == HAS_ATTRIBUTE and attribute == _OTHER_NAME:
                others.setdefault(row["head"], set()).add(row["tail"])
            elif row["relation"] == HAS_ATTRIBUTE:
                if row["head_type"] in _OF_THE_STUDY or attribute in (
                    "dose",
                    "duration",
                    "frequency",
                ):
                    of[attribute] = tuple(dict.fromkeys((*of.get(attribute, ()), row["tail"])))
            elif row["relation"] == "has_population":
                of["people"] = tuple(dict.fromkeys((*of.get("people", ()), row["tail"])))
    return told, others
