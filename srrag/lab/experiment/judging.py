"""Run judges as stages of a store that keeps judgements, also over control systems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.algo.entailment import sentences
from srrag.config import factory
from srrag.core.errors import UsageError
from srrag.core.schema import NO_CHOICE, empty_value, sentence_row
from srrag.core.spec import content_id
from srrag.core.step import LLMStep, Step
from srrag.engine.base import Model
from srrag.lab.experiment.running import Running, Terms, run_stages
from srrag.lab.measure.judgements import CASES, JUDGEMENTS, PREPARED, Case, Judgement
from srrag.lab.measure.judging_steps import Measure, Preparation, metrics_of
from srrag.lab.measure.scores import Scores, only, score
from srrag.llm.completion import Usage
from srrag.runner.summary import usage_of
from srrag.storage.store import Store


def judges(nodes: Mapping[str, Any]) -> dict[str, Step]:
    """Return the judges by name without those set to null; raises UsageError if none is left.

    Judges ignore `engine.seed` and `engine.temperature`, which only sample answers, so that all
    rows have the same judges.
    """
    named = nodes if isinstance(nodes, Mapping) else {"judges": nodes}
    for name, node in named.items():
        if node and not isinstance(node, Mapping):
            raise UsageError(f"bench.judges: {name}={node} is no judge; null leaves one out")
    made = {name: _made(name, node) for name, node in named.items() if node}
    if not any(map(metrics_of, made.values())):
        raise UsageError("bench.judges: there is no judge")
    sources(made)
    return made


def _made(name: str, node: Any) -> Step:
    step: Step = factory.make(node, f"bench.judges.{name}")
    if isinstance(step, LLMStep) and isinstance(step.engine, Model):
        return replace(step, engine=step.engine.started)
    return step


def sources(steps: Mapping[str, Step]) -> dict[str, str]:
    """Return the stage whose output each step reads.

    A preparation reads the output of the preparation before it. A judge reads the last preparation
    that fills one of its columns, so that failures of other preparations do not affect it. Raises
    UsageError for a column that no earlier step fills; to a preparation it may be empty.
    """
    found: dict[str, str] = {}
    prepared = ["cases"]
    filled_by: dict[str, str] = {}
    for name, step in steps.items():
        missing = [c for c in step.reads if c in PREPARED and c not in filled_by]
        if missing and not isinstance(step, Preparation):
            raise UsageError(f"bench.judges.{name} reads {missing[0]}, which no step before fills")
        if isinstance(step, Preparation):
            found[name] = prepared[-1]
            prepared.append(name)
            filled_by |= dict.fromkeys(step.fills, name)
        else:
            read = [filled_by[column] for column in step.reads if column in filled_by]
            found[name] = max(read, key=prepared.index, default="cases")
    return found


def judge(
    store: Store, running: Running, cases: pa.Table, steps: Mapping[str, Step]
) -> tuple[dict[str, pa.Table], Usage]:
    """Return the JUDGEMENTS of each judge and the usage; judges only cases new to the store."""
    reads = sources(steps)
    with store.lock():
        staged = run_stages(store, running, "cases", cases, steps, reads)
    made = {name: each.table for name, each in staged.items()}
    judged = {
        name: pa.concat_tables(
            [made[name], *_lost_before(name, steps, reads, made | {"cases": cases})]
        )
        for name, step in steps.items()
        if metrics_of(step)
    }
    return judged, usage_of(each for one in staged.values() for each in one.receipts)


def _lost_before(
    judge: str, steps: Mapping[str, Step], reads: Mapping[str, str], made: Mapping[str, pa.Table]
) -> Iterator[pa.Table]:
    """Yield the judgements of the cases that an earlier step rejected, as if it had no answer.

    So a case counts as failed in the metrics that its gold allows; without gold, or where the judge
    is more than a Measure, in all.
    """
    step, blank = steps[judge], {item.name: empty_value(item.type) for item in JUDGEMENTS}
    after: list[Preparation] = []
    name = judge
    while (name := reads[name]) != "cases":
        preparation = steps[name]
        assert isinstance(preparation, Preparation)
        after.insert(0, preparation)
        before = {row["query_id"]: row for row in made[reads[name]].to_pylist()}
        rows: list[Judgement] = []
        for lost in made[name].filter(made[name]["reject"].is_valid()).to_pylist():
            case = before[lost["query_id"]]
            for each in after:
                case |= each.take(case, None, lost["reject"]["reason"])
            if isinstance(step, Measure) and case["reject"] is None:
                rows += step.measure(case)
            else:
                rows.append({**blank, "query_id": lost["query_id"], "reject": lost["reject"]})
        yield pa.Table.from_pylist(rows, schema=JUDGEMENTS)


def judged_in(root: str | Path | None, out: str | Path | None) -> Store:
    """Open the store of judgements below a root, else below `out`; creates it.

    `forget` deletes that folder as a whole. Raises UsageError if neither is given.
    """
    if root is not None:
        store = Store(Path(root) / "jobs" / "judged")
    elif out is not None:
        store = Store(Path(out) / "judged")
    else:
        raise UsageError("root= or out= is missing: what is judged is kept there")
    store.root.mkdir(parents=True, exist_ok=True)
    store.create()
    return store


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
