"""Effects as papers print them, and what becomes of those that cannot be pooled."""

from __future__ import annotations

import math

import numpy as np
import pytest

from srrag.synthesis.effects import Effect, Unpooled, from_counts, pool, read_effect, unconfirmed


@pytest.mark.parametrize(
    ("effect", "interval", "direction", "outcome", "kind", "ends"),
    [
        ("17.6% vs. 60.3%, OR 0.106", "95% 0.057-0.194", "better", "failure", "odds ratio",
         (0.106, 0.057, 0.194)),
        ("hazard ratio 2.2", "95% C.I. 1.2-4.0", "worse", "mortality", "hazard ratio",
         (2.2, 1.2, 4.0)),
        ("summary rate ratio 0.18, PE 82% (95% CI 75-87%)", "95% 0.13-0.25", "better", "malaria",
         "rate ratio", (0.18, 0.13, 0.25)),
        ("11 (55%) vs. 12 (54.5%), risk ratio 1.0083", "95% 0.5817 to 1.7480", "no difference",
         "adverse events", "risk ratio", (1.0083, 0.5817, 1.7480)),
        ("aOR 2.5", "95% CI, 1.6 to 3.9", "better", "treatment success compared to failure",
         "odds ratio", (2.5, 1.6, 3.9)),
        ("3.3 mmHg lower", "95% CI 0.3 to 6.3", "better", "systolic blood pressure",
         "mean difference", (-3.3, -6.3, -0.3)),
        ("mean difference −2.46 points", "95% −3.72 to −1.21", "better", "depression score",
         "mean difference", (-2.46, -3.72, -1.21)),
        ("difference 2.1 points", "95% CI 1.0 to 3.2", "better", "pain", "mean difference",
         (-2.1, -3.2, -1.0)),
        ("HR 0.72", "95% CI 0.55 to 0.94", "better", "overall survival", "hazard ratio",
         (0.72, 0.55, 0.94)),
        ("HR 0.72", "95% CI 0.55 to 0.94", "more", "progression-free survival", "hazard ratio",
         (0.72, 0.55, 0.94)),
        ("rate ratio 1.29", "95% CI 1.12 to 1.49", "better", "time to recovery", "rate ratio",
         (1.29, 1.12, 1.49)),
        ("OR 1.50", "95% CI 1.20 to 1.88", "better", "survival", "odds ratio", (1.5, 1.2, 1.88)),
        ("HR 0.70", "95% CI 0.5 to 0.9", "better", "time to first exacerbation", "hazard ratio",
         (0.7, 0.5, 0.9)),
        ("SMD −0.39", "−0.58 to −0.19", "less", "pain", "standardised mean difference",
         (-0.39, -0.58, -0.19)),
        ("Standardized mean difference −0.42", "−0.70 to −0.14", "less", "pain",
         "standardised mean difference", (-0.42, -0.70, -0.14)),
        ("Hazard ratio 0.72", "0.55 to 0.94", "better", "death", "hazard ratio",
         (0.72, 0.55, 0.94)),
        ("Risk difference −3.2%", "95% CI −5.0 to −1.4", "better", "death", "risk difference",
         (-0.032, -0.05, -0.014)),
        ("risk difference −3.2", "95% CI −5.0% to −1.4%", "better", "death", "risk difference",
         (-0.032, -0.05, -0.014)),
        ("risk difference −3.2 percentage points", "−5.0 to −1.4", "better", "death",
         "risk difference", (-0.032, -0.05, -0.014)),
        ("risk difference −0.032", "95% CI −0.050 to −0.014", "better", "death",
         "risk difference", (-0.032, -0.05, -0.014)),
    ],
)  # fmt: skip
def test_kind_estimate_and_interval_are_read_as_printed(
    effect: str, interval: str, direction: str, outcome: str, kind: str, ends: tuple[float, ...]
) -> None:
    read = read_effect(effect, interval, direction, outcome)
    assert isinstance(read, Effect), read
    assert read.kind == kind and (read.value, read.low, read.high) == pytest.approx(ends)


