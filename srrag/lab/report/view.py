"""What a report shows of results: a table a benchmark, its columns, cells, marks and notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from srrag.core.figures import BaselineDifference, Figure
from srrag.lab.report import numbers
from srrag.lab.report.row import Row

MAIN = (
    "nDCG@10", "recall@10", "MRR@10", "coverage@10", "miss@10",
    "nugget_coverage", "picot_match", "citation_support", "faithfulness", "answer_accuracy",
    "choice_accuracy", "evidence_coverage", "semantic_similarity", "evidence_precision",
    "selection_precision", "selection_recall", "factuality", "completeness",
)  # fmt: skip
"""The columns of the first table, as far as they were measured; the others are in a second one."""

MAX_MAIN = 6
LENGTH = "answer_words"
"""The last column of the first table, if answers were judged."""
LEVEL = 0.05
"""P-values below this, after Holm's correction, are marked."""


@dataclass(frozen=True)
class Column:
    """A metric as a column; `questions` says how many count for it."""

    name: str
    lower: bool
    questions: str
    unfit: bool = False

    @property
    def title(self) -> str:
        """The name in words, with an arrow where lower is better, and whether it is unfit here."""
        arrow = " ↓" if self.lower else ""
        return self.name.replace("_", " ") + arrow + (" – unfit here" if self.unfit else "")


@dataclass(frozen=True)
class Cell:
    """A figure as it is printed: the value, its interval, a mark and the number of a note."""

    text: str
    interval: str = ""
    mark: str = ""
    note: int = 0
    sort: float | None = None


@dataclass(frozen=True)
class SystemLine:
    """A system's line: a cell for each column, then what it cost; none if it failed."""

    row: Row
    is_baseline: bool
    cells: tuple[Cell, ...]
    costs: tuple[Cell, ...]


@dataclass
class Notes:
    """Footnotes, numbered from 1; the same words get the same number."""

    texts: list[str] = field(default_factory=list)

    def of(self, text: str) -> int:
        """The number of a note."""
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1


COSTS = ("failed", "abstained", "tokens in + out", "seconds", "US$")


