"""Findings and their entities by a model: one call a unit, and what becomes of its answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

from srrag.core.schema import DOCUMENTS, KEYED_UNITS, TOPICS
from srrag.engine.openai.engine import HttpEngine
from srrag.reading.vocabulary import _TYPES, Vocabulary
from srrag.rerank.bi_encoder import RerankBiEncoder
from srrag.systems.ideprag.document_keywords import FindDocumentKeywords
from srrag.systems.ideprag.features import ExtractFeatures
from srrag.systems.ideprag.findings import EntityType, ExtractFindings
from srrag.systems.ideprag.search_topics import FindSearchWords
from tests.unit.expand.asking import baseline_faults, questions, scripted
from tests.unit.index.tables import hashed, row
from tests.unit.reading.vocabularies import vocabulary_folder

TEXT = "Aspirin treats fever in adults. Aspirin may cause bleeding."
KEYWORDS = [
    {"name": "Fever", "type": "Disease", "mesh": ""},
    {"name": "Aspirin", "type": "Drug", "mesh": ""},
]


def units(*keywords: dict[str, str]) -> pa.Table:
    made = row(KEYED_UNITS, unit_id=hashed("u"), doc_id=hashed("d"), title="Aspirin for fever",
               text=TEXT, char_start=100, keywords=list(keywords))  # fmt: skip
    return pa.Table.from_pylist([made], schema=KEYED_UNITS)


def found(tmp_path: Path, *findings: dict[str, Any]) -> tuple[list[dict[str, Any]], Any]:
    step = ExtractFindings(vocabulary=Vocabulary(folder=str(vocabulary_folder(tmp_path))))
    text = json.dumps({"findings": list(findings)})
    return scripted(step, units(*KEYWORDS), tmp_path / "run", lambda call: text)


def said(keyword: int, aspect: str, text: str, **entities: str) -> dict[str, Any]:
    named = [{"heading": name, "type": kind} for name, kind in entities.items()]
    return {"keyword": keyword, "aspect": aspect, "text": text, "entities": named}


def test_a_finding_has_its_span_and_its_entities_by_their_headings(tmp_path: Path) -> None:
    told = said(1, "treatment", "aspirin treats fever in adults.", aspirin="Drug", Fever="Disease")
    (made,), usage = found(tmp_path, told, told)
    assert usage.calls == 1
    assert (made["keyword"], made["keyword_type"], made["label"]) == (
        "Fever", "Disease", "treatment",
    )  # fmt: skip
    assert (made["char_start"], made["char_end"]) == (100, 131)
    assert [(each["name"], each["type"]) for each in made["entities"]] == [
        ("Aspirin", "Drug"), ("Fever", "Symptom"),  # the vocabulary knows its type
    ]  # fmt: skip


def test_a_name_that_only_holds_a_heading_keeps_its_own(tmp_path: Path) -> None:
    vocabulary = Vocabulary(folder=str(vocabulary_folder(tmp_path)))
    named = {"Aspirin-Induced Asthma": "Disease", "type 2 diabetes mellitus": "Disease"}
    (made,), _ = found(tmp_path, said(2, "treatment", "Aspirin treats fever.", **named))
    headings = ["Aspirin-Induced Asthma", "Diabetes Mellitus, Type 2"]
    assert [each["name"] for each in made["entities"]] == headings
    assert [bool(each["mesh"]) for each in made["entities"]] == [False, True]
    document = row(DOCUMENTS, doc_id=hashed("d"), title="T", text=TEXT)
    told = json.dumps({"keywords": [{"name": n, "type": kind} for n, kind in named.items()]})
    step = FindDocumentKeywords(vocabulary=vocabulary)
    table = pa.Table.from_pylist([document], schema=DOCUMENTS)
    (made,), _ = scripted(step, table, tmp_path / "keywords", lambda call: told)
    assert [each["name"] for each in made["keywords"]] == headings
    assert [bool(each["mesh"]) for each in made["keywords"]] == [False, True]


def test_what_is_not_verbatim_has_no_span_and_an_odd_item_costs_itself(tmp_path: Path) -> None:
    made, _ = found(
        tmp_path,
        said(2, "adverse reactions", "It can bleed.", Moon="Planet", Hemorrhage="Symptom"),
        said(2, "prognosis", "No label of a drug."),
        said(7, "treatment", "No such keyword."),
    )
    (only,) = made
    assert (only["keyword"], only["char_start"], only["char_end"]) == ("Aspirin", -1, -1)
    assert [each["name"] for each in only["entities"]] == ["Hemorrhage"]


def test_a_number_that_the_unit_lacks_costs_its_finding(tmp_path: Path) -> None:
    texts = ["In 4,000 children, aspirin lowered fever by 45%.", "Aspirin lowers fever."]
    made, usage = found(tmp_path, *(said(1, "treatment", text) for text in texts))
    assert [each["text"] for each in made] == texts[1:]
    assert (usage.faults["ungrounded"], made[0]["reject"]) == (2, None)


def test_a_number_of_the_title_or_a_keyword_is_no_invention(tmp_path: Path) -> None:
    named = {"name": "Diabetes Mellitus, Type 2", "type": "Disease", "mesh": ""}
    (unit,) = units(named).to_pylist()
    batch = pa.Table.from_pylist([unit | {"title": "Aspirin in 90 men"}], schema=KEYED_UNITS)
    text = "In 90 men with diabetes mellitus type 2, aspirin treated fever."
    told = json.dumps({"findings": [said(1, "treatment", text)]})
    (made,), usage = scripted(ExtractFindings(), batch, tmp_path, lambda call: told)
    assert (made["text"], usage.faults) == (text, {})


def test_each_unit_without_an_answer_becomes_a_reject_row(tmp_path: Path) -> None:
    (first,) = units(*KEYWORDS).to_pylist()
    both = pa.Table.from_pylist([first, first | {"unit_id": hashed("v")}], schema=KEYED_UNITS)
    made, _ = scripted(ExtractFindings(), both, tmp_path, lambda call: "I cannot help.")
    assert [each["reject"]["reason"] for each in made] == ["refusal", "refusal"]
    assert [each["unit_id"] for each in made] == [hashed("u"), hashed("v")]


def test_the_types_of_entities_are_those_of_the_paper() -> None:
    ours = {"Treatment"}
    assert {*get_args(EntityType)} == {kind for _, kind in _TYPES} - ours
    assert baseline_faults(ExtractFindings(), units(*KEYWORDS)) == []


def test_an_abstract_is_two_calls_and_a_question_two_before_its_answer() -> None:
    engine = HttpEngine(model="m")
    document = row(DOCUMENTS, doc_id=hashed("d"), title="Aspirin for fever", text=TEXT)
    table = pa.Table.from_pylist([document], schema=DOCUMENTS)
    (first,) = FindDocumentKeywords(engine=engine).prompts(table)
    assert "at most 5" in first.system
    untold = pa.Table.from_pylist([document | {"text": " "}], schema=DOCUMENTS)
    assert FindDocumentKeywords(engine=engine).prompts(untold) == []
    (second,) = ExtractFindings(engine=engine).prompts(units(*KEYWORDS))
    assert '"title"' not in second.user and 'Title: "Aspirin for fever"' in second.user
    assert {"treatment", "usage"} <= set(dict(second.enums)["UnitFinding.aspect"])
    assert ExtractFindings(engine=engine).prompts(units()) == []
    topics = [{"topic": n, "text": f"Topic {n}.", "visits": 1.0, "score": 1.0} for n in range(60)]
    asked = questions("Which drug?", options=["Aspirin", "Zinc"])
    walked = asked.append_column("topics", pa.array([topics], TOPICS))
    (words,) = FindSearchWords(engine=engine).prompts(walked)
    (features,) = ExtractFeatures(engine=engine, scorer=RerankBiEncoder()).prompts(walked)
    for prompt in (words, features):
        assert 'Options: ["Aspirin", "Zinc"]' in prompt.user


@pytest.mark.parametrize("score", [-1, 11])
def test_a_score_beyond_the_scale_costs_its_feature(score: int, tmp_path: Path) -> None:
    topic = {"topic": 1, "text": "Fever: treatment. Aspirin.", "visits": 1.0, "score": 1.0}
    walked = questions("Which?").append_column("topics", pa.array([[topic]], TOPICS))
    given = [{"text": "Aspirin treats fever.", "score": 9}, {"text": "No.", "score": score}]
    text = json.dumps({"features": given})
    step = ExtractFeatures(scorer=RerankBiEncoder())
    (made,), _ = scripted(step, walked, tmp_path, lambda call: text)
    assert [(each["text"], each["score"]) for each in made["features"]] == [
        ("Aspirin treats fever.", 9.0)
    ]


def test_a_text_of_several_topics_is_shown_once() -> None:
    texts = ["Aspirin lowers fever.", "Rest helps.", "Aspirin lowers fever."]
    topics = [{"topic": n, "text": x, "visits": 1.0, "score": 1.0} for n, x in enumerate(texts)]
    walked = questions("Which drug?").append_column("topics", pa.array([topics], TOPICS))
    step = ExtractFeatures(engine=HttpEngine(model="m"), scorer=RerankBiEncoder())
    (prompt,) = step.prompts(walked)
    assert prompt.user.count("Aspirin lowers fever.") == 1 and "Rest helps." in prompt.user
