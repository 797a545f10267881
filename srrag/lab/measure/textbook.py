"""Scores of rankings on a textbook: both kinds of questions, the chapter found, pairs scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from srrag.core.hits import unpack_hits
from srrag.core.units import Units
from srrag.lab.datasets.textbook import KINDS, TextbookQuestion
from srrag.lab.measure.judgements import Metric
from srrag.lab.measure.retrieval import Qrels, per_question
from srrag.lab.measure.scores import Scores

DEPTH = 10
RETURNED = 16
"""How many of the returned units the precision counts (RASRAG's context precision)."""
PAIRS = Metric("pairs_scored", "a search that counts the pairs it scores", better="lower")


def gold_units(questions: Sequence[TextbookQuestion], units: Units) -> Qrels:
    """Return the relevant units of each question, all of grade 1.

    Of an outcome these are all units of its sections, of a known item those that hold its sentence
    (white space aside). Questions without any are absent: their sentence is cut in two, or their
    section is not in the root.
    """
    windows = _units_of(units, {name for each in questions for name in each.sections})
    found: Qrels = {}
    for each in questions:
        sentence = " ".join(each.sentence.split())
        of_sections = [unit for name in each.sections for unit in windows.get(name, ())]
        held = {unit: 1 for unit, text in of_sections if sentence in text}
        if held:
            found[each.query_id] = held
    return found


def _units_of(units: Units, wanted: set[str]) -> Mapping[str, list[tuple[str, str]]]:
    """The units of each document (by the corpus's own id) with their texts, white space folded."""
    names = units.document_keys(units.units["unit_id"].to_pylist()).to_pylist()
    columns = zip(
        names, units.units["unit_id"].to_pylist(), units.units["text"].to_pylist(), strict=True
    )
    found: dict[str, list[tuple[str, str]]] = {}
    for name, unit_id, text in columns:
        if name in wanted:
            found.setdefault(name, []).append((unit_id, " ".join(text.split())))
    return found


def textbook_scores(
    questions: Sequence[TextbookQuestion],
    gold: Qrels,
    chapters: Mapping[str, str],
    table: pa.Table,
    units: Units,
) -> list[Scores]:
    """Score a ranking by question; one that failed found nothing.

    For each kind: nDCG@10 over units; P@16, the relevant share of the first 16 units that were
    returned (0 if none was); chapter@1, whether the first unit is of the right chapter. Over all:
    the mean of the column `pairs_scored`, where a search writes one.
    """
    run = _run(table)
    failed = len(table["reject"].drop_null())
    firsts = [next(iter(found)) for found in run.values() if found]
    homes = units.document_keys(firsts).to_pylist() if firsts else []
    chapter = {unit: chapters.get(home, "") for unit, home in zip(firsts, homes, strict=True)}
    scores = []
    for kind in KINDS:
        asked = [each for each in questions if each.kind == kind and each.query_id in gold]
        of_kind = sum(each.kind == kind for each in questions)
        ids = sorted(each.query_id for each in asked)
        judged = {query: gold[query] for query in ids}
        values = per_question(judged, run, (DEPTH,)) if ids else {}
        by_id = {each.query_id: each for each in asked}
        precision = [_precision(run.get(query, {}), gold[query]) for query in ids]
        right = [
            float(chapter.get(next(iter(run.get(query, {})), "")) == by_id[query].chapter)
            for query in ids
        ]
        for name, each in (
            (f"nDCG@{DEPTH}", values.get(f"nDCG@{DEPTH}", np.zeros(0))),
            (f"P@{RETURNED}", np.array(precision)),
            ("chapter@1", np.array(right)),
        ):
            metric = Metric(f"{kind}_{name}", "a unit that answers")
            scores.append(Scores.by_question(metric, ids, each, of_kind, failed))
    pairs = _pairs(table)
    known = [q.query_id for q in questions if q.query_id in gold and q.query_id in pairs]
    counts = np.array([pairs[query] for query in known])
    return [*scores, Scores.by_question(PAIRS, known, counts, len(questions), failed)]


def _run(table: pa.Table) -> dict[str, dict[str, float]]:
    """Units by question, scored by rank: ir-measures breaks ties of scores by id."""
    ids, _, offsets = unpack_hits(table["hits"])
    names = ids.to_pylist()
    return {
        query: {
            unit: 1.0 / rank
            for rank, unit in enumerate(names[offsets[row] : offsets[row + 1]], start=1)
        }
        for row, query in enumerate(table["query_id"].to_pylist())
    }


def _precision(found: Mapping[str, float], gold: Mapping[str, int]) -> float:
    first = list(found)[:RETURNED]
    return sum(unit in gold for unit in first) / len(first) if first else 0.0


def _pairs(table: pa.Table) -> dict[str, float]:
    """The pairs that were scored for each question that did not fail."""
    if PAIRS.name not in table.column_names:
        return {}
    columns = (table[name].to_pylist() for name in ("query_id", PAIRS.name, "reject"))
    return {
        query: float(count) for query, count, reject in zip(*columns, strict=True) if reject is None
    }
