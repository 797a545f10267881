"""Effects as papers print them: their kind, estimate and interval, and what several say pooled.

What cannot be pooled is told with its reason, never guessed: no interval, two intervals, an
estimate outside its own interval, a kind that is not printed, percentages without numbers of
people, a difference whose sign nothing tells.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from srrag.core.errors import UsageError
from srrag.reading.statement import polarity

Interval = tuple[float, float]


@dataclass(frozen=True)
class PooledEffect:
    """Estimates over studies on the scale that they were pooled on, with intervals of 95 %.

    `tau2` is the variance between studies (DerSimonian and Laird 1986), `i2` its share of all
    (Higgins and Thompson 2002); neither is below 0. `prediction` is where the effect of a further
    study would lie (Higgins et al. 2009, t with k − 2 degrees), None for fewer than three studies.
    """

    studies: int
    fixed: float
    fixed_interval: Interval
    random: float
    random_interval: Interval
    prediction: Interval | None
    q: float
    p: float
    i2: float
    tau2: float


def pool(estimates: Sequence[float], variances: Sequence[float]) -> PooledEffect:
    """Pool two or more estimates by inverse variance; raises ValueError for what cannot be.

    statsmodels leaves τ² and I² below 0 where studies differ less than chance has it, which makes
    random effects surer than fixed ones: there they are 0, and both models agree.
    """
    values, spread = np.asarray(estimates, float), np.asarray(variances, float)
    if values.ndim != 1 or values.shape != spread.shape or len(values) < 2:
        raise ValueError("two studies at least are pooled, each with an estimate and a variance")
    if not (np.isfinite(values).all() and np.isfinite(spread).all() and (spread > 0).all()):
        raise ValueError("an estimate or a variance is no number, or a variance is not above 0")
    try:
        from scipy import stats  # slow to import, and a server seldom pools
        from statsmodels.stats.meta_analysis import combine_effects
    except ModuleNotFoundError as error:
        raise UsageError("pooling needs: pip install 'srrag[synthesis]'") from error

    with np.errstate(invalid="ignore"):  # a variant that is not read fails where τ² is below 0
        made = combine_effects(values, spread, method_re="chi2")
    fixed, fixed_error = float(made.mean_effect_fe), float(made.sd_eff_w_fe)
    random, error_ = float(made.mean_effect_re), float(made.sd_eff_w_re)
    tau2 = max(0.0, float(made.tau2))
    if tau2 == 0:
        random, error_ = fixed, fixed_error
    k, q = len(values), float(made.q)
    ahead = None
    if k > 2:
        reach = float(stats.t.ppf(0.975, k - 2)) * math.sqrt(tau2 + error_**2)
        ahead = (random - reach, random + reach)
    return PooledEffect(
        k, fixed, _around(fixed, fixed_error), random, _around(random, error_), ahead,
        q, float(stats.chi2.sf(q, k - 1)), max(0.0, float(made.i2)), tau2,
    )  # fmt: skip


def _around(middle: float, error: float) -> Interval:
    reach = NormalDist().inv_cdf(0.975) * error
    return middle - reach, middle + reach


RATIOS = ("odds ratio", "hazard ratio", "rate ratio", "risk ratio")
DIFFERENCES = ("standardised mean difference", "risk difference", "mean difference")

_KIND = re.compile(
    r"(?P<odds_ratio>\ba?ORs?\b|(?i:odds ratios?))|(?P<hazard_ratio>\ba?HRs?\b|(?i:hazard ratios?))"
    r"|(?P<rate_ratio>\bI?RRs?(?= per\b)|\bIRRs?\b|(?i:rate ratios?))"
    r"|(?P<relative_reduction>\bPE\b|\bRRR\b|(?i:(?:protective|vaccine) (?:efficacy|effect)"
    r"|relative (?:risk |rate )?reductions?"
    r"|reduc\w+ (?:by|of) \d|\d\s?% (?:\w+ )?(?:reduc|lower|few|less)))"
    r"|(?P<risk_ratio>\ba?RRs?\b|(?i:risk ratios?|relative risks?|prevalence ratios?))"
    r"|(?P<standardised_mean_difference>\bSMDs?\b|(?i:standardi[sz]ed mean differences?)"
    r"|(?:Cohen[’']?s|Hedges[’']?) [dg]\b|(?i:effect size))"
    r"|(?P<risk_difference>\bARR\b|(?i:(?:risk|rate) differences?|percentage points?))"
    r"|(?P<coefficient>\bβ|(?i:\bbeta\b|coefficients?|correlation))"
    r"|(?P<mean_difference>\bW?MDs?\b|(?i:differences?\b|\bpoints?\b"
    r"|\b(?:lower|higher|less|more|fewer|greater)\b))"
)
_NUM = r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+|(?<=\d))(?![\d.]*\d)"
_NUMBER = re.compile(rf"(?<![\d.\w])({_NUM})|(?<=[\d(\[ ])(-{_NUM})")
_LEVEL = re.compile(
    r"(?P<level>\d{2}(?:\.\d)?)\s?%\s*(?=(?:C\.?I|confidence|credible)|[^\d]*-?\d)", re.IGNORECASE
)
_NAMED = re.compile(r"\b(?:C\.?I\.?|confidence intervals?|credible intervals?)[\]):,=]*", re.I)
_ENDS = re.compile(
    rf"\W*?(?P<low>{_NUM})\s*%?\s*(?:-|to\b|,|;|and\b|<\s?\w+\s?<)\s*[(\[]?\s*(?P<high>{_NUM})"
    r"\s*%?[)\]]?\s*[^\d]{0,20}"
)
_BRACKETED = re.compile(r"[(\[][^()\[\]]*(?:\bCI\b|confidence)[^()\[\]]*[)\]]", re.I)
_COUNTS = re.compile(r"\b(\d[\d,]*)\s?(?:/|of|out of|among)\s?(\d[\d,]*)")
_LESS = re.compile(r"\b(?:lower|less|fewer|reduc\w+|decreas\w+|shorter)\b", re.I)
_MORE = re.compile(r"\b(?:higher|more|greater|increas\w+|longer)\b", re.I)
_UNIT = re.compile(r"\s*([%°µμa-zA-Z][\w/%°µμ²³.]*)?")
_PER_CENT = re.compile(r"\s*(?:%|per ?cent|points?\b)", re.I)
_TO_EVENT = re.compile(r"\bsurviv|\btime (?:to|until)\b|[- ]free interval", re.I)
"""Outcomes whose hazard or rate is that of the event that ends them: deaths end survival."""
_AGAINST = re.compile(r"\b(?:compared|versus|vs|rather than)\b")
"""What stands behind it is not the outcome: "treatment success compared to failure"."""
_P = re.compile(r"(?P<than>[<≤>≥=]?)\s*(?P<p>0?\.\d+|1(?:\.0+)?)(?![\d.])")
_POWER = re.compile(
    r"(?P<than>[<≤>≥=]?)\s*(?<![\d.])(?:(?P<p>\d*\.?\d+)\s?(?:e|[x×*]\s?10)|10)"
    r"\s?\^?\s?[({]?-\s?(?P<power>\d{1,3})(?!\d)",
    re.I,
)
"""A p of many places: 3.2 × 10⁻⁵, 2e-5, 10^-4."""
_NOT_SIGNIFICANT = re.compile(
    r"\bn\.?s\b|not (?:statistically )?significant|non-?significant", re.I
)
ALPHA = 0.05
_SIGNS = str.maketrans("–—−‐‑·", "-----.")
_ENDLESS = re.compile(r"(?:\d,?){30}")
_ASYMMETRY = 0.15
"""Share of an interval's width that its middle may be off the estimate: rounding, bootstraps."""


