"""Fig. 5's rows: who writes the rationale, who chooses, and what the filter sees."""

from __future__ import annotations

import pytest

from srrag.config.compose import configure
from srrag.lab.experiment.configurations import named

GIVEN = ("bench=mirage", "bench.path=mcq", "root=R", "sweep.filter=F", "sweep.k=4")


def rows(sweep: str) -> dict[str, tuple[str, ...]]:
    return dict(named(configure("sweep", [f"sweep={sweep}", *GIVEN])["sweep"]["rows"], ()))


@pytest.mark.slow
def test_every_row_chooses_an_option_and_the_filter_sees_the_k_retrieved() -> None:
    for name, overrides in rows("rethinking").items():
        config = configure("evaluate", [*GIVEN[:3], *overrides])
        steps = {**config["pipeline"]["answer"]}
        assert [*filter(steps.get, steps)][-1] == "choose", name
        if name.endswith(("filter", "both")):
            rank = config["pipeline"]["rank"]
            assert rank["filter"]["depth"] == 4
            assert rank["judge"]["depth"] == 32, "one judgement of each pair for every k"
            assert rank["judge"]["model"] == rank["filter"]["model"] == "F"


def test_recorded_rationales_are_searched_for_and_rules_choose() -> None:
    made = rows("rethinking_recorded")
    assert {"model", "model_medrag"} < made.keys() and made.keys() > rows("rethinking").keys()
    config = configure("evaluate", [*GIVEN[:3], *made["bm25_rationale"]])
    rank, answer = (config["pipeline"][part] for part in ("rank", "answer"))
    assert rank["reason"]["engine"]["_target_"] == "RecordedEngine"
    assert rank["reason"]["engine"]["setting"] == "cot" and rank["sparse"]["text"] == "rationale"
    assert answer["choose"]["engine"] == {"_target_": "Rules"}
