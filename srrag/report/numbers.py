"""How figures are printed: the same in the page and in Markdown, never as NaN."""

from __future__ import annotations

from srrag.report.row import BaselineDifference, Figure

NONE = "–"
MINUS = "−"


def plain(value: float, digits: int = 3) -> str:
    """A value with a real minus sign; what rounds to zero has none."""
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", MINUS)


def signed(value: float, digits: int = 3) -> str:
    """A difference with its sign, unless it rounds to zero."""
    text = plain(value, digits)
    return text if text.startswith(MINUS) or float(text) == 0 else f"+{text}"


def spread(mean: float, sd: float) -> str:
    """A mean with its standard deviation."""
    return f"{plain(mean)} ± {plain(sd)}"


def p_value(p: float | None) -> str:
    """A p-value; below a thousandth that is all that is said."""
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def interval(figure: Figure) -> str:
    """The ends of an interval, "" where there is none."""
    if figure.low is None or figure.high is None:
        return ""
    if isinstance(figure, BaselineDifference):
        return f"{signed(figure.low)} to {signed(figure.high)}"
    return f"{plain(figure.low)}–{plain(figure.high)}"


def count(value: int | None) -> str:
    """A count with its thousands apart."""
    return NONE if value is None else f"{value:,}"


def tokens(into: int, out: int) -> str:
    """What a model read and what it wrote."""
    return f"{into:,} + {out:,}" if into or out else "0"


def seconds(value: float) -> str:
    """A duration, as fine as it matters."""
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def money(value: float) -> str:
    """Dollars, with as many digits as a small sum needs."""
    return f"{value:,.2f}" if value >= 1 or value == 0 else f"{value:.4f}"
