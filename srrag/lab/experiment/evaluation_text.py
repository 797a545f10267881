"""The figures of an evaluation for a terminal: a line a metric, the system, then its baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from srrag.lab.measure.chance import readable_chance

RANKING = "ranking"
"""The heading of the ranking's figures among those of judges."""
_OF_BENCH = ("judged_documents_missing", "units", "answerable", "unanswerable")
_OF_SYSTEM = ("failed", "abstained", "without_gold", "answers_without_question")


def readable(summary: Mapping[str, Any]) -> str:
    """The whole text; `summary` is what `srrag evaluate` prints as its last line."""
    lines = [", ".join(_head(summary))]
    if broken := summary.get("broken_judges"):
        lines += ["", f"NO RESULT: no answer of the judge could be used for {', '.join(broken)}"]
    for role, prefix in (("system", ""), ("baseline", "baseline_")):
        if f"{prefix}metrics" in summary:
            lines += ["", summary[role], *_system(summary, prefix)]
    lines += _controls(summary.get("controls", {}))
    if "difference" in summary:
        lines += ["", f"{summary['system']} - {summary['baseline']}"]
        lines += _by_judge(summary, summary["difference"])
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


def _system(summary: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """What was lost, the figures by judge and by group, and what the benchmark adds."""
    counts = {name: summary.get(f"{prefix}{name}") for name in _OF_SYSTEM}
    counts |= summary.get(f"{prefix}missing", {})
    if "judge" not in summary:
        counts["without_gold"] = None
    always = {"abstained" if "judge" in summary else "failed"}
    told = {name: n for name, n in counts.items() if n is not None and (n or name in always)}
    yield "  " + ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in told.items())
    yield from _by_judge(summary, summary[f"{prefix}metrics"])
    for name, figures in summary.get(f"{prefix}groups", {}).items():
        yield f"  {name}"
        yield from (line(*entry) for entry in figures["metrics"].items())
    yield from readable_chance(summary.get("chance", {}))
    if (curve := summary.get(f"{prefix}risk_coverage")) and curve["points"]:
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
    for judge, names in ({RANKING: ranked} | judges if ranked else judges).items():
        if judges:
            yield f"  {judge}"
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


def line(name: str, entry: Mapping[str, Any]) -> str:
    """A figure or difference: its value with interval, counts and p-values, or why it has none."""
    if entry["value"] is None:
        return f"    {name:<34}      –   {entry['reason']}"
    text = f"    {name:<34}{entry['value']:7.4f}   [{entry['low']:.4f}, {entry['high']:.4f}]"
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
