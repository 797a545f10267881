"""Doctor tells what an engine would cost in a root."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from srrag.config.compose import configure
from srrag.core.step import Place
from srrag.library.prices import of_build, of_question, prices
from srrag.runner.engines import log_folder
from srrag.runner.estimate import EstimateJob
from tests.conftest import linked


def test_a_question_and_the_build_of_a_root_have_a_price(sample_root: Path) -> None:
    given = [
        f"root={sample_root}", "engine=http", "engine.model=m",
        "engine.usd_per_mtok_in=0.3", "engine.usd_per_mtok_out=1.2",
    ]  # fmt: skip
    config = configure("doctor", given)
    assert re.fullmatch(
        r"55 documents, of which 20 were rendered: about [\d,]+ tokens in, [\d,]+ out, .+ USD",
        of_build(config),
    )
    assert re.fullmatch(
        r"[1-4] calls, about [\d,]+ tokens in, [\d,]+ out, 0\.0\d+ USD", of_question(config)
    )


def test_prices_are_of_the_build_that_is_named_and_of_none_that_does_not_stand(
    sample_root: Path, tmp_path: Path
) -> None:
    root = linked(sample_root, tmp_path / "root")
    (root / "builds" / "default.json").rename(root / "builds" / "other.json")
    given = [f"root={root}", "engine=http", "engine.model=m"]
    found = prices(configure("doctor", [*given, "build=other"]))
    assert [each["check"] for each in found] == ["question", "build"]
    assert all(each["ok"] and "no price known" in each["detail"] for each in found)
    assert prices(configure("doctor", [*given, "build=default"])) == []


def test_a_build_has_its_price_whatever_the_log_of_the_root_holds(
    sample_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs: list[Path] = []

    def run(job: EstimateJob, records: Any, at: Place) -> dict[str, Any]:
        logs.append(log_folder(at))
        return dict.fromkeys(("tokens_in", "tokens_out", "usd"), 0)

    monkeypatch.setattr(EstimateJob, "run", run)
    given = [f"root={sample_root}", "engine=http", "engine.model=m", "engine.usd_per_mtok_in=0"]
    told = of_build(configure("doctor", [*given, "engine.usd_per_mtok_out=0"]))
    assert not logs[0].exists() and not logs[0].is_relative_to(sample_root)
    assert told.endswith("0.0000 USD"), "a price of nothing is one"