@dataclass(frozen=True)
class Effect:
    """An effect of the intervention against the comparator, with its interval of `level`.

    `counted`: made from the events and people of both arms, as no ratio was printed; `corrected`:
    half an event was added to each cell, as one was empty.
    """

    kind: str
    value: float
    low: float
    high: float
    level: float = 0.95
    unit: str = ""
    counted: bool = False
    corrected: bool = False

    @property
    def is_ratio(self) -> bool:
        """Whether it is pooled on the scale of logarithms."""
        return self.kind in RATIOS

    @property
    def estimate(self) -> float:
        """The estimate on the scale that it is pooled on."""
        return math.log(self.value) if self.is_ratio else self.value

    @property
    def variance(self) -> float:
        """The squared standard error on that scale, by the interval's width."""
        low, high = (math.log(e) if self.is_ratio else e for e in (self.low, self.high))
        return ((high - low) / (2 * NormalDist().inv_cdf(0.5 + self.level / 2))) ** 2

    @property
    def crosses(self) -> bool:
        """Whether the interval holds no effect."""
        return self.low <= (1.0 if self.is_ratio else 0.0) <= self.high

    def turned(self) -> Effect:
        """The effect of the comparator against the intervention."""
        if self.is_ratio:
            ends = 1 / self.value, 1 / self.high, 1 / self.low
        else:
            ends = -self.value, -self.high, -self.low
        return replace(self, value=ends[0], low=ends[1], high=ends[2])

    def __str__(self) -> str:
        """As it is shown: kind, value and interval."""
        unit = f" {self.unit}" if self.unit else ""
        shown = f"{self.kind} {self.value:.3g}{unit} ({self.level:.0%} {self.low:.3g} to"
        how = "; from counts" + (", half an event added" if self.corrected else "")
        return f"{shown} {self.high:.3g}{how if self.counted else ''})"


