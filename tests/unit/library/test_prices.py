"""Doctor tells what an engine would cost in a root."""

from __future__ import annotations

import re
from pathlib import Path

from srrag.config.compose import configure
from srrag.library.prices import of_build, of_question, prices
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
