"""`srrag evaluate bench=answers`: judge answers against gold, and compare two systems."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.core.errors import UsageError, reading
from srrag.core.ids import content_id
from srrag.core.step import Step
from srrag.lab.experiment.controls import (
    control_figures,
    joined,
    judge_controls,
    most_evidence,
    unfit,
    wanted,
    without_marks,
)
from srrag.lab.experiment.degraded import answer_counts
from srrag.lab.experiment.in_sample import InSample, in_sample, split, united
from srrag.lab.experiment.judging import judge, judged_in, judges
from srrag.lab.experiment.nli import unfit_by_votes
from srrag.lab.experiment.rankings import Judged, read_articles
from srrag.lab.experiment.record import Evaluated, record
from srrag.lab.experiment.systems import System
from srrag.lab.experiment.terms import Terms
from srrag.lab.judges.accuracy import trial_means
from srrag.lab.measure.cases import Cases, make_cases, read_answers, read_gold_answers, read_ids
from srrag.lab.measure.chance import chance, readable_chance
from srrag.lab.measure.groups import by_group
from srrag.lab.measure.judgements import JUDGEMENTS, metrics_of
from srrag.lab.measure.scores import Scores, broke_down, compare, figure, score
from srrag.llm.completion import Usage
from srrag.retrieve.questions import question_table
from srrag.runner.progress import say
from srrag.runner.summary import calls_made
from srrag.storage.atomic_write import commit, write_parquet

RANKING = "ranking"
"""The heading of the ranking's figures among those of the judges."""
_SHOWN_FAILURES = 20
_APART = ("without_gold", "answers_without_question")


def evaluate_answers(terms: Terms, compared: Sequence[System]) -> dict[str, Any]:
    """Judge a system's answers, and a second one's, with the differences between the two."""
    started = time.perf_counter()
    steps = judges(terms.bench["judges"])
    gold, faulty = read_gold(terms.bench, terms.path)
    articles = read_articles(terms.bench, gold)
    summary: dict[str, Any] = {
        "questions": len(gold),
        "faulty_questions": len(faulty),
        "chance": chance(gold, terms.bench["by"]),
        "judge": terms.judge,
        "judges": {
            name: [metric.name for metric in metrics]
            for name, step in steps.items()
            if (metrics := metrics_of(step))
        },
    }
    listed: dict[str, list[Scores]] = {}
    usage: dict[str, Usage] = {}
    broken: set[str] = set()
    kept: list[Evaluated] = []
    systems = answered_systems(terms, compared, gold)
    answers = [answered for _, answered in systems.values()]
    seen = questions_seen(terms.in_sample, gold, steps, answers)
    store, resampling = judged_in(terms.root, terms.out), terms.resampling
    for name, (cases, answered) in systems.items():
        summary["system" if name == "pipeline" else name] = answered.name
        judged, usage[name] = judge(store, terms.running, cases.table, steps)
        found = scores(steps, judged, [row["query_id"] for row in gold])
        # A judge that failed on every case gives no result.
        lost = [judge_ for judge_, each in found.items() if broke_down(each)]
        broken |= set(lost)
        ranked = _ranked(articles, answered, terms)
        if ranked:
            summary["judges"] = {RANKING: [s.metric.name for s in ranked], **summary["judges"]}
        listed[name], apart = split_judged(ranked, steps, judged, gold, seen)
        prefix = "" if name == "pipeline" else "baseline_"
        summary |= _counts(prefix, cases, judged) | _figures(terms, prefix, listed[name], gold)
        stated = seen.stated(apart, **resampling)
        summary[f"{prefix}in_sample"] = stated.model_dump()
        counted = answer_counts(answered.table, compared[0].keys)
        summary |= {f"{prefix}{key}": value for key, value in counted.items()}
        _write(terms.out, f"{prefix}judgements.parquet", judged)
        done = _evaluated(answered, cases, listed[name], judged)
        kept.append(replace(done, broken_judges=lost, seen=seen, apart=apart))
    tried = _tried(terms, [cases.table for cases, _ in systems.values()], steps, seen)
    told = unfit(list(listed.values()), tried, steps)
    told = joined(told, unfit_by_votes(terms, steps) if wanted(terms) else {})
    summary |= {"controls": control_figures(tried, **resampling), "unfit": told}
    if "baseline" in listed:
        pair = listed["pipeline"], listed["baseline"]
        summary["difference"] = without_marks(compare(*pair, **resampling), told)
    if terms.out:
        facts = [{**row, **row["strata"]} for row in gold]
        difference = summary.get("difference")
        results = terms.out, terms.name, terms.judge
        record(*results, facts, kept, difference, tried, told, **resampling)
    summary |= calls_made(usage, len(gold))
    summary["seconds"] = round(time.perf_counter() - started, 3)
    summary |= {"broken_judges": sorted(broken), "ok": not broken}
    say("\n".join([*seen.said(), readable(summary)]))
    return summary


