"""Every prompt with fixed inputs: what a model is shown, word for word."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.answer.select.snippets import FindSnippets
from srrag.answer.support.check_answer import CheckAnswer
from srrag.answer.write.choose import ChooseOption
from srrag.answer.write.compose import ComposeAnswer
from srrag.answer.write.read_and_answer import ReadAndAnswer
from srrag.answer.write.unaided import AnswerUnaided
from srrag.config.factory import ontology
from srrag.core.schema import (
    ANCHORS,
    ANSWER,
    CONVERSATION,
    DOCUMENTS,
    EVIDENCE,
    KEYED_UNITS,
    QUESTIONS,
    SNIPPETS,
    TOPICS,
    empty_value,
    sentence_row,
)
from srrag.corpus.chunk import ChunkBySections
from srrag.corpus.grade_documents import GradeDocuments
from srrag.engine.openai.engine import HttpEngine
from srrag.expand import decompose, hyde, picot_anchors
from srrag.expand.plan_search import PlanSearch
from srrag.expand.read_follow_up import ReadFollowUp
from srrag.extract.extract_documents import ExtractDocuments
from srrag.llm import describe
from srrag.llm.completion import Answer, Prompt
from srrag.rerank.bi_encoder import RerankBiEncoder
from srrag.retrieve import ircot
from srrag.systems.biogen import reformulate
from srrag.systems.biogen.paragraph import ComposeParagraph
from srrag.systems.biogen.summarise import SummariseDocuments
from srrag.systems.ideprag.document_keywords import FindDocumentKeywords
from srrag.systems.ideprag.features import ExtractFeatures
from srrag.systems.ideprag.findings import ExtractFindings
from srrag.systems.ideprag.search_topics import FindSearchWords
from srrag.systems.ideprag.topic_summaries import PROMPT as TOPIC_PROMPT
from srrag.systems.rethinking import rationale
from tests.golden.bench_cases import BENCH_CASES
from tests.golden.judge_cases import JUDGE_CASES

RENDERED = Path(__file__).parent / "rendered"
REPOSITORY = Path(__file__).parents[2]

Fill = Callable[[str], str]
"""Turns each input text into the one that is rendered."""

QUESTION = (
    "In adults with chronic plantar heel pain, does high-load strength training reduce pain at "
    "3 months more than stretching?"
)
PASSAGE = (
    "Forty-eight adults with plantar heel pain were randomised to high-load strength training "
    "or stretching. At 3 months the Foot Function Index was 29 points lower with strength "
    "training (95 % CI 6 to 52; P = 0.016)."
)
UNSAID = empty_value(CONVERSATION)
TITLE = "Strength training or stretching for plantar heel pain"
SECTION = "Results > Primary outcome"


def rows(schema: pa.Schema, **values: Any) -> pa.Table:
    """A table of one row, empty but for these values."""
    blank = {field.name: empty_value(field.type) for field in schema}
    return pa.Table.from_pylist([{**blank, "reject": None, **values}], schema=schema)


def evidence(fill: Fill) -> list[dict[str, Any]]:
    """Two pieces of evidence."""
    blank = {field.name: empty_value(field.type) for field in EVIDENCE.value_type}
    guideline = "Clinicians should offer strength training to adults with plantar heel pain."
    return [
        blank
        | {"evidence_id": "e1", "grade": "C", "year": 2015, "title": fill(TITLE)}
        | {"source_id": "h1", "section": fill(SECTION), "text": fill(PASSAGE)},
        blank | {"evidence_id": "e2", "grade": "A", "title": "Heel pain", "text": guideline},
    ]


def asked(schema: type[Answer], module: Any, rendered: tuple[str, str]) -> list[Prompt]:
    """The prompt of a module that renders system and user text."""
    system, user = rendered
    temperature = getattr(module, "TEMPERATURE", 0.0)
    return [Prompt(0, "", system, user, schema, temperature, module.MAX_TOKENS)]


def group_blocks(fill: Fill) -> list[Prompt]:
    text = (
        f"## Results\n\n{fill(PASSAGE)}\n\n- pain: lower\n- function: better\n\nNo harm was seen."
    )
    step = ChunkBySections(target_tokens=30)
    return step.prompts(rows(DOCUMENTS, title=fill(TITLE), text=text))


def grade_document(fill: Fill) -> list[Prompt]:
    title, text = fill("Heel pain in the clinic"), fill("We describe how heel pain is treated.")
    return GradeDocuments().prompts(rows(DOCUMENTS, title=title, text=text))


def extract_document(fill: Fill) -> list[Prompt]:
    text = f"{fill(PASSAGE)}\n\n## {fill(SECTION)}\n\nNo harm was seen."
    table = rows(DOCUMENTS, title=fill(TITLE), text=text)
    return ExtractDocuments(ontology=ontology()).prompts(table)


def said_before(fill: Fill) -> dict[str, Any]:
    """A message, and an answer that cites one paper that is shown again and one that is not."""
    papers = [
        {"key": "h1", "line": fill("grade C, randomised trial: Strength training (h1, 2015)")},
        {"key": "PMID 7", "line": "grade B, systematic review: Heel pain (PMID 7)"},
    ]
    answer = fill("Yes, by 29 points at 3 months. [E1] A guideline advises it. [E2]")
    return {
        "asked": fill("Why is that grade C?"),
        "turns": [{"question": fill("Does strength training help heel pain?"), "answer": answer}],
        "papers": [paper | {"recalled": False} for paper in papers],
    }


def to_answer(fill: Fill, said: object = UNSAID) -> pa.Table:
    """A question with evidence and snippets, and what was said before it."""
    snippet = {"evidence_id": "e1", "text": fill("At 3 months the index was 29 points lower.")}
    return pa.table(
        {
            "text": [fill(QUESTION)],
            "options": [[fill("Strength training"), "Stretching"]],
            "conversation": pa.array([said], CONVERSATION),
            "evidence": pa.array([evidence(fill)], EVIDENCE),
            "snippets": pa.array([[snippet]], SNIPPETS),
        }
    )


def answer_question(fill: Fill) -> list[Prompt]:
    step = ComposeAnswer(snippets="snippets")
    return step.prompts(to_answer(fill))


def read_and_answer(fill: Fill) -> list[Prompt]:
    return ReadAndAnswer().prompts(to_answer(fill))


def read_conversation(fill: Fill) -> list[Prompt]:
    return ReadAndAnswer().prompts(to_answer(fill, said_before(fill)))


def read_follow_up(fill: Fill) -> list[Prompt]:
    return ReadFollowUp().prompts(rows(QUESTIONS, conversation=said_before(fill)))


def choose_option(fill: Fill) -> list[Prompt]:
    return ChooseOption().prompts(to_answer(fill))


def check_answer(fill: Fill) -> list[Prompt]:
    text = evidence(fill)[0]["text"]
    place = {"evidence_id": "e1", "start": text.index(". At 3") + 2, "end": len(text)}
    said = fill("Strength training lowers the index by 31 points.")
    sentences = [
        sentence_row(said, ["e1"], places=[place]),
        sentence_row("It should be offered.", ["e2"], part="evidence"),
    ]
    given = pa.schema([*QUESTIONS, pa.field("evidence", EVIDENCE), *ANSWER])
    told = {"text": fill(QUESTION), "evidence": evidence(fill), "sentences": sentences}
    told |= {"conversation": said_before(fill)}
    table = rows(given, **told)
    return CheckAnswer(engine=HttpEngine(model="m")).prompts(table)


def select_snippets(fill: Fill) -> list[Prompt]:
    return FindSnippets(engine=HttpEngine(model="m")).prompts(to_answer(fill))


def anchored(text: str, anchors: dict[str, list[str]]) -> pa.Table:
    """A question with its anchors."""
    found = empty_value(ANCHORS) | anchors  # type: ignore[operator]
    return pa.table({"text": [text], "anchors": pa.array([found], ANCHORS)})


def picot(fill: Fill) -> list[Prompt]:
    return picot_anchors.FindAnchors().prompts(rows(QUESTIONS, text=fill(QUESTION)))


def decomposed(fill: Fill) -> list[Prompt]:
    step = decompose.DecomposeQuestion(ontology=ontology())
    return step.prompts(anchored(fill(QUESTION), {}))


def planned(fill: Fill) -> list[Prompt]:
    return PlanSearch(ontology=ontology()).prompts(rows(QUESTIONS, text=fill(QUESTION)))


def hypothetical(fill: Fill) -> list[Prompt]:
    anchors = {
        "P": [fill("adults with chronic plantar heel pain")],
        "I": ["high-load strength training"],
        "C": ["stretching"],
        "O": ["pain"],
    }
    return hyde.WriteHyde(engine=HttpEngine(model="m")).prompts(anchored(fill(QUESTION), anchors))


def reformulated(fill: Fill) -> list[Prompt]:
    given = {"topic": fill("heel pain"), "narrative": fill("For a runner of 45.")}
    table = rows(QUESTIONS, text=fill(QUESTION), **given)
    return reformulate.Reformulate(context=True).prompts(table)


def reasoned(fill: Fill) -> list[Prompt]:
    options = [fill("Yes"), "No", "It depends on age"]
    table = rows(QUESTIONS, text=fill(QUESTION), options=options)
    return rationale.WriteRationale().prompts(table)


def unaided(fill: Fill) -> list[Prompt]:
    table = rows(QUESTIONS, text=fill(QUESTION), options=[fill("Yes"), "No"])
    return AnswerUnaided().prompts(table)


def reflected(fill: Fill) -> list[Prompt]:
    notes = [
        (fill("What lowers heel pain?"), fill("One trial favours strength training.")),
        (fill("Does strength training lower heel pain?"), ""),
    ]
    system, user = ircot.render(fill(QUESTION), notes, evidence(fill))
    return [Prompt(0, "", system, user, ircot.Reflection, max_tokens=ircot.Reflect().max_tokens)]


def described(fill: Fill) -> list[Prompt]:
    keywords = (fill("strength training"), "plantar heel pain")
    facts = [fill(PASSAGE), "Plantar heel pain trial compares to stretching"]
    return [describe.render(describe.Topic(keywords, facts), 0)]


def topic(fill: Fill) -> list[Prompt]:
    facts = [fill(PASSAGE), "Stretching relieves plantar heel pain."]
    asked = describe.Topic((fill("Heel pain"), "treatment"), facts)
    return [describe.render(asked, 0, TOPIC_PROMPT)]


def summarise_documents(fill: Fill) -> list[Prompt]:
    table = rows(
        pa.schema([*QUESTIONS, pa.field("documents", EVIDENCE)]),
        text=fill(QUESTION), topic=fill("Heel pain"), documents=evidence(fill),
    )  # fmt: skip
    return SummariseDocuments(engine=HttpEngine(model="m", revision="r")).prompts(table)


def answer_paragraph(fill: Fill) -> list[Prompt]:
    versions = pa.field("reformulations", pa.list_(pa.string()))
    table = rows(
        pa.schema([*QUESTIONS, versions, pa.field("evidence", EVIDENCE)]),
        text=fill(QUESTION), narrative=fill("A runner of 45."), options=[fill("Yes"), "No"],
        reformulations=[fill("Heel pain and strength")], evidence=evidence(fill),
    )  # fmt: skip
    return ComposeParagraph().prompts(table)


def document_keywords(fill: Fill) -> list[Prompt]:
    table = rows(DOCUMENTS, title=fill(TITLE), text=fill(PASSAGE))
    return FindDocumentKeywords().prompts(table)


def findings(fill: Fill) -> list[Prompt]:
    keyword = {"name": fill("Heel pain"), "type": "Disease", "mesh": ""}
    table = rows(KEYED_UNITS, title=fill(TITLE), text=fill(PASSAGE), keywords=[keyword])
    return ExtractFindings().prompts(table)


def search_words(fill: Fill) -> list[Prompt]:
    return FindSearchWords().prompts(
        pa.table({"text": [fill(QUESTION)], "options": [[fill("Yes"), "No"]]})
    )


def features(fill: Fill) -> list[Prompt]:
    topic = {"topic": 1, "text": fill(f"Heel pain: treatment. {PASSAGE}"), "visits": 1, "score": 1}
    table = rows(
        pa.schema([*QUESTIONS, pa.field("topics", TOPICS)]),
        text=fill(QUESTION), options=[fill("Yes"), "No"], topics=[topic],
    )  # fmt: skip
    return ExtractFeatures(scorer=RerankBiEncoder(), engine=HttpEngine(model="m")).prompts(table)


CASES: dict[str, Callable[[Fill], list[Prompt]]] = {
    "summarise_documents": summarise_documents,
    "answer_paragraph": answer_paragraph,
    "group_blocks": group_blocks,
    "grade_document": grade_document,
    "extract_document": extract_document,
    "answer_question": answer_question,
    "read_and_answer": read_and_answer,
    "said_before": read_conversation,
    "read_follow_up": read_follow_up,
    "choose_option": choose_option,
    "select_snippets": select_snippets,
    "check_answer": check_answer,
    "picot_anchors": picot,
    "decompose": decomposed,
    "plan_search": planned,
    "hyde": hypothetical,
    "reformulate": reformulated,
    "rationale": reasoned,
    "answer_unaided": unaided,
    "ircot": reflected,
    "describe_community": described,
    "document_keywords": document_keywords,
    "topic": topic,
    "findings": findings,
    "search_words": search_words,
    "features": features,
    **JUDGE_CASES,
    **BENCH_CASES,
}


def golden(prompts: Sequence[Prompt]) -> str:
    """The first prompt as a file: system, user, schema, sampling."""
    prompt = prompts[0]
    schema = json.dumps(prompt.schema.model_json_schema(), indent=1, ensure_ascii=False)
    sampling = f"temperature {prompt.temperature}, at most {prompt.max_tokens} tokens"
    parts = {"system": prompt.system, "user": prompt.user, "schema": schema, "sampling": sampling}
    return "\n\n".join(f"=== {name}\n{text}" for name, text in parts.items()) + "\n"
