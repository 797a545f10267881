from __future__ import annotations

import json
from pathlib import Path

import pytest

from srrag.config import factory
from srrag.config.compose import configure
from srrag.config.factory import title_mode
from srrag.core.errors import UsageError
from srrag.core.stage import Plan
from srrag.corpus.read_jsonl import ReadBeir


def plan(*overrides: str) -> Plan:
    config = configure("build", ["root=R", *overrides])
    return factory.plan(config, factory.make(config["corpus"], "corpus"))


def inputs(made: Plan) -> dict[str, tuple[str, ...]]:
    return {stage.name: stage.inputs for stage in made.stages}


def test_titles_are_searched_unless_told_otherwise() -> None:
    read = inputs(plan())
    assert read["sparse"] == ("windows", "documents")
    assert read["dense"] == read["tokens"] == ("vectors", "windows", "titles")


def test_with_none_nothing_reads_titles() -> None:
    read = inputs(plan("corpus.title=none"))
    assert "titles" not in read
    assert read["sparse"] == ("windows",)
    assert read["dense"] == ("vectors", "windows")
    assert read["tokens"] == ("vectors",)


def test_text_and_field_differ_in_the_sparse_index_alone() -> None:
    field, text = plan(), plan("corpus.title=text")
    differ = {
        stage.name
        for stage in field.stages
        if field.fingerprint(stage.name, ["p"]) != text.fingerprint(stage.name, ["p"])
    }
    assert differ == {"sparse"}


@pytest.mark.parametrize(
    ("overrides", "made"),
    [
        ((), set[str]()),
        (("plan=graph", "stages.names=null"), {"extracts", "triples"}),
        (("plan=graph",), {"extracts", "triples", "findings"}),
        (("engine=http", "engine.model=m"), {"extracts", "triples", "findings"}),
    ],
)
def test_rules_extract_nothing_that_no_stage_reads(
    overrides: tuple[str, ...], made: set[str]
) -> None:
    assert {"extracts", "triples", "findings"} & inputs(plan(*overrides)).keys() == made


def test_an_unknown_word_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match=r"corpus\.title=headline: field, text, none"):
        plan("corpus.title=headline")


def test_keys_in_place_of_a_word_name_the_right_key() -> None:
    with pytest.raises(UsageError, match="title_keys"):
        plan("corpus=jsonl", "corpus.path=x", "corpus.title=[headline]")


@pytest.mark.parametrize(
    ("asked", "mode"), [("does rest HELP", "none"), ("Does ice help?", "field"), (None, "field")]
)
def test_titles_that_are_questions_are_left_out(
    tmp_path: Path, asked: str | None, mode: str
) -> None:
    passage = {"_id": "1", "title": "Does rest help?", "text": "It does not."}
    (tmp_path / "corpus.jsonl").write_text(json.dumps(passage))
    if asked is not None:
        (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": asked}))
    assert title_mode(ReadBeir(path=str(tmp_path))) == mode
    assert title_mode(ReadBeir(path=str(tmp_path), title="field")) == "field"