def _tried(
    terms: Terms, systems: Sequence[pa.Table], steps: Mapping[str, Step], seen: InSample
) -> dict[str, list[Scores]]:
    """Judge controls made of the fuller evidence of two systems, if they are wanted."""
    cases = most_evidence(systems)
    if cases is None or not wanted(terms):
        return {}
    counted = [query for query in cases["query_id"].to_pylist() if query not in seen.apart]
    return judge_controls(terms, cases, steps, counted)


def questions_seen(
    mode: str,
    gold: Sequence[Mapping[str, Any]],
    judges_: Mapping[str, Step],
    systems: Sequence[Evaluated],
) -> InSample:
    """What the systems, or their judges, were fitted on; unknown for stored answers.

    `mode` is `in_sample` of the job.
    """
    parts = [each.run.pipeline.steps if each.run else () for each in systems]
    return united([in_sample([*judges_.values(), *steps], gold, mode) for steps in parts])


def split_judged(
    ranked: Sequence[Scores],
    steps: Mapping[str, Step],
    judged: Mapping[str, pa.Table],
    gold: Sequence[Mapping[str, Any]],
    seen: InSample,
) -> tuple[list[Scores], list[Scores]]:
    """Return the scores of the questions that count, and of the questions kept apart."""
    kept, apart = split(ranked, seen)
    ids = [str(row["query_id"]) for row in gold]
    counted = [query for query in ids if query not in seen.apart]
    empty = "" if counted else seen.reason
    found = (each for scored in scores(steps, judged, counted).values() for each in scored)
    kept += [replace(each, empty=empty) for each in found]
    if seen.apart:
        others = scores(steps, judged, [query for query in ids if query in seen.apart])
        apart += [each for scored in others.values() for each in scored if each.questions]
    return kept, apart


def _ranked(articles: Judged | None, answered: Evaluated, terms: Terms) -> list[Scores]:
    """Score the ranking behind answers by gold documents; stored answers have no root to name them.

    Both systems have these scores or none, so that they can be compared.
    """
    bench = terms.bench
    if articles is None or answered.run is None or bench["answers"] or bench["baseline_answers"]:
        return []
    return articles.pool_scores(answered.table, answered.run.place(terms.running.place))