@pytest.mark.parametrize(
    ("effect", "interval", "direction", "outcome", "reason"),
    [
        ("RR 0.8", "", "better", "death", "no interval"),
        ("", "0.5 to 0.9", "better", "death", "no estimate"),
        ("33% vs. 18%", "", "better", "treatment success", "percentages without numbers"),
        ("36.8 y vs. 27.6 y", "95% 34.0-39.7 vs. 25.2-30.2", "better", "life", "more than one"),
        ("RR = 1.19", "95% 1.20-2.08", "more", "belief", "does not lie in its interval"),
        ("0.29", "95% 0.01-0.57", "better", "quality of life", "kind of effect is not printed"),
        ("β = 0.72", "95% 0.21-1.23", "better", "self-efficacy", "coefficient is not pooled"),
        ("reduced by 21%", "95% 0 to 38%", "better", "dysentery", "relative reduction is not"),
        ("OR 0.5", "95% 0.4 to 2.9", "unclear", "death", "not symmetric"),
        ("relative risk reduction 25%", "95% CI 18 to 31", "better", "stroke",
         "relative reduction is not"),
        ("Relative risk reduction 25%", "95% CI 18% to 31%", "less", "death",
         "relative reduction is not"),
        ("RR 25%", "95% CI 18 to 31", "better", "stroke", "ratio in per cent"),
        ("risk difference −3.2", "−5.0 to −1.4", "better", "death", "unit is not told"),
        ("rate difference −0.4 per 100 person-years", "−0.6 to −0.2", "better", "death",
         "unit is not told"),
        ("risk difference 0.4 events per 100", "0.2 to 0.6", "worse", "death", "unit is not told"),
        ("OR 2.5", "95% 1.6 to 3.9", "better", "death", "points the other way"),
        ("difference of 46 μg/h", "95% 24-70", "better", "fentanyl dose", "sign nothing tells"),
        ("OR 0.5", "95% -0.1 to 0.9", "better", "death", "at or below 0"),
        ("OR 0.5", "95% 0.9 to 0.1", "better", "death", "wrong way round"),
        ("OR 0.5", "see table 3", "better", "death", "not read"),
        ("OR 0.5", f"0.4 to {'9' * 400}", "better", "death", "cannot be"),
        (f"mean difference {'9' * 4400}", "1 to 3", "better", "death", "cannot be"),
        (f"{'9' * 4400} of {'9' * 4400} vs. 3 of 4", "", "better", "death", "cannot be"),
        (f"{'999,' * 120}999 of 7 vs. 3 of 4", "", "better", "death", "cannot be"),
        ("OR 1e0 100000000000000000000", "100000000000000000000 to 100000000000000016384", "more",
         "death", "cannot be"),
        ("mean difference 0", f"-1 to 0.{'0' * 400}1", "more", "death", "cannot be"),
    ],
)  # fmt: skip
def test_what_cannot_be_pooled_is_told_with_its_reason(
    effect: str, interval: str, direction: str, outcome: str, reason: str
) -> None:
    read = read_effect(effect, interval, direction, outcome)
    assert isinstance(read, Unpooled) and reason in read.reason


def test_a_risk_ratio_is_made_of_the_events_and_people_of_both_arms() -> None:
    read = read_effect("30 of 378 [7.94%] vs. 42 of 86 [48.8%]", "", "better", "carriage")
    assert isinstance(read, Effect) and read.counted and not read.corrected
    assert read.value == pytest.approx((30 / 378) / (42 / 86))
    assert read.variance == pytest.approx(1 / 30 - 1 / 378 + 1 / 42 - 1 / 86)


def test_an_empty_cell_gets_half_an_event_and_two_empty_arms_tell_nothing() -> None:
    read = from_counts(0, 20, 3, 22)
    assert isinstance(read, Effect) and read.corrected
    assert read.value == pytest.approx((0.5 / 21) / (3.5 / 23))
    assert "half an event" in str(read)
    assert isinstance(from_counts(0, 20, 0, 22), Unpooled)
    assert isinstance(from_counts(21, 20, 0, 22), Unpooled)


