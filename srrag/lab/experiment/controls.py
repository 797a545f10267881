"""Judge control systems beside the others, and name the metrics that fail to rank them lower."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.algo.entailment import sentences
from srrag.core.errors import UsageError
from srrag.core.schema import NO_CHOICE, sentence_row
from srrag.core.spec import content_id
from srrag.core.step import Step
from srrag.lab.experiment.judging import judge, judged_in
from srrag.lab.experiment.terms import Terms
from srrag.lab.measure.judgements import CASES, Case
from srrag.lab.measure.judging_steps import metrics_of
from srrag.lab.measure.scores import Scores, only, score

TOP = 3
"""Pieces of evidence that the control `top3` quotes whole."""
ABSTAINS = "The evidence does not answer this question."
CEILING = "gold answer"
SHUFFLED = "shuffled citations"

Sentence = dict[str, Any]
Control = Callable[[Case, Case], Mapping[str, Any]]
"""Makes the changed columns of a case; the second case is another question's."""


def echo(case: Case, other: Case) -> Mapping[str, Any]:
    """Repeat the question, and cite the first piece of evidence."""
    first = [item["evidence_id"] for item in case["evidence"][:1]]
    return _said([sentence_row(case["text"], first)])


def dump(case: Case, other: Case) -> Mapping[str, Any]:
    """Quote all evidence, each sentence with its source."""
    return _said(_quoted(case["evidence"]))


def top3(case: Case, other: Case) -> Mapping[str, Any]:
    """Quote the first TOP pieces of evidence, each sentence with its source."""
    return _said(_quoted(case["evidence"][:TOP]))


def shuffled(case: Case, other: Case) -> Mapping[str, Any]:
    """Keep the answer, but let each sentence cite the evidence after the piece that it cited."""
    names = [item["evidence_id"] for item in case["evidence"]]
    after = dict(zip(names, [*names[1:], *names[:1]], strict=True))
    changed = [
        {**each, "evidence_ids": [after.get(name, name) for name in each["evidence_ids"]]}
        for each in case["sentences"]
    ]
    return {"sentences": changed}


def random_window(case: Case, other: Case) -> Mapping[str, Any]:
    """Quote the first piece of another question's evidence, which is shown as this one's."""
    return {**_said(_quoted(other["evidence"][:1])), "evidence": other["evidence"]}


def abstain(case: Case, other: Case) -> Mapping[str, Any]:
    """Always say that the evidence does not suffice, and choose nothing."""
    chosen = {"chooses": True, "choice": NO_CHOICE}
    return {"answer": ABSTAINS, "sentences": [], "abstained": True, "missing": "", **chosen}


def gold_answer(case: Case, other: Case) -> Mapping[str, Any]:
    """State the right option, the ideal answer and every nugget: the best that the gold allows."""
    texts = [case["ideal_answer"]] if case["ideal_answer"] else []
    texts += [nugget["text"] for nugget in case["nuggets"]]
    texts += [value for value in case["picot"].values() if value]
    option = [f"{case['gold_option'].capitalize()}."] if case["gold_option"] else []
    said = _said([sentence_row(text, []) for text in [*option, *texts]])
    if case["gold_option"] in case["options"]:
        said |= {"chooses": True, "choice": case["options"].index(case["gold_option"])}
    return said


CONTROLS: Mapping[str, Control] = {
    "echo": echo,
    "dump": dump,
    "top-3 verbatim": top3,
    SHUFFLED: shuffled,
    "random window": random_window,
    "always abstain": abstain,
    CEILING: gold_answer,
}


def control_cases(cases: pa.Table) -> dict[str, pa.Table]:
    """Return the CASES of each control, made of a system's: same questions, gold and evidence.

    The other question of a case is the next one by hash.
    """
    rows: list[Case] = cases.to_pylist()
    order = sorted(range(len(rows)), key=lambda n: content_id("control", rows[n]["query_id"]))
    others = dict(zip(order, [*order[1:], *order[:1]], strict=True))
    return {
        name: pa.Table.from_pylist(
            [{**row, **make(row, rows[others[n]])} for n, row in enumerate(rows)], schema=CASES
        )
        for name, make in CONTROLS.items()
    }


