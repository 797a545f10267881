"""The cited answer: every sentence names the evidence it rests on, or the step abstains."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from srrag.answer.gate.answerable import (
    abstention_note,
    lack_note,
    people_note,
    typo_note,
    unsaid_note,
    unsaid_share,
)
from srrag.answer.select.candidates import Passage, passage_of, planned, titles
from srrag.answer.select.quotes import ChosenSentence, Extract, ExtractRule, sentence_weights_fitted
from srrag.answer.write.choose_rules import choose
from srrag.answer.write.cited import (
    ABSTENTION,
    MAX_ANSWER,
    MAX_CITES,
    MAX_EVIDENCE,
    MAX_LIMITS,
    MAX_SENTENCE_CHARS,
    NO_EVIDENCE,
    ChosenAnswer,
    CitedAnswer,
    CitedSentence,
    Shown,
    answer_text,
    best_grade,
    choice_of,
    citation_fault,
    placed,
    show,
    state_of,
)
from srrag.core.provenance import Fitted
from srrag.core.rows import Row, RowStep
from srrag.core.schema import ANSWER, relation
from srrag.core.standing import STUDIES
from srrag.llm.completion import Fault, PromptFile, Rules, quoted
from srrag.reading.prose import plain

MAX_SENTENCES = 12
"""Of an answer that a model writes."""
NUM_CORE = 2
"""Quotes in the first paragraph, of the one to three sentences that a model writes there."""
LOW_GRADES = ("D", "E")
DISAGREEMENT = "The papers quoted here do not agree on this."
"""Said of papers whose findings have opposite directions; it cites all of them."""
MIN_ABSENT_CHARS = 2
"""Numbers and letters say little about what is missing."""


def quoted_answer(extract: Extract, passages: Sequence[Passage]) -> CitedAnswer:
    """Best quotes, the others by grade, and what limits them; no quotes are an abstention.

    `passages` are the evidence, number by number. `missing` is the reason of an abstention.
    """
    grades = [each.grade for each in passages]
    core, others = extract.choices[:NUM_CORE], extract.choices[NUM_CORE:]
    return CitedAnswer(
        answer=[_sentence(choice.text, choice.cites) for choice in core][:MAX_ANSWER],
        evidence=_by_grade(others, grades)[:MAX_EVIDENCE],
        limits=_opposed(extract),
        insufficient=not extract.choices,
        missing="" if extract.choices else _missing(extract, passages)[:600],
    )


def _missing(extract: Extract, passages: Sequence[Passage]) -> str:
    """Say how much of the question the evidence covers and what it lacks; never empty."""
    plans = dict.fromkeys(each.title for each in passages if not each.results)
    covered = f"{extract.coverage:.0%}"
    told = [] if covered == "0%" else [f"The best passage covers {covered} of the question."]
    if extract.unnamed:
        told.append(f"What could be quoted holds no word of “{extract.unnamed}”.")
    if words := [word for word in extract.absent if len(word) > MIN_ABSENT_CHARS]:
        told.append(f"Nowhere in the evidence: {', '.join(words)}.")
    told += [f"It plans a study and tells no result: “{title}”." for title in plans if title]
    return " ".join(told) or "Nothing in the evidence speaks of the question."


def _planned_note(evidence: Sequence[Row], nearest: str) -> str:
    """Say that the nearest paper, by its title or the start of it, only plans a study."""
    begins, plans = nearest.removesuffix(" …"), planned(evidence)
    titles = [item["title"] for item in evidence if item["evidence_id"] in plans]
    if not begins or not any(title.startswith(begins) for title in titles):
        return ""
    return " That paper plans a study and tells no result."


def _by_grade(choices: Sequence[ChosenSentence], grades: Sequence[str]) -> list[CitedSentence]:
    """Quotes from the highest grade to the lowest; the first of each says what it is."""
    graded = [(best_grade(choice.cites, grades), choice) for choice in choices]
    sentences: list[CitedSentence] = []
    last = ""
    for grade, choice in sorted(graded, key=lambda pair: pair[0]):
        lead = f"{_named(grade)}: " if grade != last else ""
        if len(lead) + len(choice.text) > MAX_SENTENCE_CHARS:
            lead = ""  # a quote is whole, and its citation says the grade
        sentences.append(_sentence(lead + choice.text, choice.cites))
        last = grade
    return sentences


def _opposed(extract: Extract) -> list[CitedSentence]:
    """Say that two papers disagree on the outcome, if two quotes of the core do."""
    if not extract.differ:
        return []
    return [_sentence(DISAGREEMENT, extract.differ)]


def low_grade_note(grades: Sequence[str]) -> str:
    """Say that none of the quoted evidence, of these grades, has a high grade; "" if some has."""
    best = best_grade(range(1, len(grades) + 1), grades)
    if best not in LOW_GRADES:
        return ""
    return f"Nothing quoted here is above grade {best} ({STUDIES[best]})."


def _named(grade: str) -> str:
    return f"Grade {grade}, {STUDIES[grade]}" if grade in STUDIES else "Without a grade"


def _sentence(text: str, cites: Sequence[int]) -> CitedSentence:
    return CitedSentence(text=text[:MAX_SENTENCE_CHARS], cites=list(cites[:MAX_CITES]))


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "answer_question.md")
CHOOSE = "\n`choice` is the number of the option that you settle on, from 1, or 0 for none."
OFF_TOPIC_WEIGHT = 0.25
"""Factor of the rules for evidence from papers with too few of the question's words."""


