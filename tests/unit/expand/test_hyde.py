from __future__ import annotations

import json
import re
from pathlib import Path

from srrag.engine.openai.engine import HttpEngine
from srrag.expand.hyde import NUM_PASSAGES, TEMPERATURE, HydePassages, WriteHyde
from tests.unit.expand.asking import anchored, by_rules, scripted, with_reject

QUESTION = "Do night splints reduce pain in adults with heel pain after 6 weeks?"
ANCHORS = {"P": ["adults with heel pain"], "I": ["night splints"], "T": ["6 weeks"]}


def test_three_passages_at_the_temperature_of_table_s3_in_one_call() -> None:
    assert (NUM_PASSAGES, TEMPERATURE) == (3, 0.3)
    step = WriteHyde(engine=HttpEngine(model="m"))
    (prompt,) = step.prompts(anchored(QUESTION, **ANCHORS))
    assert prompt.temperature == TEMPERATURE
    assert "a list of exactly 3" in prompt.system
    shown = '"P": ["adults with heel pain"], "I": ["night splints"], "C": [], "O": [], "T": ["6 we'
    assert shown in prompt.user


def test_equal_passages_count_once_and_a_fault_rejects_its_row(tmp_path: Path) -> None:
    said = json.dumps({"passages": ["Pain fell.", "Pain fell.", "Splints helped. RR 0.3."]})
    table = anchored(QUESTION, **ANCHORS)
    (row,), usage = scripted(WriteHyde(), table, tmp_path / "a", lambda call: said)
    assert (row["hyde_passages"], usage.calls) == (["Pain fell.", "Splints helped."], 1)
    (lost,), _ = scripted(WriteHyde(), table, tmp_path / "b", lambda call: "I cannot help.")
    assert (lost["reject"]["stage"], lost["hyde_passages"]) == ("hyde", [])


def test_rules_write_none() -> None:
    table = anchored(QUESTION, **ANCHORS)
    assert WriteHyde().prompts(table) == []
    (row,) = by_rules(WriteHyde(), table)
    assert (row["hyde_passages"], row["reject"]) == ([], None)


def test_what_was_rejected_before_is_not_asked() -> None:
    table = with_reject(anchored(QUESTION, **ANCHORS))
    assert WriteHyde(engine=HttpEngine(model="m")).prompts(table) == []
    assert by_rules(WriteHyde(), table)[0]["reject"]["stage"] == "before"


def test_the_example_is_as_long_as_is_asked_and_has_no_number() -> None:
    passages = HydePassages.model_validate(HydePassages.example).passages
    assert all(5 <= len(re.findall(r"\w{2,}\.", each)) <= 8 for each in passages)
    assert all(len(each.split()) >= 35 and not re.search(r"\d", each) for each in passages)
