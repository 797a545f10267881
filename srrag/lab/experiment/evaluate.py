"""`srrag evaluate`: a sweep of one or two systems, or what is measured without a pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from omegaconf import OmegaConf

from srrag.config import factory
from srrag.config.compose import with_pipeline
from srrag.config.words import CONF
from srrag.core.errors import UsageError, reading
from srrag.core.figures import printed
from srrag.core.pipeline import Pipeline
from srrag.lab.experiment.bench import Bench, Outcome
from srrag.lab.experiment.components import evaluate_extraction, evaluate_filter, evaluate_nli
from srrag.lab.experiment.configurations import Configuration, key_of
from srrag.lab.experiment.estimate import estimate
from srrag.lab.experiment.judging import PREFIX
from srrag.lab.experiment.preference import evaluate_preference
from srrag.lab.experiment.read_bench import SYSTEMS, read_bench, read_bench_answers
from srrag.lab.experiment.running import Terms
from srrag.lab.experiment.sweep import Swept, finished_parts, run_sweep
from srrag.lab.measure.cases import read_answers
from srrag.lab.measure.scores import by_group, readable_chance
from srrag.lab.report.row import Row, spreads
from srrag.llm.completion import Usage
from srrag.runner.pipeline_run import Sweep
from srrag.runner.progress import say
from srrag.runner.summary import calls_made, usage_of
from srrag.storage.store import Receipt


def told(
    found: Swept, bench: Bench, terms: Terms, baseline: str, *, grouped: bool = False
) -> dict[str, Any]:
    """The figures of all rows as JSON, with what the benchmark states, counts and costs.

    Where they are `grouped` there are figures of each group of questions too; each takes as many
    resamples, which many rows would wait for.
    """
    made, sweeps = found.rows, found.sweeps
    parts = sum(finished_parts(sweep, bench.questions) for sweep in sweeps)
    failed = {row.name: row.reason for row in made if row.state == "failed"}
    broken = sorted({name for outcome in found.outcomes.values() for name in outcome.broken})
    once = _receipts(sweeps, bench.questions)
    return {
        "baseline": baseline,
        "configurations": len(made),
        "failed": failed,
        "broken_judges": broken,
        "questions": len(bench.gold),
        "without_gold": len(bench.gold) - bench.questions.num_rows,
        **bench.facts,
        "failed_questions": sum(row.failed for row in made),
        "stages": sum(len(sweep.plan.steps) for sweep in sweeps),
        "parts": parts,
        "parts_made": parts - found.parts_before,
        "seconds_stages": round(sum(receipt.seconds for receipt in once), 3),
        "seconds_unshared": round(sum(row.seconds for row in made), 3),
        **_asked(found, bench, once),
        "rows": {
            row.name: _of_row(row, found.outcomes[row.name])
            | (_groups(found.outcomes[row.name], bench, terms) if grouped else {})
            for row in made
        },
        "controls": {
            row.name.removeprefix(PREFIX): {"metrics": _metrics(row)} for row in found.controls
        },
        "unfit": dict(found.unfit),
        "over_seeds": {
            each.name: {
                name: {"mean": round(mean, 4), "sd": round(sd, 4), "seeds": len(each.seeds)}
                for name, (mean, sd) in each.metrics.items()
            }
            for each in spreads(made)
        },
        "ok": not (failed or broken),
    }


def _asked(found: Swept, bench: Bench, receipts: Sequence[Receipt]) -> dict[str, Any]:
    """The calls and tokens of answering, stages that are shared once, and of judging."""
    usage = {"answers": usage_of(receipts), "judges": Usage()}
    for outcome in found.outcomes.values():
        usage["judges"].add(outcome.usage)
    return calls_made(usage, bench.questions.num_rows)


def _groups(outcome: Outcome, bench: Bench, terms: Terms) -> dict[str, Any]:
    """The figures of a row by group, if the benchmark has groups."""
    found = by_group(outcome.scores, bench.groups, **terms.resampling)
    return {"groups": {name: {"metrics": each} for name, each in found.items()}} if found else {}


def _of_row(row: Row, outcome: Outcome) -> dict[str, Any]:
    """The figures of a row, its differences to the baseline, and what was lost."""
    figures: dict[str, Any] = {
        "failed": row.failed,
        "in_sample": row.in_sample.model_dump(),
        "metrics": _metrics(row),
        **outcome.facts,
    }
    if row.difference:
        figures["difference"] = {name: each.stated() for name, each in row.difference.items()}
    return figures


def _metrics(row: Row) -> dict[str, Any]:
    """The figures of a row with their counts, those of nothing lost too."""
    return {
        name: each.stated() | {n: getattr(each, n) for n in ("items", "failed", "left_out")}
        for name, each in row.metrics.items()
    }


def _receipts(sweeps: Sequence[Sweep], questions: pa.Table) -> list[Receipt]:
    """Receipts of all finished configurations, those of shared stages once."""
    found = {
        (stage.name, receipt.part): receipt
        for sweep in sweeps
        for number in range(len(sweep.pipelines))
        if sweep.stands(number, questions)
        for stage, receipts in sweep.receipts(number, questions)
        for receipt in receipts
    }
    return list(found.values())


_OF_THE_COMPARISON = ("out", "bench.answers", "bench.baseline_answers")
_NAME_CHARS = 100


def systems_of(
    config: dict[str, Any], asked: Callable[[Pipeline], Pipeline]
) -> list[Configuration]:
    """Return the system, and its baseline if the configuration names one; raises UsageError.

    `asked` returns the part of a pipeline to run; it raises ValueError if it cannot be scored.
    """
    bench = config["bench"]
    name, against = system_names(bench, config["overrides"], config["baseline"])
    found = [_configured(name, config, asked, "pipeline", bench.get("answers"))]
    if against:
        other = baseline_of(config) if config["baseline"] else config
        found.append(_configured(against, other, asked, "baseline", bench.get("baseline_answers")))
    return found


def _configured(
    name: str, config: dict[str, Any], asked: Callable[[Pipeline], Pipeline], key: str, path: object
) -> Configuration:
    """A row of stored answers, if there is a path, or of the pipeline; `key` is for messages."""
    overrides = tuple(config["overrides"])
    if path:
        file = Path(str(path))
        if not file.exists():
            raise UsageError(f"answers: {file} does not exist")
        with reading(file):
            return Configuration(name, overrides, overrides, config, None, read_answers(file))
    pipeline = factory.pipeline(config, key)
    try:
        pipeline = asked(pipeline)
    except ValueError as error:
        raise UsageError(str(error)) from error
    run = factory.pipeline_run(config, pipeline)
    return Configuration(name, overrides, overrides, config, run)


def system_names(
    bench: Mapping[str, Any], overrides: Sequence[str], baseline: str | None
) -> tuple[str, str]:
    """Name the two systems after their pipelines, or after the files of stored answers.

    If the names are equal, the folder of the files or a number is added. The second name is ""
    without a baseline.
    """
    given = map(bench.get, ("answers", "baseline_answers"))
    paths = [Path(str(path)) if path else None for path in given]
    first, second = (_short(path.stem) if path else "" for path in paths)
    first = first or _short(_pipeline(overrides))
    second = second or _short(str(baseline or ""))
    if first == second and all(paths):
        first, second = (_short("/".join(path.parts[-2:])) for path in paths if path)
    return first, f"{second} (2)" if first == second else second


def baseline_of(config: dict[str, Any]) -> dict[str, Any]:
    """Compose the job with the baseline as the pipeline.

    Its command has no output path, so that repeating it does not overwrite the comparison.
    """
    other = with_pipeline("evaluate", config, config["baseline"])
    kept = [item for item in other["overrides"] if key_of(item) not in _OF_THE_COMPARISON]
    return {**other, "overrides": kept}


def _pipeline(overrides: Sequence[str]) -> str:
    """Return the last pipeline among the overrides, else the default of `srrag evaluate`."""
    defaults = OmegaConf.load(CONF / "evaluate.yaml").defaults
    chosen = [str(each["pipeline"]) for each in defaults if "pipeline" in each]
    chosen += [item.partition("=")[2] for item in overrides if key_of(item) == "pipeline"]
    return chosen[-1]


def _short(name: str) -> str:
    return name.strip()[:_NAME_CHARS]


RANKING = "ranking"
"""The heading of the ranking's figures among those of judges."""
_OF_BENCH = ("judged_documents_missing", "units", "answerable", "unanswerable")
_OF_SYSTEM = ("failed", "abstained", "without_gold", "answers_without_question")