def test_a_turned_effect_is_that_of_the_other_side() -> None:
    ratio = Effect("odds ratio", 0.5, 0.25, 0.8).turned()
    assert (ratio.value, ratio.low, ratio.high) == (2, 1.25, 4)
    difference = Effect("mean difference", -2, -3, 1).turned()
    assert (difference.value, difference.low, difference.high) == (2, -1, 3)
    assert ratio.estimate == math.log(2) and difference.crosses and not ratio.crosses


def test_the_level_of_an_interval_decides_the_variance() -> None:
    sure = read_effect("OR 1.30", "99% 0.75-2.26", "no difference", "preeclampsia")
    assert isinstance(sure, Effect) and sure.level == 0.99
    assert sure.variance == pytest.approx((math.log(2.26 / 0.75) / (2 * 2.5758293)) ** 2)


@pytest.mark.parametrize(
    ("p", "interval", "unproven"),
    [
        ("0.09", "", True),
        ("> 0.05", "", True),
        ("NS", "", True),
        ("not significant", "", True),
        ("adj = 0.24", "", True),
        ("0.05", "", False),
        ("< 0.05", "", False),
        ("<.001", "95% -2 to 3", False),
        (".02", "", False),
        ("=0·26", "", True),
        ("0,26", "", True),
        ("0,03", "", False),
        ("< 0.10", "", True),
        ("3.2 × 10-5", "", False),
        ("= 3.2 × 10⁻⁵", "95% -2 to 3", False),
        ("2.1e-05", "", False),
        ("1×10-6", "", False),
        ("< 10−4", "", False),
        ("2 x 10^-1", "", True),
        ("", "95% -1.409, 0.698", True),
        ("", "95% −2.45, 0.01", True),
        ("", "95% 0.2 to 3.1", False),
        ("significant", "", False),
        ("", "", False),
    ],
)
def test_a_test_that_leaves_no_effect_open_is_known(p: str, interval: str, unproven: bool) -> None:
    assert unconfirmed(p, interval, Unpooled("no interval")) is unproven


def test_a_ratio_whose_interval_holds_one_confirms_nothing() -> None:
    read = read_effect("OR 0.8", "95% CI 0.6 to 1.1")
    assert unconfirmed("", "", read)


pytest.importorskip("statsmodels", reason="the extra `synthesis` is not installed")