def _said(given: Sequence[Sentence]) -> dict[str, Any]:
    """Columns of an answer of these sentences; missing where there are none.

    It has no `choice` column: its choice is read from its text.
    """
    text = " ".join(each["text"] for each in given)
    return {
        "answer": text,
        "sentences": list(given),
        "abstained": False,
        "missing": "" if text.strip() else "empty",
        "chooses": False,
        "choice": NO_CHOICE,
    }


def _quoted(evidence: Sequence[Mapping[str, Any]]) -> list[Sentence]:
    return [
        sentence_row(text, [item["evidence_id"]])
        for item in evidence
        for text in sentences(item["text"])
    ]


MOST = 200
"""Questions on which controls are judged, by hash; the systems are compared on the same ones."""
PREFIX = "control: "


def wanted(terms: Terms) -> bool:
    """Whether controls are judged; raises UsageError for another value than true or false.

    A judging model costs money, so `controls=paid` has to ask for them.
    """
    told = terms.controls
    if told not in (True, False, "paid"):
        raise UsageError(f"controls={told}: true, false, or paid where a model judges")
    return told == "paid" or bool(told and terms.by_rules)


def most_evidence(systems: Iterable[pa.Table]) -> pa.Table | None:
    """Return the CASES that hold most evidence, the first of equals; None where there are none.

    Controls are made of these: without evidence a dump would be empty, and test no metric.
    """
    return max(
        systems, key=lambda cases: len(cases["evidence"].combine_chunks().flatten()), default=None
    )


def judge_controls(
    terms: Terms, cases: pa.Table, steps: Mapping[str, Step], counted: Sequence[str]
) -> dict[str, list[Scores]]:
    """Return the scores of each control by its name, on at most MOST of the counted questions."""
    chosen = sorted(counted, key=lambda query: content_id("controls", query))[:MOST]
    some = cases.filter(pc.is_in(cases["query_id"], pa.array(chosen, pa.string())))
    if not some.num_rows:
        return {}
    asked = some["query_id"].to_pylist()
    found: dict[str, list[Scores]] = {}
    store = judged_in(terms.root, terms.out)
    for name, table in control_cases(some).items():
        judged, _ = judge(store, terms.running, table, steps)
        found[f"{PREFIX}{name}"] = [
            each
            for key, made in judged.items()
            for each in score(metrics_of(steps[key]), made, asked)
        ]
    return found


def unfit(
    systems: Sequence[Sequence[Scores]],
    controls: Mapping[str, Sequence[Scores]],
    steps: Mapping[str, Step],
) -> dict[str, str]:
    """Name the metrics on which a control is not below the best system, and which controls.

    Systems and controls are compared on the questions that the controls were judged on. The ideal
    answer is a ceiling, not a control; metrics of the evidence alone have no control, and shuffled
    citations test metrics that go by citations.
    """
    about = {
        metric.name: metric.of == "citations"
        for step in steps.values()
        for metric in metrics_of(step)
        if metric.better != "neither" and metric.of != "evidence"
    }
    told: dict[str, str] = {}
    for name, cites in sorted(about.items()):
        values = {
            control: _value(each)
            for control, found in controls.items()
            if control != PREFIX + CEILING and (cites or control != PREFIX + SHUFFLED)
            for each in found
            if each.metric.name == name
        }
        given = [each for found in controls.values() for each in found if each.metric.name == name]
        asked = {query for each in given for query in each.questions}
        own = [e for found in systems for e in found if e.metric.name == name and not e.void]
        reached = [value for each in own if (value := _value(only(each, asked))) is not None]
        if not reached or not own:
            continue
        sign = 1.0 if own[0].metric.better == "higher" else -1.0
        best = max(sign * value for value in reached)
        above = {
            control.removeprefix(PREFIX): value
            for control, value in values.items()
            if value is not None and sign * value >= best
        }
        if above:
            shown = ", ".join(f"{control} {value:.3f}" for control, value in above.items())
            told[name] = f"unfit here: {shown} against {sign * best:.3f}"
    return told


def _value(scores: Scores) -> float | None:
    whole = float(np.sum(scores.wholes))
    return float(np.sum(scores.parts)) / whole if whole and not scores.void else None