@dataclass(frozen=True)
class Unpooled:
    """Why an effect cannot be pooled."""

    reason: str


_IMPOSSIBLE = Unpooled("a number that cannot be")
"""More digits than any count or measure has, or an interval that no float holds."""


def read_effect(
    effect: str, interval: str, direction: str = "", outcome: str = "", quote: str = ""
) -> Effect | Unpooled:
    """Read an effect and its interval as printed, towards the direction that the paper tells.

    A ratio or difference that points the other way than `direction` is Unpooled, and so is a
    difference without sign where the outcome's words do not tell what is good.
    """
    if _ENDLESS.search(effect) or _ENDLESS.search(interval):
        return _IMPOSSIBLE
    told, ends = effect.translate(_SIGNS), _interval(interval.translate(_SIGNS))
    if isinstance(ends, Unpooled):
        counted = _counted(told)
        return _oriented(counted, told, direction, outcome) if counted else _why(told, ends)
    low, high, level = ends
    bare = _BRACKETED.sub("", told)
    values = [(m.start(), m.end(), float(m[0].replace(",", ""))) for m in _NUMBER.finditer(bare)]
    inside = [each for each in values if low <= each[2] <= high]
    if not inside:
        # "3.3 mmHg lower, 0.3 to 6.3" is inside; "-26%, -0.41% to -0.12%" is a slip of the pen.
        return Unpooled("the estimate does not lie in its interval" if values else "no estimate")
    start, end, value = min(inside, key=lambda each: _apart(bare, each[0]))
    kind = _kind(bare, start) or _kind(quote.translate(_SIGNS), alone=True)
    if not kind:
        return Unpooled("the kind of effect is not printed")
    if kind not in (*RATIOS, *DIFFERENCES):
        return Unpooled(f"a {kind} is not pooled")
    if kind in RATIOS and low <= 0:
        return Unpooled("a ratio with an end of its interval at or below 0")
    if kind in RATIOS and _PER_CENT.match(bare, end):
        return Unpooled("a ratio in per cent")
    if kind == "risk difference":
        parts = _as_parts(value, low, high, bare[end:], interval)
        if parts is None:
            return Unpooled("a risk difference whose unit is not told")
        value, low, high = parts
    unit = _UNIT.match(bare, end)
    named = unit[1] if unit and unit[1] and kind == "mean difference" else ""
    named = "" if _LESS.match(named) or _MORE.match(named) or named in ("vs", "to") else named
    read = Effect(kind, value, low, high, level, named)
    if not read.variance:
        return _IMPOSSIBLE
    if abs(read.estimate - _middle(read)) > _ASYMMETRY * _width(read):
        return Unpooled("the interval is not symmetric on the scale of the effect")
    return _oriented(read, bare, direction, outcome)


def from_counts(events: int, people: int, others_events: int, others: int) -> Effect | Unpooled:
    """The risk ratio of two arms; half an event in each cell where one is empty.

    Without events in both arms, or with events in all people of both, nothing is told.
    """
    if not 0 <= events <= people or not 0 <= others_events <= others or not people or not others:
        return Unpooled("counts that cannot be")
    if events + others_events == 0 or (events == people and others_events == others):
        return Unpooled("no events in both arms, or nothing else: they tell no ratio")
    cells = (events, people - events, others_events, others - others_events)
    empty = 0 in cells
    a, b, c, d = (cell + 0.5 * empty for cell in cells)
    log = math.log(a / (a + b)) - math.log(c / (c + d))
    error = math.sqrt(1 / a - 1 / (a + b) + 1 / c - 1 / (c + d))
    z = NormalDist().inv_cdf(0.975)
    ends = math.exp(log - z * error), math.exp(log + z * error)
    return Effect("risk ratio", math.exp(log), *ends, counted=True, corrected=empty)


def unconfirmed(p: str, interval: str, read: Effect | Unpooled) -> bool:
    """Whether the printed test leaves "no effect" open: p above .05, or an interval that holds it.

    Of an interval that is not read as an effect only ends on both sides of 0 are known to do so.
    """
    if isinstance(read, Effect) and read.crosses:
        return True
    if tested := _tested(p):
        than, value = tested
        return value >= ALPHA if than in (">", "≥") else value > ALPHA
    ends = _interval(interval.translate(_SIGNS))
    return bool(_NOT_SIGNIFICANT.search(p)) or (
        not isinstance(ends, Unpooled) and ends[0] < 0 < ends[1]
    )