# Events and others of both arms: BCG and tuberculosis (Colditz et al., JAMA 1994;271:698, Table 1).
BCG = (
    (4, 119, 11, 128), (6, 300, 29, 274), (3, 228, 11, 209), (62, 13536, 248, 12619),
    (33, 5036, 47, 5761), (180, 1361, 372, 1079), (8, 2537, 10, 619), (505, 87886, 499, 87892),
    (29, 7470, 45, 7232), (17, 1699, 65, 1600), (186, 50448, 141, 27197), (5, 2493, 3, 2338),
    (27, 16886, 29, 17825),
)  # fmt: skip
# Deaths and people: prophylactic lidocaine (Hine et al., Arch Intern Med 1989;149:2694).
LIDOCAINE = (
    (2, 39, 1, 43), (4, 44, 4, 44), (6, 107, 4, 110), (7, 103, 5, 100), (7, 110, 3, 106),
    (11, 154, 4, 146),
)  # fmt: skip
# Deaths and people: aspirin after infarction (Fleiss, Stat Methods Med Res 1993;2:121).
ASPIRIN = (
    (49, 615, 67, 624), (44, 758, 64, 771), (102, 832, 126, 850), (32, 317, 38, 309),
    (85, 810, 52, 406), (246, 2267, 219, 2257), (1570, 8587, 1720, 8600),
)  # fmt: skip
# People, days in hospital and SD: stroke units (Normand, Stat Med 1999;18:321, Table II).
STROKE = (
    (155, 55, 47, 156, 75, 64), (31, 27, 7, 32, 29, 4), (75, 64, 17, 71, 119, 29),
    (18, 66, 20, 18, 137, 48), (8, 14, 8, 13, 18, 11), (57, 19, 7, 52, 18, 4),
    (34, 52, 45, 33, 41, 34), (110, 21, 16, 183, 31, 27), (60, 30, 27, 52, 23, 20),
)  # fmt: skip
# Standardised mean differences and variances: teachers' expectancy (Raudenbush, J Educ Psychol
# 1984;76:85), and six studies of Borenstein et al., Introduction to Meta-Analysis (2009), ch. 14.
EXPECTANCY = (
    (0.03, 0.0156), (0.12, 0.0216), (-0.14, 0.0279), (1.18, 0.1391), (0.26, 0.1362),
    (-0.06, 0.0106), (-0.02, 0.0106), (-0.32, 0.0484), (0.27, 0.0269), (0.80, 0.0630),
    (0.54, 0.0912), (0.18, 0.0497), (-0.02, 0.0835), (0.23, 0.0841), (-0.18, 0.0253),
    (-0.06, 0.0279), (0.30, 0.0193), (0.07, 0.0088), (-0.07, 0.0303),
)  # fmt: skip
TEXTBOOK = (
    (0.095, 0.033), (0.277, 0.031), (0.367, 0.050), (0.664, 0.011), (0.462, 0.043), (0.185, 0.023),
)  # fmt: skip

Estimates = tuple[list[float], list[float]]


def odds(cells: tuple[tuple[int, int, int, int], ...], *, of_all: bool) -> Estimates:
    four = [(a, n - a, c, m - c) if of_all else (a, n, c, m) for a, n, c, m in cells]
    return (
        [math.log(a * d / (b * c)) for a, b, c, d in four],
        [1 / a + 1 / b + 1 / c + 1 / d for a, b, c, d in four],
    )


def risks(cells: tuple[tuple[int, int, int, int], ...]) -> Estimates:
    return (
        [math.log(a / (a + b) / (c / (c + d))) for a, b, c, d in cells],
        [1 / a - 1 / (a + b) + 1 / c - 1 / (c + d) for a, b, c, d in cells],
    )


def differences(cells: tuple[tuple[int, int, int, int], ...]) -> Estimates:
    """In percentage points."""
    return (
        [100 * (a / n - c / m) for a, n, c, m in cells],
        [1e4 * (a / n * (1 - a / n) / n + c / m * (1 - c / m) / m) for a, n, c, m in cells],
    )


def means() -> Estimates:
    return (
        [float(m - k) for _, m, _, _, k, _ in STROKE],
        [
            ((n - 1) * s**2 + (o - 1) * t**2) / (n + o - 2) * (1 / n + 1 / o)
            for n, _, s, o, _, t in STROKE
        ],
    )


ANALYSES: dict[str, Estimates] = {
    "BCG": odds(BCG, of_all=False),
    "lidocaine": differences(LIDOCAINE),
    "aspirin": odds(ASPIRIN, of_all=True),
    "stroke units": means(),
    "expectancy": ([y for y, _ in EXPECTANCY], [v for _, v in EXPECTANCY]),
    "textbook": ([y for y, _ in TEXTBOOK], [v for _, v in TEXTBOOK]),
}


@pytest.mark.parametrize("name", ANALYSES)
def test_six_meta_analyses_equal_the_formulas_to_four_digits(name: str) -> None:
    """DerSimonian and Laird (1986), equations 2 to 9, written out here."""
    y, v = (np.asarray(each) for each in ANALYSES[name])
    w = 1 / v
    fixed = (w @ y) / w.sum()
    q = w @ (y - fixed) ** 2
    tau2 = max(0.0, (q - len(y) + 1) / (w.sum() - (w @ w) / w.sum()))
    r = 1 / (v + tau2)
    random, error = (r @ y) / r.sum(), 1 / math.sqrt(r.sum())
    made = pool(list(y), list(v))
    assert made.fixed == pytest.approx(fixed, abs=5e-5)
    assert made.random == pytest.approx(random, abs=5e-5)
    assert made.random_interval == pytest.approx(
        (random - 1.959964 * error, random + 1.959964 * error), abs=5e-5
    )
    assert made.q == pytest.approx(q, abs=5e-5) and made.tau2 == pytest.approx(tau2, abs=5e-5)
    assert made.i2 == pytest.approx(max(0.0, (q - len(y) + 1) / q), abs=5e-5)


