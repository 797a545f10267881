"""Format figures alike for the page and Markdown, never as NaN."""

from __future__ import annotations

from srrag.core.figures import BaselineDifference, Figure

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
    """Format a p-value; below a thousandth as "< 0.001"."""
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def interval(figure: Figure) -> str:
    """Format the ends of an interval, "" if the figure has none."""
    if figure.low is None or figure.high is None:
        return ""
    if isinstance(figure, BaselineDifference):
        return f"{signed(figure.low)} to {signed(figure.high)}"
    return f"{plain(figure.low)}–{plain(figure.high)}"


def count(value: int | None) -> str:
    """Format a count with thousands separators."""
    return NONE if value is None else f"{value:,}"


def tokens(into: int, out: int) -> str:
    """Format the tokens that a model read and wrote."""
    return f"{into:,} + {out:,}" if into or out else "0"


def seconds(value: float) -> str:
    """Format a duration with the precision that its size needs."""
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def money(value: float) -> str:
    """Format dollars; small sums get more digits."""
    return f"{value:,.2f}" if value >= 1 or value == 0 else f"{value:.4f}"