def read_gold(bench: Mapping[str, Any], path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Read the questions of the benchmark, and list those of its rows that hold none.

    `bench.only` names a file of JSON lines, or a folder of them: only questions whose ids it lists
    are kept, and at most `bench.limit` of each subset, chosen by a hash of their ids. Raises
    UsageError if no question is left, or for a limit below 1.
    """
    faulty: list[str] = []
    with reading(path):
        gold = list(read_gold_answers(path, bench["subset"], faulty))
    for each in faulty[:_SHOWN_FAILURES]:
        say(f"left out: {each}")
    if only := bench.get("only"):
        names = read_ids(Path(str(only)))
        gold = [row for row in gold if row["query_id"] in names]
    if (limit := bench.get("limit")) is not None:
        gold = _limited(gold, limit)
    if not gold:
        raise UsageError(f"bench.path={path}: there is no question")
    return gold, faulty


def _limited(gold: list[dict[str, Any]], limit: object) -> list[dict[str, Any]]:
    """Keep the order and, of each subset, the `limit` questions whose hashes come first."""
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise UsageError(f"bench.limit={limit}: a whole number, at least 1, or null")
    by_subset: dict[str, list[str]] = {}
    for row in gold:
        by_subset.setdefault(row["strata"].get("subset", ""), []).append(row["query_id"])
    kept = {
        query
        for queries in by_subset.values()
        for query in sorted(queries, key=lambda query: content_id("limit", query))[:limit]
    }
    return [row for row in gold if row["query_id"] in kept]


def _evaluated(
    answered: Evaluated, cases: Cases, found: Sequence[Scores], judged: Mapping[str, pa.Table]
) -> Evaluated:
    """Add the judges' scores and judgements to a system."""
    return replace(
        answered,
        scores=found,
        judgements=pa.concat_tables([JUDGEMENTS.empty_table(), *judged.values()]),
        abstained=sum(cases.table["abstained"].to_pylist()),
        missing=cases.missing,
    )


def answered_systems(
    terms: Terms, compared: Sequence[System], gold: list[dict[str, Any]]
) -> dict[str, tuple[Cases, Evaluated]]:
    """Return the answers of the system, and of its baseline if there is one."""
    bench = terms.bench
    stored = {"pipeline": bench["answers"], "baseline": bench["baseline_answers"]}
    return {
        role: _answers(terms, system, gold, path)
        for (role, path), system in zip(stored.items(), compared, strict=False)
    }


def _figures(
    terms: Terms, prefix: str, listed: Sequence[Scores], gold: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the figures of a system, and by group of questions if the job asks for groups."""
    resampling, by = terms.resampling, terms.bench["by"]
    figures = {each.metric.name: figure(each, **resampling) for each in listed}
    if not by:
        return {f"{prefix}metrics": figures}
    groups = {row["query_id"]: row["strata"].get(by, "") for row in gold}
    grouped = by_group(listed, groups, **resampling)
    named = {name: {"metrics": each} for name, each in grouped.items()}
    return {f"{prefix}metrics": figures, f"{prefix}groups": named}


def scores(
    steps: Mapping[str, Step], judged: Mapping[str, pa.Table], questions: Sequence[str]
) -> dict[str, list[Scores]]:
    """Return the scores of every judge's metrics, by judge."""
    return {
        name: score(metrics_of(steps[name]), table, questions) for name, table in judged.items()
    }


def readable(summary: dict[str, Any]) -> str:
    """The metrics, for a terminal."""
    lines = [f"{summary['questions']} questions, judged by {summary['judge']}"]
    if broken := summary["broken_judges"]:
        lines += ["", f"NO RESULT: no answer of the judge could be used for {', '.join(broken)}"]
    for prefix in ("", "baseline_"):
        if f"{prefix}metrics" not in summary:
            continue
        lines += ["", summary["baseline" if prefix else "system"]]
        lost = {"abstained": summary[f"{prefix}abstained"], **summary[f"{prefix}missing"]}
        lost |= {name: n for name in _APART if (n := summary[f"{prefix}{name}"])}
        said = (f"{reason.replace('_', ' ')} {count}" for reason, count in lost.items())
        lines.append("  " + ", ".join(said))
        lines += _by_judge(summary, summary[f"{prefix}metrics"])
        for name, figures in summary.get(f"{prefix}groups", {}).items():
            lines.append(f"  {name}")
            lines += [_line(*entry) for entry in figures["metrics"].items()]
        lines += readable_chance(summary.get("chance", {}))
        if trials := summary.get(f"{prefix}accuracy_trials"):
            means = ", ".join(f"{value:.4f}" for value in trials["means"])
            lines.append(f"  answer_accuracy by trial: {means} (SD {trials['sd']:.4f})")
    lines += _controls(summary["controls"])
    if "difference" in summary:
        lines += ["", f"{summary['system']} - {summary['baseline']}"]
        lines += _by_judge(summary, summary["difference"])
    return "\n".join(lines) + "\n"


def _by_judge(summary: Mapping[str, Any], figures: Mapping[str, Any]) -> Iterator[str]:
    """A line a metric, under the name of its judge."""
    for judge_, names in summary["judges"].items():
        yield f"  {judge_}"
        for name in names:
            told = summary["unfit"].get(name)
            yield _line(name, figures[name]) + (f"   {told}" if told else "")


def _controls(controls: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Iterator[str]:
    """The table of controls: a line a metric, a column a control."""
    if not controls:
        return
    yield from ("", "controls")
    yield f"    {'':<34}" + "".join(f"{name:>20}" for name in controls)
    for metric in next(iter(controls.values()))["metrics"]:
        values = [found["metrics"].get(metric, {}).get("value") for found in controls.values()]
        shown = ("–" if value is None else f"{value:.4f}" for value in values)
        yield f"    {metric:<34}" + "".join(f"{text:>20}" for text in shown)


def _line(name: str, entry: Mapping[str, Any]) -> str:
    if entry["value"] is None:
        return f"    {name:<34}      –   {entry['reason']}"
    line = f"    {name:<34}{entry['value']:7.4f}   [{entry['low']:.4f}, {entry['high']:.4f}]"
    line += f"   n {entry['n']}"
    if entry.get("items", entry["n"]) != entry["n"]:
        line += f" ({entry['items']} items)"
    if "p" in entry:
        line += f", p {entry['p']:.4f}, Holm {entry['p_holm']:.4f}"
    if entry.get("left_out"):
        line += f", left out {entry['left_out']}"
    if entry.get("failed"):
        line += f", not judged {entry['failed']} of {entry['items']}"
    return line + (" (lower is better)" if entry.get("better") == "lower" else "")


def _answers(
    terms: Terms, system: System, gold: list[dict[str, Any]], path: str | None
) -> tuple[Cases, Evaluated]:
    """Read stored answers, or run a pipeline, and pair the answers with the gold."""
    if path:
        file = Path(str(path))
        if not file.exists():
            raise UsageError(f"answers: {file} does not exist")
        with reading(file):
            stored = read_answers(file)
        return _cases(gold, stored), Evaluated(system.name, system.overrides, stored, [], 0.0)
    if terms.root is None:
        raise UsageError("root= is missing: bench.answers is null, so the pipeline has to answer")
    if not any(row["text"] for row in gold):
        raise UsageError(
            "bench.path holds no question texts: answer them by `srrag answer`, and give "
            "bench.answers"
        )
    bound = terms.running.bound(terms.root, terms.build, system.answering())
    asked, started = question_table(gold), time.perf_counter()
    answers = bound.run(asked, terms.running.place)
    seconds, usage = time.perf_counter() - started, bound.usage(asked)
    return _cases(gold, answers), Evaluated(
        system.name, system.overrides, answers, [], seconds, bound, usage
    )


def _cases(gold: list[dict[str, Any]], answers: pa.Table) -> Cases:
    try:
        return make_cases(gold, answers)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _counts(prefix: str, cases: Cases, judged: Mapping[str, pa.Table]) -> dict[str, Any]:
    lost = [
        {"judge": name, **{key: row[key] for key in ("query_id", "item")}, **row["reject"]}
        for name, table in judged.items()
        for row in table.filter(table["reject"].is_valid()).to_pylist()
    ]
    return {
        f"{prefix}missing": dict(cases.missing),
        f"{prefix}abstained": sum(cases.table["abstained"].to_pylist()),
        f"{prefix}without_gold": cases.without_gold,
        f"{prefix}answers_without_question": cases.strangers,
        f"{prefix}not_judged": len(lost),
        f"{prefix}failures": lost[:_SHOWN_FAILURES],
        **({f"{prefix}accuracy_trials": trials} if (trials := _trials(judged)) else {}),
    }


def _trials(judged: Mapping[str, pa.Table]) -> Mapping[str, Any] | None:
    """Return the trials of the accuracy judge if the job has one with several trials."""
    return next(filter(None, map(trial_means, judged.values())), None)


def _write(out: Path | None, name: str, judged: Mapping[str, pa.Table]) -> None:
    if out:
        table = pa.concat_tables([JUDGEMENTS.empty_table(), *judged.values()])
        commit(out / name, lambda path: write_parquet(table, path))