@dataclass(frozen=True)
class Table:
    """Systems by metrics."""

    columns: tuple[Column, ...]
    lines: tuple[SystemLine, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class BenchmarkView:
    """The rows and columns that a report shows of one benchmark."""

    name: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    main: tuple[Column, ...]

    @property
    def baselines(self) -> list[str]:
        """The rows that others are compared with."""
        return list(dict.fromkeys(row.baseline for row in self.rows if row.baseline))

    @property
    def judges(self) -> list[str]:
        """Who judged."""
        return list(dict.fromkeys(row.judge for row in self.rows if row.judge))

    @property
    def others(self) -> tuple[Column, ...]:
        """The columns that the first table leaves out."""
        return tuple(column for column in self.columns if column not in self.main)


def benches(rows: Sequence[Row], metrics: Sequence[str] | None = None) -> list[BenchmarkView]:
    """The benchmarks in their order; raises ValueError for a metric that no row has.

    `metrics` are the columns of the first table; None for MAIN.
    """
    known = {name for row in rows for name in row.metrics}
    for name in metrics or ():
        if name not in known:
            raise ValueError(f"metrics: no row has {name!r}; there are {', '.join(sorted(known))}")
    found = []
    for bench in dict.fromkeys(row.bench for row in rows):
        own = tuple(row for row in rows if row.bench == bench)
        columns = _columns(own)
        found.append(BenchmarkView(bench, own, columns, _main(own, columns, metrics)))
    return found


def _columns(rows: Sequence[Row]) -> tuple[Column, ...]:
    names = dict.fromkeys(name for row in rows for name in row.metrics)
    unfit = {name for row in rows for name in row.unfit}
    return tuple(
        _column(name, [r.metrics[name] for r in rows if name in r.metrics], name in unfit)
        for name in names
    )


def _column(name: str, figures: Sequence[Figure], unfit: bool) -> Column:
    counts = sorted({f.n for f in figures if f.n is not None})
    questions = " to ".join(numbers.count(n) for n in dict.fromkeys([*counts[:1], *counts[-1:]]))
    return Column(name, any(f.better == "lower" for f in figures), questions, unfit)


def _main(
    rows: Sequence[Row], columns: Sequence[Column], wanted: Sequence[str] | None
) -> tuple[Column, ...]:
    by_name = {column.name: column for column in columns}
    if wanted is not None:
        return tuple(by_name[name] for name in wanted if name in by_name)
    valued = {name for row in rows for name, f in row.metrics.items() if f.value is not None}
    chosen = [by_name[name] for name in MAIN if name in valued]
    chosen = chosen or [column for column in columns if column.name in valued]
    length = [by_name[LENGTH]] if LENGTH in valued else []
    return (*list(chosen or columns)[:MAX_MAIN], *length)


def table(bench: BenchmarkView, columns: Sequence[Column]) -> Table:
    """Make the table of a benchmark with these columns; notes explain missing values."""
    notes = Notes()
    lines = []
    for row in bench.rows:
        cells: tuple[Cell, ...] = ()
        costs: tuple[Cell, ...] = ()
        if row.state == "done":
            cells = tuple(_metric_cell(row, column, notes) for column in columns)
            costs = _costs(row, notes)
        lines.append(SystemLine(row, row.name in bench.baselines, cells, costs))
    return Table(tuple(columns), tuple(lines), tuple(notes.texts))


def _metric_cell(row: Row, column: Column, notes: Notes) -> Cell:
    figure = row.metrics.get(column.name)
    if figure is None:
        return Cell(numbers.NONE, note=notes.of("not measured for this system"))
    mark = mark_of(row.difference.get(column.name), column.lower)
    return cell(figure, notes, mark)


def cell(figure: Figure, notes: Notes, mark: str = "") -> Cell:
    """A figure as it is printed."""
    if figure.value is None:
        return Cell(numbers.NONE, note=notes.of(figure.reason))
    note = 0
    if figure.failed:
        of = f" of {figure.items:,}" if figure.items else ""
        note = notes.of(f"not judged: {figure.failed:,}{of}, counted as worst")
    shown = numbers.signed if isinstance(figure, BaselineDifference) else numbers.plain
    return Cell(shown(figure.value), numbers.interval(figure), mark, note, figure.value)


def mark_of(difference: BaselineDifference | None, lower: bool) -> str:
    """▲ for significantly better than the baseline, ▼ for worse, "" for neither."""
    if difference is None or difference.value is None or difference.p_holm is None:
        return ""
    if difference.p_holm >= LEVEL:
        return ""
    return "▲" if (difference.value > 0) != lower else "▼"


def _costs(row: Row, notes: Notes) -> tuple[Cell, ...]:
    lost = ", ".join(f"{reason}: {n}" for reason, n in sorted(row.missing.items()))
    failed = Cell(numbers.count(row.failed), note=notes.of(lost) if lost else 0, sort=row.failed)
    if row.abstained is None:
        why = "a control" if row.control else "a ranking gives no answers"
        abstained = Cell(numbers.NONE, note=notes.of(why))
    else:
        abstained = Cell(numbers.count(row.abstained), sort=row.abstained)
    return (failed, abstained, *_paid(row, notes))


def _paid(row: Row, notes: Notes) -> tuple[Cell, ...]:
    """Tokens, seconds and dollars; of stored answers and controls none is known."""
    asked = row.tokens_in + row.tokens_out + row.calls > 0
    if row.usd is None and not (asked or row.seconds or row.pipeline):
        why = "a control" if row.control else "stored answers: what they cost is not known"
        return (Cell(numbers.NONE, note=notes.of(why)),) * 3
    if row.usd is None and asked:
        usd = Cell(numbers.NONE, note=notes.of("no price is known for the engine"))
    else:
        usd = Cell(numbers.money(row.usd or 0.0), sort=row.usd or 0.0)
    return (
        Cell(numbers.tokens(row.tokens_in, row.tokens_out), sort=row.tokens_in + row.tokens_out),
        Cell(numbers.seconds(row.seconds), sort=row.seconds),
        usd,
    )


def seen_questions(bench: BenchmarkView) -> str:
    """Say which questions learned parts were fitted on, "" if there is none and all is known."""
    lines: dict[str, None] = {}
    for row in bench.rows:
        seen = row.in_sample
        parts = ", ".join(f"{name} {count}" for name, count in seen.parts.items())
        if seen.questions:
            how = "they count all the same" if seen.allowed else "they do not count here"
            lines[f"{seen.questions} questions are in-sample ({parts}); {how}."] = None
        for name in seen.unknown:
            lines[f"It is not known what {name} was fitted on."] = None
    return " ".join(lines)


def explained(bench: BenchmarkView) -> str:
    """What the marks and intervals of a table mean, in a line or two."""
    text = (
        "Values with 95 % bootstrap intervals over questions. What failed counts as worst, and "
        "stays in the denominator."
    )
    if seen := seen_questions(bench):
        text += f" {seen}"
    unfit = {name: why for row in bench.rows for name, why in row.unfit.items()}
    if unfit:
        told = "; ".join(f"{name.replace('_', ' ')}: {why}" for name, why in unfit.items())
        text += f" No difference is tested on {told}."
    if unfair := next((row.unfair for row in bench.rows if row.unfair), ""):
        text += f" Unfair to: {unfair}."
    if not bench.baselines:
        return text + " There is no baseline, so no test."
    return (
        f"{text} ▲ better, ▼ worse than {' / '.join(bench.baselines)}: paired bootstrap, "
        f"p < {LEVEL:g} after Holm's correction. ↓ lower is better."
    )