def readable(summary: Mapping[str, Any]) -> str:
    """The figures of a sweep of a row or two, for a terminal."""
    lines = [", ".join(_head(summary))]
    if broken := summary.get("broken_judges"):
        lines += ["", f"NO RESULT: no answer of the judge could be used for {', '.join(broken)}"]
    rows = summary["rows"]
    for name, row in rows.items():
        lines += ["", name, *_system(summary, row)]
    lines += _controls(summary.get("controls", {}))
    for name, row in rows.items():
        if "difference" in row:
            lines += ["", f"{name} - {summary['baseline']}"]
            lines += _by_judge(summary, row["difference"])
    return "\n".join(lines) + "\n"


def _head(summary: Mapping[str, Any]) -> Iterator[str]:
    yield f"{summary['questions']} questions"
    if "judge" in summary:
        yield f"judged by {summary['judge']}"
    elif lost := summary["without_gold"]:
        yield f"without gold {lost}: left out"
    for name in _OF_BENCH:
        if summary.get(name):
            yield f"{name.replace('_', ' ')} {summary[name]}"


def _system(summary: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[str]:
    """What was lost, the figures by judge and by group, and what the benchmark adds."""
    counts = {name: row.get(name) for name in _OF_SYSTEM} | row.get("missing", {})
    always = {"abstained" if "judge" in summary else "failed"}
    told = {name: n for name, n in counts.items() if n is not None and (n or name in always)}
    yield "  " + ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in told.items())
    yield from _by_judge(summary, row["metrics"])
    for name, figures in row.get("groups", {}).items():
        yield f"  {name}"
        yield from (line(*entry) for entry in figures["metrics"].items())
    yield from readable_chance(summary.get("chance", {}))
    if (curve := row.get("risk_coverage")) and curve["points"]:
        yield f"  confidence, AUROC {curve['auroc']:.3f}"
        for point in curve["points"]:
            yield (
                f"    of the answerable {point['coverage']:.0%}: of the others "
                f"{point['unanswerable_answered']:.1%}, risk {point['risk']:.1%}"
            )


