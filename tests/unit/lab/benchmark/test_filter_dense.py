from __future__ import annotations

import pytest

from srrag.core.step import Place
from srrag.lab.benchmark.filter_dense import FilterDense, conclusions
from srrag.lab.benchmark.sample import SEEDS
from tests.golden.bench_cases import row

FINDING = (
    "Pain fell by 29 points with high-load strength training and by 12 points with daily plantar "
    "stretching at three months in adults with plantar heel pain."
)
METHODS = (
    "Forty-eight adults with plantar heel pain lasting longer than three months were recruited in "
    "two clinics, examined by ultrasound, and asked for first-step pain every week."
)


def reason(window: str, section: str = "Results") -> str:
    table = FilterDense().open(Place())(row(SEEDS, window=window, section=section))
    (reject,) = table["reject"].to_pylist()
    return reject["reason"] if reject else ""


@pytest.mark.parametrize(
    ("window", "section", "expected"),
    [
        (FINDING, "Results", ""),
        ("Pain fell by 29 points with strength training.", "Results", "thin"),
        (METHODS, "Methods", "no_conclusion"),
        (METHODS, "Results", "no_conclusion"),
        (FINDING, "Background", "no_conclusion"),
        (f"## Table 2\n\n| {FINDING} |\n", "Results", "thin"),
        ("It was as it is, and we do not have more of that here. " * 3 + FINDING, "", "sparse"),
    ],
)
def test_what_says_little_or_concludes_nothing_is_rejected(
    window: str, section: str, expected: str
) -> None:
    assert reason(window, section) == expected


def test_a_row_rejected_before_stays_so() -> None:
    former = {"stage": "x", "reason": "y", "detail": "z"}
    table = row(SEEDS, window=FINDING, reject=former)
    assert FilterDense().open(Place())(table)["reject"].to_pylist() == [former]


def test_the_most_telling_sentence_stands_in_the_window() -> None:
    window = f"We describe two groups of patients.\n\n{FINDING} Both groups liked it."
    best = conclusions(window, "Results")[0]
    assert window[best.start : best.end] == FINDING
    under = "## Conclusion\n\nOne such patient returned to football after five months."
    assert len(conclusions(under, "")) == 1, "under this heading any whole sentence is one"