@dataclass(frozen=True, kw_only=True)
class ComposeAnswer(RowStep):
    """Answer `text` from `evidence`, with markers [n] that number the evidence from 1.

    The model sees the `options` of a multiple-choice question and chooses one, whose index is
    `choice` (NO_CHOICE for none, and in every abstention); the search does not use them (MIRAGE's
    question-only retrieval). The rules quote whatever is offered, and choose by `choose_rules`.

    The paragraphs, separated by blank lines, are the answer, the evidence by grade, and the limits.
    Citations outside the evidence block are dropped and counted in `invalid_citations`. A sentence
    left without a citation is dropped, too, and counted in `dropped_sentences`. If no sentence is
    left, the step abstains. `snippets` names the column of FindSnippets to show to the model; ""
    for none.
    The rules quote (ExtractRule) in the same three paragraphs. A faulty answer rejects its row.

    `gate` names the column of JudgeAnswerable; "" for none. If the gate says that the evidence does
    not answer, the step makes no call and abstains, and the note says what is missing and what the
    nearest paper covers. The note of every answer lists question words that no evidence holds. The
    rules also abstain if the papers that they would quote lack more than `max_unsaid` of the
    question's weight: quotes on a part of the question mislead.
    """

    version: ClassVar[int] = 24

    writes: ClassVar[pa.Schema] = relation(*ANSWER, "invalid_citations:int dropped_sentences:int")
    slot: ClassVar[str] = "answer"
    file: ClassVar[PromptFile] = PROMPT

    snippets: str = ""
    gate: str = ""
    max_unsaid: float = 0.25
    max_tokens: int = 2048
    """Twelve sentences of 60 tokens with citations, and the same amount in reserve."""

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The question, options and evidence, and the optional columns."""
        found = (self.snippets, self.gate)
        return ("text", "options", "evidence", *filter(None, found))

    def fitted(self) -> tuple[Fitted, ...]:
        """The questions that the rules' sentence weights were fitted on; nothing for a model."""
        return (sentence_weights_fitted(),) if isinstance(self.engine, Rules) else ()

    def asked(self) -> dict[str, Any]:
        """The system text, which names the bounds of an answer."""
        system = self.file.system(
            max_sentences=MAX_SENTENCES,
            max_answer=MAX_ANSWER,
            max_evidence=MAX_EVIDENCE,
            max_limits=MAX_LIMITS,
        )
        return {"system": system}

    def told(self, row: Row) -> dict[str, object] | None:
        """The question and its evidence, if there is any and the gate lets it pass."""
        if not row["evidence"] or self._closed(row):
            return None
        options = f"\nOptions: {quoted(row['options'])}{CHOOSE}" if row["options"] else ""
        return {
            "question": quoted(row["text"]),
            "options": options,
            "num_evidence": len(row["evidence"]),
            "evidence": "\n".join(evidence_lines(row["evidence"], self._marked(row))),
        }

    def own(self, row: Row) -> dict[str, Any]:
        """The schema of a question with options or without."""
        return {"schema": ChosenAnswer if row["options"] else CitedAnswer}

    def _closed(self, question: Row) -> bool:
        """Whether the gate says that the evidence does not answer."""
        return bool(self.gate) and not question[self.gate]["answers"]

    def ruled(self, rows: Sequence[Row]) -> list[CitedAnswer]:
        """Quote the evidence, or abstain where it covers too little of the question."""
        return [self._ruled(row) for row in rows]

    def _ruled(self, question: Row) -> CitedAnswer:
        near = {*question[self.gate]["on_topic"]} if self.gate else None
        plans = planned(question["evidence"])
        passages = [
            passage_of(
                item,
                1.0 if near is None or item["evidence_id"] in near else OFF_TOPIC_WEIGHT,
                results=item["evidence_id"] not in plans,
            )
            for item in question["evidence"]
        ]
        rule = ExtractRule(min_coverage=0.0) if self.gate else ExtractRule()
        extract = rule(question["text"], passages)
        if self.gate:  # its note says what the evidence does not hold
            extract = extract._replace(absent=[])
        answer = quoted_answer(extract, passages)
        if not question["options"]:
            return answer
        chosen = choose(question["text"], question["options"], passages)
        return ChosenAnswer(**answer.model_dump(), choice=chosen.option + 1)

    def _marked(self, question: Row) -> dict[str, list[str]]:
        """The snippets of each piece of evidence, by its id."""
        marked: dict[str, list[str]] = {}
        for each in question[self.snippets] if self.snippets else ():
            marked.setdefault(each["evidence_id"], []).append(each["text"])
        return marked

    def fault(self, value: CitedAnswer, row: Row) -> Fault | None:
        """Fault: invalid or missing citations, grades out of order, or no sentences."""
        return citation_fault(value, [item["grade"] for item in row["evidence"]])

    def unasked(self, row: Row) -> Row:
        """An abstention without evidence, or with evidence that the gate finds wanting."""
        return _abstained(abstention_note(row[self.gate]) if row["evidence"] else NO_EVIDENCE)

    def columns(self, value: Any, row: Row) -> Row:
        """The answer, or the abstention that it comes to."""
        made = self._cited(row["evidence"], value)
        made["sentences"] = placed(made["sentences"], row["evidence"])
        if made["state"] != "not":
            made["choice"] = choice_of(value, len(row["options"]))
        if not self.gate:
            return made
        gate = row[self.gate]
        cited = {each for sentence in made["sentences"] for each in sentence["evidence_ids"]}
        if self._misses(row, cited):
            plans = _planned_note(row["evidence"], gate["nearest"])
            return _abstained(f"{abstention_note(gate, cited)}{plans}")
        notes = (
            typo_note(row["text"], row["evidence"]), lack_note(gate),
            unsaid_note(gate, cited), people_note(row["text"], gate, cited),
        )  # fmt: skip
        return made | {"answer_note": " ".join(filter(None, (*notes, made["answer_note"])))}

    def _misses(self, question: Row, cited: Collection[str]) -> bool:
        """Whether what rules would quote is on a part of the question; an exam wants a choice."""
        by_rules = isinstance(self.engine, Rules) and not question["options"]
        return by_rules and unsaid_share(question[self.gate], cited) > self.max_unsaid

    def _cited(self, evidence: list[Row], cited: CitedAnswer) -> Row:
        """Render an answer and count what was dropped."""
        ids = [item["evidence_id"] for item in evidence]
        row = self._shown(show(cited, ids), cited, ids)
        if row["state"] == "not" or not isinstance(self.engine, Rules):
            return row
        named = {name for each in row["sentences"] for name in each["evidence_ids"]}
        grades = [item["grade"] for item in evidence if item["evidence_id"] in named]
        return row | {"answer_note": low_grade_note(grades)}

    def _shown(self, shown: Shown, cited: CitedAnswer, ids: Sequence[str]) -> Row:
        """The columns of an answer, or of an abstention if no sentence is left."""
        state = state_of(cited.insufficient, shown.sentences)
        note = ""
        if not shown.sentences and not cited.insufficient:
            note = "No sentence of the answer cites the evidence."
        numbers = {name: n for n, name in enumerate(ids, 1)}
        return {
            "answer": answer_text(shown.sentences, numbers, state),
            "model": self.engine.name,
            "sentences": shown.sentences,
            "state": state,
            "missing": plain(cited.missing),
            "answer_note": note,
            "invalid_citations": shown.invalid,
            "dropped_sentences": shown.dropped,
        }


def evidence_lines(evidence: Sequence[Row], marked: dict[str, list[str]]) -> Iterator[str]:
    """Evidence as JSON lines; the content cannot break out of a JSON string."""
    for number, (item, title) in enumerate(zip(evidence, titles(evidence), strict=True), 1):
        snippets = marked.get(item["evidence_id"])
        yield quoted(
            {
                "n": number,
                "grade": item["grade"],
                "year": item["year"] or None,
                **title,
                "section": item["section"],
                "text": item["text"],
            }
            | ({"snippets": snippets} if snippets else {})
        )


def _abstained(missing: str) -> Row:
    return {"answer": ABSTENTION, "state": "not", "missing": missing, "model": "rules"}
