"""What the evidence says to a question, across papers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srrag.core.schema import TENDS
from srrag.core.standing import STUDIES, UNKNOWN, joined, kinds_of
from srrag.synthesis.certainty import Domain, PeopleFit, argue, asked_of, fit
from srrag.synthesis.comparisons import (
    Comparison,
    Found,
    Parts,
    Row,
    StudyRow,
    compare,
)
from srrag.synthesis.effects import RATIOS, Effect, PooledEffect, pool
from srrag.synthesis.studies import NameMatcher, StudyPaper

DIFFERING = (
    "people", "dose", "duration", "frequency", "time", "comparator", "outcome", "design", "masking",
    "n", "setting", "mean_age",
)  # fmt: skip


@dataclass(frozen=True)
class Weighed:
    """A comparison with what its studies say together.

    `pooled` holds a kind of effect each that two studies or more share, ratios as logarithms;
    `unpooled` why a study is in none. `directions` count studies by grade. `differs` is what sets
    studies apart that do not agree: a value for each row, by attribute. `fits` hold the people of
    each study beside those of the question, by document.
    """

    comparison: Comparison
    pooled: Mapping[str, PooledEffect]
    pooled_rows: Mapping[str, tuple[StudyRow, ...]]
    unpooled: tuple[tuple[str, str], ...]
    directions: Mapping[str, Mapping[str, int]]
    differs: Mapping[str, tuple[str, ...]]
    fits: Mapping[str, tuple[PeopleFit, ...]]
    certainty: tuple[Domain, ...]

    @property
    def in_short(self) -> dict[str, str]:
        """What stands beside an answer: the `studies`, whether they `agree`, how `sure` it is.

        Each is a sentence or more, or "" where there is nothing to say; certainty is argued, with
        the reason of each domain that was judged.
        """
        return {"studies": _in_numbers(self), "agree": _agree(self), "sure": _argued(self)}


@dataclass(frozen=True)
class Synthesis:
    """What the findings of a library say to a question, with what was not counted and why.

    `standing_known`: the build looked whether its papers are retracted.
    """

    question: str
    parts: Parts
    comparisons: tuple[Weighed, ...]
    found: Found
    read_by: str
    standing_known: bool = True

    def __str__(self) -> str:
        """The synthesis as a terminal shows it."""
        from srrag.synthesis.text import readable  # which renders this class

        return readable(self)

    @property
    def json(self) -> dict[str, Any]:
        """Everything, as `srrag synthesise` prints it."""
        aside = self.found
        return {
            "question": self.question,
            "parts": {part: list(told) for part, told in self.parts.items()},
            "read_by": self.read_by,
            "standing_known": self.standing_known,
            "comparisons": [_comparison_json(each) for each in self.comparisons],
            "announced": [
                _paper_json(each.paper)
                | {
                    "outcome": each.outcome,
                    "times": list(each.times),
                    "sentence": each.quote,
                    "found": each.found,
                }
                for each in aside.announced
            ],
            "not_counted": {
                "background": aside.background,
                "figures_of_one_group": aside.one_group,
                "conclusions_without_result": [
                    {"doc_id": row["doc_id"], "sentence": row["quote"]} for row in aside.concluded
                ],
                "other_people": [_paper_json(paper) for paper in aside.other_people],
                "left_out": [_paper_json(paper) for paper in aside.left_out],
                "no_study_has": list(aside.relaxed),
            },
        }


def synthesise(
    question: str,
    parts: Parts,
    findings: Iterable[Row],
    papers: Mapping[str, StudyPaper],
    names: NameMatcher,
    read_by: str,
    asked: Parts | None = None,
) -> Synthesis:
    """Say what the findings say to a question; `read_by` names who read them.

    `asked` are the parts that the question names, where `parts` come from elsewhere: how near the
    studies are to what was asked is judged by them.
    """
    found = compare(parts, findings, papers, names)
    people, asked = asked_of(question, found.parts), found.parts if asked is None else asked
    weighed = tuple(_weighed(each, people, asked, found, names) for each in found.comparisons)
    known = all(paper.status != UNKNOWN for paper in papers.values())
    return Synthesis(question, found.parts, weighed, found, read_by, known)


def _weighed(
    made: Comparison, people: Mapping[str, str], asked: Parts, found: Found, names: NameMatcher
) -> Weighed:
    shared: dict[str, list[StudyRow]] = {}
    alone: list[tuple[str, str]] = []
    for row in made.rows:
        if isinstance(row.read, Effect):
            shared.setdefault(_scale(row, row.read), []).append(row)
        else:
            alone.append((row.paper.title, row.read.reason))
    pooled = {}
    for kind, rows in shared.items():
        if len(rows) < 2:
            alone += [(row.paper.title, f"the only {kind}") for row in rows]
            continue
        reads = [row.read for row in rows if isinstance(row.read, Effect)]
        pooled[kind] = pool([e.estimate for e in reads], [e.variance for e in reads])
    directions: dict[str, Counter[str]] = {}
    for row in made.rows:
        directions.setdefault(row.counted, Counter())[row.paper.grade or "E"] += 1
    fits = {row.doc_id: fit(people, row, names) for row in (*made.rows, *made.reviews)}
    return Weighed(
        made, pooled, {kind: tuple(shared[kind]) for kind in pooled}, tuple(alone), directions,
        _differences(made.rows), fits,
        argue(made, pooled, fits, asked, found.announced, names),
    )  # fmt: skip


def _scale(row: StudyRow, read: Effect) -> str:
    """What effects have to share to be pooled: the kind, and of differences outcome and unit."""
    if read.kind != "mean difference":
        return read.kind
    return " ".join(
        filter(None, [read.kind, "in", row.outcome, f"({read.unit})" * bool(read.unit)])
    )


def _differences(rows: Sequence[StudyRow]) -> dict[str, tuple[str, ...]]:
    """What sets rows apart, where they do not say the same."""
    if len({row.counted for row in rows}) < 2:
        return {}
    told = {name: tuple(_told(row, name) for row in rows) for name in DIFFERING}
    return {name: each for name, each in told.items() if len({*filter(None, each)}) > 1}


def _told(row: StudyRow, name: str) -> str:
    paper = row.paper
    own = {
        "people": row.people or paper.told.get("people", ())[:1],
        "time": row.times,
        "comparator": row.comparators,
        "outcome": (row.outcome,),
        "design": paper.told.get("study_design", ())[:1] or (STUDIES.get(paper.grade, ""),),
        "n": (f"{paper.people:,}",) if paper.people else (),
    }
    return "; ".join(own.get(name, paper.told.get(name, ())[:2]))


def _in_numbers(each: Weighed) -> str:
    """How many studies of which kind say what; reviews stand apart."""
    counts: Counter[str] = Counter()
    for by_grade in each.directions.values():
        counts.update(by_grade)
    reviews = Counter(row.paper.grade for row in each.comparison.reviews)
    apart = f"{kinds_of(reviews)} not counted." if reviews else ""
    if not counts:
        return apart
    mixed = len(counts) > 1
    said = [
        f"{sum(by.values())} {name}{f' ({kinds_of(by)})' * mixed}"
        for name, by in each.directions.items()
    ]
    if counts.total() == 1:
        said = [*each.directions]
    total = f"{counts.total()} studies" if mixed else kinds_of(counts)
    return " ".join(filter(None, [f"{total}: {', '.join(said)}.", apart]))


def _agree(each: Weighed) -> str:
    if len(each.directions) < 2:
        return ""
    names = ["number of people" if name == "n" else name.replace("_", " ") for name in each.differs]
    apart = f"they differ in {joined(names)}" if names else "what sets them apart is not told"
    return f"The studies do not say the same: {apart}."


def _argued(each: Weighed) -> str:
    """The domains of GRADE by their judgement, with reasons; those not judged are named alone."""
    told: dict[str, list[str]] = {}
    for domain in each.certainty:
        why = "" if domain.judgement == "not judged" else f" ({domain.reason})"
        told.setdefault(domain.judgement, []).append(f"{domain.domain}{why}")
    ways = {"concern": "Of concern", "no concern": "No concern", "not judged": "Not judged"}
    return " ".join(f"{way}: {'; '.join(told[key])}." for key, way in ways.items() if key in told)


def shown_pool(kind: str, made: PooledEffect) -> dict[str, Any]:
    """A pooled effect on the scale that papers print: ratios as ratios."""

    def shown(value: float) -> float:
        return math.exp(value) if kind in RATIOS else value

    def both(ends: tuple[float, float] | None) -> list[float] | None:
        return [shown(end) for end in ends] if ends else None

    return {
        "kind": kind, "studies": made.studies,
        "fixed": shown(made.fixed), "fixed_interval": both(made.fixed_interval),
        "random": shown(made.random), "random_interval": both(made.random_interval),
        "prediction_interval": both(made.prediction),
        "q": made.q, "p": made.p, "i2": made.i2, "tau2": made.tau2,
    }  # fmt: skip


def _paper_json(paper: StudyPaper) -> dict[str, Any]:
    return {
        "doc_id": paper.doc_id, "title": paper.title, "year": paper.year, "grade": paper.grade,
        "pmid": paper.pmid, "status": paper.status,
    }  # fmt: skip


def _row_json(row: StudyRow, fits: Sequence[PeopleFit]) -> dict[str, Any]:
    read = row.read
    return _paper_json(row.paper) | {
        "papers": [paper.doc_id for paper in row.papers],
        "paper_statuses": [paper.status for paper in row.papers],
        "one_study_by": row.one_by,
        "design": _told(row, "design"),
        "n": row.paper.people,
        "people": list(row.people),
        "intervention": list(row.interventions),
        "comparator": list(row.comparators),
        "outcome": row.outcome,
        "times": list(row.times),
        "direction": row.counted,
        "effect": row.effect,
        "interval": row.interval,
        "p": row.p,
        "read": {
            "kind": read.kind, "value": read.value, "interval": [read.low, read.high],
            "level": read.level, "unit": read.unit, "from_counts": read.counted,
            "half_event_added": read.corrected,
        } if isinstance(read, Effect) else None,
        "not_pooled": "" if isinstance(read, Effect) else read.reason,
        "turned": row.turned,
        "part_of_its_people": row.subgroup,
        "fit": [vars(each) for each in fits],
        "contradicted_by": list(row.contrary),
        "conclusion_beyond": row.concluded,
        "sentence": row.quote,
        "places": [list(place) for place in row.places],
        "window": row.window,
        "further_findings": [
            {
                key: each[key]
                for key in ("interventions", "comparators", "outcome", "times", "people",
                            "effect", "interval", "p")
            } | {"direction": TENDS * each["tends"] + each["direction"]}
            for each in row.more
        ],
    }  # fmt: skip


def _comparison_json(each: Weighed) -> dict[str, Any]:
    made = each.comparison
    status = {row.paper.title: row.paper.status for row in made.rows}
    return {
        "interventions": list(made.interventions),
        "against": made.against,
        "outcome": made.outcome,
        "studies": [_row_json(row, each.fits[row.doc_id]) for row in made.rows],
        "reviews": [_row_json(row, each.fits[row.doc_id]) for row in made.reviews],
        "pooled": [shown_pool(kind, pooled) for kind, pooled in each.pooled.items()],
        "not_pooled": [
            {"study": study, "status": status[study], "reason": reason}
            for study, reason in each.unpooled
        ],
        "in_short": each.in_short,
        "directions": {name: dict(counts) for name, counts in each.directions.items()},
        "differs": {name: list(values) for name, values in each.differs.items()},
        "certainty": [
            vars(domain) | {"sentences": list(domain.sentences)} for domain in each.certainty
        ],
    }