def test_bcg_equals_what_metafor_prints() -> None:
    """metafor 1.9, rma(measure = "OR", method = "DL") on dat.bcg, as published with its output."""
    made = pool(*ANALYSES["BCG"])
    assert round(made.random, 4) == -0.7474 and round(made.tau2, 4) == 0.3663
    assert [round(end, 4) for end in made.random_interval] == [-1.1242, -0.3706]
    assert round(made.q, 4) == 163.1649 and round(100 * made.i2, 2) == 92.65


def test_bcg_as_risk_ratios_equals_what_metafor_prints() -> None:
    """rma(yi, vi, data = dat.bcg, method = "DL" and "FE"), as published."""
    made = pool(*risks(BCG))
    assert round(made.q, 4) == 152.2330 and round(100 * made.i2, 2) == 92.12
    assert round(made.random, 4) == -0.7141 and round(made.tau2, 4) == 0.3088
    assert [round(end, 4) for end in made.random_interval] == [-1.0644, -0.3638]
    assert round(made.fixed, 4) == -0.4303


def test_lidocaine_and_stroke_units_equal_the_tables_of_normand() -> None:
    """Stat Med 1999;18:321, Tables VII and IX, which metafor's own tests hold too."""
    made = pool(*ANALYSES["lidocaine"])
    assert round(made.fixed, 2) == round(made.random, 2) == 2.94 and made.tau2 == 0
    assert [round(end, 1) for end in made.random_interval] == [0.4, 5.5]
    made = pool(*ANALYSES["stroke units"])
    assert round(made.fixed, 2) == -3.49 and round(made.random, 2) == -14.10
    assert [round(end, 2) for end in made.fixed_interval] == [-5.03, -1.96]
    assert [round(end, 2) for end in made.random_interval] == [-24.45, -3.75]
    assert round(made.tau2, 2) == 218.72


def test_the_textbook_example_equals_the_textbook() -> None:
    """Borenstein et al. 2009, ch. 14; its inputs are printed rounded, so two digits are held."""
    made = pool(*ANALYSES["textbook"])
    assert round(made.fixed, 2) == 0.41 and round(made.random, 2) == 0.36


def test_studies_that_differ_less_than_chance_give_one_result_under_both_models() -> None:
    """The library's τ² is below 0 there, and its random effects surer than its fixed ones."""
    made = pool([0.1, 0.11, 0.1], [0.01, 0.02, 0.03])
    assert made.tau2 == 0 and made.i2 == 0
    assert made.random_interval == made.fixed_interval


def test_a_further_study_is_foretold_from_three_on_and_wider_than_the_mean() -> None:
    made = pool(*ANALYSES["BCG"])
    assert made.prediction is not None
    assert made.prediction[0] < made.random_interval[0] < made.random_interval[1]
    assert made.random_interval[1] < made.prediction[1]
    assert pool([0.1, 0.2], [0.01, 0.02]).prediction is None


@pytest.mark.parametrize(
    ("estimates", "variances"),
    [([0.1], [0.1]), ([0.1, 0.2], [0.1]), ([0.1, 0.2], [0.1, 0.0]), ([0.1, math.nan], [0.1, 0.1])],
)
def test_what_cannot_be_pooled_is_refused(estimates: list[float], variances: list[float]) -> None:
    with pytest.raises(ValueError, match=r"two studies|no number"):
        pool(estimates, variances)