def _tested(p: str) -> tuple[str, float] | None:
    """The sign and the number of a p, also with a decimal comma or as a power of ten."""
    told = unicodedata.normalize("NFKC", p).translate(_SIGNS)
    told = re.sub(r"(?<![\d.])0,(?=\d)", "0.", told)
    if power := _POWER.search(told):
        return power["than"], float(power["p"] or 1) * 10.0 ** -int(power["power"])
    tested = _P.search(told)
    return (tested["than"], float(tested["p"])) if tested else None


def _interval(text: str) -> tuple[float, float, float] | Unpooled:
    if not text.strip():
        return Unpooled("no interval")
    level = _LEVEL.search(text)
    bare = _NAMED.sub("", text[level.end() :] if level else text)
    bare = bare.replace("confidence interval", "")
    found = _ENDS.fullmatch(bare.strip())
    if not found:
        several = len(_NUMBER.findall(bare)) > 2
        return Unpooled("more than one interval" if several else "an interval that is not read")
    low, high = (float(found[name].replace(",", "")) for name in ("low", "high"))
    if low >= high:
        return Unpooled("an interval without width, or the wrong way round")
    share = float(level["level"]) / 100 if level else 0.95
    return low, high, share if 0.5 < share < 1 else 0.95


def _as_parts(
    value: float, low: float, high: float, behind: str, interval: str
) -> tuple[float, float, float] | None:
    """A risk difference and its ends as parts of one; None if they are no parts and no per cent.

    Studies print one result as "−3.2 %" and as "−0.032".
    """
    if _PER_CENT.match(behind) or "%" in _LEVEL.sub("", interval):
        return value / 100, low / 100, high / 100
    per_people = re.search(r"\bper\b", behind) is not None
    return None if per_people or low < -1 or high > 1 else (value, low, high)


def _why(told: str, ends: Unpooled) -> Unpooled:
    if ends.reason == "no interval" and told.count("%") >= 2:
        return Unpooled("percentages without numbers of people")
    return ends


def _counted(told: str) -> Effect | None:
    """A risk ratio from "30 of 378 vs. 42 of 86", None for anything else."""
    pairs = [[int(n.replace(",", "")) for n in pair] for pair in _COUNTS.findall(told)]
    if len(pairs) != 2 or not re.search(r"\b(?:vs|versus|compared)\b", told):
        return None
    made = from_counts(*pairs[0], *pairs[1])
    return made if isinstance(made, Effect) else None


def _apart(text: str, place: int) -> int:
    """How far a number stands behind the nearest word for a kind of effect before it."""
    ends = [m.end() for m in _KIND.finditer(text) if m.end() <= place]
    return place - ends[-1] if ends else len(text) + place


def _kind(text: str, place: int = 0, alone: bool = False) -> str:
    """The kind named nearest before a place, else first behind it; `alone`, the only one named."""
    found = [
        (m.end() <= place, m.start() if m.end() <= place else -m.start(), m.lastgroup or "")
        for m in _KIND.finditer(text)
    ]
    if alone:
        strong = {name for *_, name in found if name not in ("mean_difference", "coefficient")}
        return strong.pop().replace("_", " ") if len(strong) == 1 else ""
    return max(found)[2].replace("_", " ") if found else ""


def _oriented(read: Effect, told: str, direction: str, outcome: str) -> Effect | Unpooled:
    """The effect with the sign that words and direction tell."""
    good = polarity(_AGAINST.split(outcome)[0])
    up = {"more": True, "less": False}.get(direction)
    if direction in ("better", "worse") and good:
        up = (direction == "better") == (good == "good")
    ends = _TO_EVENT.search(outcome) if read.kind in ("hazard ratio", "rate ratio") else None
    if ends and direction in ("better", "worse") and ends[0].lower().startswith("time"):
        event = polarity(outcome[ends.end() :])
        up = (direction == "better") == (event == "good") if event else None
    elif up is not None and ends:
        up = not up
    if not read.is_ratio and read.value > 0:
        words = _LESS.search(told), _MORE.search(told)
        if (words[0] and not words[1]) or up is False:
            read = read.turned()
        elif up is None and not words[1] and direction in ("better", "worse"):
            return Unpooled("a difference whose sign nothing tells")
    rises = read.estimate > 0
    if up is not None and rises != up and not read.crosses:
        return Unpooled("the estimate points the other way than the sentence")
    return read


def _middle(read: Effect) -> float:
    low, high = (math.log(e) if read.is_ratio else e for e in (read.low, read.high))
    return (low + high) / 2


def _width(read: Effect) -> float:
    low, high = (math.log(e) if read.is_ratio else e for e in (read.low, read.high))
    return high - low