def _by_judge(summary: Mapping[str, Any], figures: Mapping[str, Any]) -> Iterator[str]:
    """A line a metric, under the name of its judge if there are judges."""
    judges = summary.get("judges", {})
    judged = {name for names in judges.values() for name in names}
    ranked = [name for name in figures if name not in judged]
    for title, names in ({RANKING: ranked} | judges if ranked else judges).items():
        if judges:
            yield f"  {title}"
        for name in names:
            told = summary.get("unfit", {}).get(name)
            yield line(name, figures[name]) + (f"   {told}" if told else "")


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


def line(name: str, entry: dict[str, Any]) -> str:
    """A figure or difference: its value with interval, counts and p-values, or why it has none."""
    text = f"    {name:<34}{printed(entry)}"
    if entry["value"] is None:
        return text
    text += f"   n {entry['n']}"
    if entry.get("items", entry["n"]) != entry["n"]:
        text += f" ({entry['items']} items)"
    if "p" in entry:
        text += f", p {entry['p']:.4f}, Holm {entry['p_holm']:.4f}"
    if entry.get("left_out"):
        text += f", left out {entry['left_out']}"
    if entry.get("failed"):
        text += f", not judged {entry['failed']} of {entry['items']}"
    return text + (" (lower is better)" if entry.get("better") == "lower" else "")


Measure = Callable[[Terms], dict[str, Any]]

MEASURES: Mapping[str, Measure] = {
    "nli": evaluate_nli,
    "filter": evaluate_filter,
    "ebmnlp": evaluate_extraction,
    "evidence_inference": evaluate_extraction,
}
"""Kinds that run no pipeline."""
KINDS = (*SYSTEMS, "preference", *MEASURES)
FOLDERS = ("beir", "evidence_inference", "near_topic", "textbook")
"""Kinds whose benchmark is a folder; answers are read from either."""


def evaluate(config: dict[str, Any]) -> dict[str, Any]:
    """Score a system on a benchmark by its kind, and the baseline if there is one.

    With `estimate` what would be asked is returned instead. Raises UsageError for a benchmark that
    cannot be read.
    """
    started, terms = time.perf_counter(), Terms.of(config)
    kind, path = terms.bench["kind"], terms.path
    if not path.exists():
        raise UsageError(f"bench.path={path} does not exist")
    if kind not in KINDS:
        raise UsageError(f"bench.kind={kind}: there are {', '.join(KINDS)}")
    if kind not in ("answers", "preference") and path.is_dir() != (kind in FOLDERS):
        wanted = "folder" if kind in FOLDERS else "file"
        raise UsageError(f"bench.path={path}: bench.kind={kind} reads a {wanted}")
    if config["estimate"]:
        return _estimated(config, terms)
    if kind in MEASURES:
        summary = MEASURES[kind](terms)
    elif kind == "preference":
        pairs = read_bench_answers(terms)
        summary = evaluate_preference(terms, pairs, systems_of(config, pairs.asked))
    else:
        bench = read_bench(terms)
        rows = systems_of(config, bench.asked)
        baseline = rows[-1].name
        found = run_sweep(bench, terms, rows, baseline, alone=True)
        summary = told(found, bench, terms, baseline, grouped=True)
        say("\n".join([*found.seen.said(), readable(summary)]))
        first = rows[0].name
        summary = {"system": first, **summary, **summary["rows"][first]}
    return {**summary, "seconds": round(time.perf_counter() - started, 3)}


def _estimated(config: dict[str, Any], terms: Terms) -> dict[str, Any]:
    """What a pipeline, its baseline and the judges would ask."""
    given = terms.bench
    if given["kind"] not in SYSTEMS:
        kinds = ", ".join(SYSTEMS)
        raise UsageError(f"estimate: bench.kind={given['kind']} asks no pipeline; {kinds} do")
    if given.get("answers") or given.get("baseline_answers"):
        raise UsageError("estimate: bench.answers are there already; leave them out")
    bench = read_bench(terms)
    runs = {row.name: row.run for row in systems_of(config, bench.asked) if row.run}
    return estimate(runs, bench.questions, terms.running.place, bench)
