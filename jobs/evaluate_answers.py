"""`srrag evaluate bench=answers`: judge answers by gold, and compare two systems."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from jobs import parts
from jobs.judging import judge, judge_name, judges
from jobs.launch import UsageError, with_pipeline
from srrag.completion import Usage
from srrag.evaluate.cases import Cases, make_cases, read_answers, read_gold_answers
from srrag.evaluate.judgements import JUDGEMENTS, metrics_of
from srrag.evaluate.scores import Scores, compare, figure, score
from srrag.pipeline import Pipeline
from srrag.retrieve.questions import question_table
from srrag.runner.progress import say
from srrag.runner.summary import calls_made
from srrag.step import Step
from srrag.store import commit, write_parquet

_SHOWN_FAILURES = 20


def evaluate_answers(config: dict[str, Any], path: Path) -> dict[str, Any]:
    """Judge a system's answers, and a second one's, with the differences between the two."""
    started = time.perf_counter()
    bench = config["bench"]
    steps = judges(bench["judges"])
    gold = list(read_gold_answers(path))
    if not gold:
        raise UsageError(f"bench.path={path}: there is no question")
    systems = {"pipeline": _answers(config, gold, bench["answers"])}
    if bench["baseline_answers"] or config["baseline"]:
        other = with_pipeline("evaluate", config, config["baseline"]) if config["baseline"] else {}
        systems["baseline"] = _answers(other, gold, bench["baseline_answers"])
    resampling = {"resamples": config["resamples"], "seed": config["seed"]}
    summary: dict[str, Any] = {"questions": len(gold), "judge": judge_name(config)}
    found: dict[str, list[Scores]] = {}
    usage: dict[str, Usage] = {}
    for name, cases in systems.items():
        prefix = "" if name == "pipeline" else "baseline_"
        judged, usage[name] = judge(config, cases.table, steps)
        found[name] = scores(steps, judged, [row["query_id"] for row in gold])
        figures = {each.metric.name: figure(each, **resampling) for each in found[name]}
        summary |= _counts(prefix, cases, judged) | {f"{prefix}metrics": figures}
        _write(config, f"{prefix}judgements.parquet", judged)
    if "baseline" in found:
        summary["difference"] = compare(found["pipeline"], found["baseline"], **resampling)
    summary |= calls_made(usage, len(gold))
    summary["seconds"] = round(time.perf_counter() - started, 3)
    # A judge of which every answer failed has judged nothing: that is no result.
    summary["ok"] = not any(0 < each.items == each.failed for one in found.values() for each in one)
    say(readable(summary))
    return summary


def scores(
    steps: Mapping[str, Step], judged: Mapping[str, pa.Table], questions: Sequence[str]
) -> list[Scores]:
    """The scores of every judge's metrics."""
    return [
        each
        for name, table in judged.items()
        for each in score(metrics_of(steps[name]), table, questions)
    ]


def readable(summary: dict[str, Any]) -> str:
    """The metrics, for a terminal."""
    lines = [f"{summary['questions']} questions, judged by {summary['judge']}"]
    for prefix in ("", "baseline_"):
        if f"{prefix}metrics" not in summary:
            continue
        lines += ["", (prefix.rstrip("_") or "metrics")]
        lost = {"abstained": summary[f"{prefix}abstained"], **summary[f"{prefix}missing"]}
        lines.append("  " + ", ".join(f"{reason} {count}" for reason, count in lost.items()))
        lines += [_line(*entry) for entry in summary[f"{prefix}metrics"].items()]
    if "difference" in summary:
        lines += ["", "difference"]
        lines += [_line(*entry) for entry in summary["difference"].items()]
    return "\n".join(lines) + "\n"


def _line(name: str, entry: Mapping[str, Any]) -> str:
    if entry["value"] is None:
        return f"  {name:<29}      –   {entry['reason']}"
    line = f"  {name:<29}{entry['value']:7.4f}   [{entry['low']:.4f}, {entry['high']:.4f}]"
    line += f"   n {entry['questions']}"
    if "p" in entry:
        line += f", p {entry['p']:.4f}, Holm {entry['p_holm']:.4f}"
    if entry.get("left_out"):
        line += f", left out {entry['left_out']}"
    if entry.get("failed"):
        line += f", not judged {entry['failed']} of {entry['items']}"
    return line + (" (lower is better)" if entry.get("better") == "lower" else "")


def _answers(config: dict[str, Any], gold: list[dict[str, Any]], path: str | None) -> Cases:
    """Stored answers, or those of a pipeline, with their gold."""
    if path:
        file = Path(path)
        if not file.exists():
            raise UsageError(f"answers: {file} does not exist")
        return _cases(gold, read_answers(file))
    if config["root"] is None:
        raise UsageError("root= is missing: bench.answers is null, so the pipeline has to answer")
    if not any(row["text"] for row in gold):
        raise UsageError(
            "bench.path holds no question texts: answer them by `srrag answer`, and give "
            "bench.answers"
        )
    made: Pipeline = parts.make(config["pipeline"], "pipeline")
    bound = parts.pipeline_run(config, made)
    return _cases(gold, bound.run(question_table(gold), parts.place(config)))


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
    }


def _write(config: dict[str, Any], name: str, judged: Mapping[str, pa.Table]) -> None:
    if config["out"]:
        table = pa.concat_tables([JUDGEMENTS.empty_table(), *judged.values()])
        commit(Path(config["out"]) / name, lambda path: write_parquet(table, path))
