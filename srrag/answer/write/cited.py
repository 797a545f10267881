"""The cited answer: its schema, faults in its citations, its text, also while a model writes it.

A draft is whole sentences, never taken back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import pydantic_core
from pydantic import Field

from srrag.answer.select.sentence_numbers import paper_of
from srrag.answer.write.papers_answer import (
    MAX_OPTIONS,
    ChosenFromPapers,
    CitingSentence,
    Finding,
    PapersAnswer,
    SearchingAnswer,
)
from srrag.core.pipeline import Pipeline
from srrag.core.schema import NO_CHOICE, PARTS, sentence_row
from srrag.core.step import LLMStep
from srrag.llm.completion import Answer, Fault, Prompt
from srrag.llm.read_answer import spoken
from srrag.reading.prose import plain

ABSTENTION = "The evidence found does not answer this question."
NO_EVIDENCE = "Nothing was found that bears on the question."
NEAREST, LIMITS = "Nearest:", "Limits:"

MAX_SENTENCE_CHARS = 800
"""Length of a sentence of 90 words, the longest that the rules quote."""
MAX_CITES = 12
MAX_ANSWER, MAX_EVIDENCE, MAX_LIMITS = 5, 10, 5
UNGRADED = "F"
"""Grade of ungraded evidence, which sorts after all grades."""

_LEAD = re.compile(r"^(?:Grade [A-E], [^:]+|Without a grade): ")

Number = Annotated[int, Field(ge=0, le=999)]


class CitedSentence(Answer):
    """One claim and the numbers of its evidence; what is outside the block is dropped later."""

    text: Annotated[str, Field(max_length=MAX_SENTENCE_CHARS)]
    cites: Annotated[list[Number], Field(max_length=MAX_CITES)]


class CitedAnswer(Answer):
    """Three paragraphs (SR-RAG, section 2.3): core answer, evidence by grade, limits."""

    answer: Annotated[list[CitedSentence], Field(max_length=MAX_ANSWER)]
    evidence: Annotated[list[CitedSentence], Field(max_length=MAX_EVIDENCE)]
    limits: Annotated[list[CitedSentence], Field(max_length=MAX_LIMITS)]
    insufficient: bool
    missing: Annotated[str, Field(max_length=600)]

    def sentences(self) -> list[CitedSentence]:
        """The sentences of all paragraphs."""
        return [*self.answer, *self.evidence, *self.limits]


class ChosenAnswer(CitedAnswer):
    """A cited answer to a question with options: the number of one from 1, 0 for none."""

    choice: Annotated[int, Field(ge=0, le=MAX_OPTIONS)]


class Shown(NamedTuple):
    """The rows of SENTENCES, and counts of what was left out."""

    sentences: list[dict[str, Any]]
    invalid: int
    dropped: int


def show(cited: CitedAnswer, evidence_ids: Sequence[str]) -> Shown:
    """Turn citation numbers into ids of evidence; numbers without evidence are dropped.

    A sentence left without a number is dropped, too, and counted.
    """
    sentences: list[dict[str, Any]] = []
    invalid = dropped = 0
    for name in PARTS:
        for sentence in getattr(cited, name):
            numbers = [n for n in dict.fromkeys(sentence.cites) if 1 <= n <= len(evidence_ids)]
            invalid += sum(not 1 <= n <= len(evidence_ids) for n in sentence.cites)
            text = plain(sentence.text)
            dropped += not numbers
            if text and numbers:
                ids = [evidence_ids[n - 1] for n in numbers]
                sentences.append(sentence_row(text, ids, part=name))
    return Shown(sentences, invalid, dropped)


def answer_text(
    sentences: Sequence[Mapping[str, Any]], numbers: Mapping[str, int], state: str
) -> str:
    """The text of an answer, with markers [n]: its first sentence, a list of the others, limits.

    `numbers` are those of the evidence, by id. An answer of the state "not" begins with ABSTENTION,
    and its list is what comes nearest. Sizes stand in the list: readers found paragraphs of them
    dense.
    """
    lead: list[str] = [ABSTENTION] if state == "not" else []
    listed: list[str] = []
    limits: list[str] = []
    for each in sentences:
        marks = "".join(f"[{numbers[name]}]" for name in each["evidence_ids"])
        told = f"{each['text']} {marks}"
        if each["part"] == "limits":
            limits.append(told)
        elif each["part"] == "answer" and not lead:
            lead.append(told)
        else:
            listed.append(f"- {told}")
    nearest = [NEAREST] if state == "not" and listed else []
    behind = " ".join([LIMITS, *limits]) if limits else ""
    return "\n\n".join(filter(None, [*lead, "\n".join([*nearest, *listed]), behind]))


def by_paper(
    sentences: Sequence[Mapping[str, Any]], evidence: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Sentences with those of a paper together, in the order in which papers are first cited.

    The first sentence stays the first, and limits the last.
    """
    papers = {item["evidence_id"]: item["doc_id"] or item["evidence_id"] for item in evidence}
    first: dict[str, int] = {}
    for each in sentences[1:]:
        first.setdefault(papers[each["evidence_ids"][0]], len(first))

    def place(each: Mapping[str, Any]) -> tuple[bool, int]:
        limits = each["part"] == "limits"
        return limits, 0 if limits else first[papers[each["evidence_ids"][0]]]

    return [*map(dict, sentences[:1]), *map(dict, sorted(sentences[1:], key=place))]


def placed(
    sentences: Sequence[Mapping[str, Any]], evidence: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Sentences with the places where the evidence that they cite has them word for word."""
    texts = {item["evidence_id"]: item["text"] for item in evidence}
    return [
        {
            **each,
            "places": [
                {"evidence_id": name, "start": start, "end": start + len(words)}
                for words in (without_lead(each["text"]),)
                for name in each["evidence_ids"]
                if (start := texts.get(name, "").find(words)) >= 0
            ],
        }
        for each in sentences
    ]


def without_lead(sentence: str) -> str:
    """A sentence of an answer without the words that name the grade of its source."""
    return _LEAD.sub("", sentence)


def state_of(insufficient: bool, sentences: Sequence[object]) -> str:
    """One of STATES, of what a model says of the evidence and of the sentences that stand."""
    return "not" if not sentences else "partly" if insufficient else "answered"


def choice_of(answer: Answer, num_options: int) -> int:
    """The index of the option that an answer chose, NO_CHOICE for none or one that is not there."""
    number = getattr(answer, "choice", 0)
    return number - 1 if 1 <= number <= num_options else NO_CHOICE


def citation_fault(cited: CitedAnswer, grades: Sequence[str]) -> Fault | None:
    """Fault of the citations of an answer, or None; `grades` are the grades of the evidence."""
    sentences = cited.sentences()
    most = len(grades)
    if outside := sorted({n for each in sentences for n in each.cites if not 1 <= n <= most}):
        detail = (
            f"You cited evidence that was not given: {', '.join(map(str, outside[:5]))}. "
            f"Cite only numbers from 1 to {most}, those of the evidence that supports "
            f"the sentence."
        )
        return Fault("invalid_citation", detail)
    if cited.insufficient:
        return None
    if not sentences:
        detail = (
            "You gave no sentence, yet did not call the evidence insufficient. Answer from the "
            "evidence, or set insufficient to true."
        )
        return Fault("no_answer", detail)
    if uncited := sum(not each.cites for each in sentences):
        detail = (
            f"{uncited} of {len(sentences)} sentences cite no evidence. Cite for each sentence "
            f"the evidence that supports it, and leave out what nothing supports."
        )
        return Fault("uncited", detail)
    order = [best_grade(each.cites, grades) for each in cited.evidence]
    if order != sorted(order):
        detail = (
            "The paragraph `evidence` does not go from the highest grade to the lowest: its "
            f"sentences rest on {', '.join(order).replace(UNGRADED, 'none')}. Put guidelines "
            "first and change nothing else."
        )
        return Fault("grade_order", detail)
    return None


def best_grade(cites: Iterable[int], grades: Sequence[str]) -> str:
    """The highest grade among the evidence of a sentence, UNGRADED if there is none."""
    return min((grades[n - 1] or UNGRADED for n in cites), default=UNGRADED)


AGAIN = "\n\n[That answer was not good enough; it is written once more.]\n\n"
INSTEAD = "\n\n[The answer that counts:]\n\n"

STREAMED: tuple[type[Answer], ...] = (
    CitedAnswer, PapersAnswer, SearchingAnswer, ChosenFromPapers,
)  # fmt: skip
"""The schemas whose answers an AnswerStream reads."""

_EVIDENCE_LINE = re.compile(r'^(?:\{"n": |Paper \d)', re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x1f]")


class AnswerStream:
    """Reads the JSON of an answer (STREAMED) piece by piece and writes its text as it comes.

    Findings are told as soon as each is complete. A sentence is written once its citations are
    known, so each has its markers, and only markers of evidence that was given. This is a draft;
    `finish` completes it with the final answer. It serves one question only.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        checked: bool = False,
        find: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        """Take the function that receives the text.

        `find` receives each finding: text, kind and the number of its paper. If a later step has
        each sentence `checked`, the text comes at the end.
        """
        self._write = write
        self._held = checked
        self._find = find
        self._asked = ("", 0)
        self._json = ""
        self._shown = ""
        self._found = 0

    def __call__(self, prompt: Prompt, attempt: int, piece: str) -> None:
        """Take the next piece of the answer to a prompt of ComposeAnswer or ReadAndAnswer."""
        if (prompt.user, attempt) != self._asked:
            if self._shown:
                self._write(AGAIN)
            self._asked, self._json, self._shown, self._found = (prompt.user, attempt), "", "", 0
        self._json += piece
        given = len(_EVIDENCE_LINE.findall(prompt.user))
        said = spoken(self._json)
        if self._find is not None:
            findings = findings_so_far(said, given)
            for finding in findings[self._found :]:
                self._find(finding)
            self._found = max(self._found, len(findings))
        text = "" if self._held else text_so_far(said, given)
        if text.startswith(self._shown) and text != self._shown:
            self._write(text[len(self._shown) :])
            self._shown = text

    def finish(self, answer: str) -> None:
        """Write the rest of the final answer, or all of it if it differs from the draft."""
        if answer.startswith(self._shown):
            self._write(answer[len(self._shown) :])
        else:
            self._write(INSTEAD + answer)


def text_so_far(text: str, num_evidence: int) -> str:
    """The text of the sentences that stand complete at the beginning of a JSON text."""
    said = _said(text)[0]
    numbers = {str(n): n for n in range(1, num_evidence + 1)}
    state = "not" if isinstance(said, dict) and said.get("state") == "not" else ""
    return answer_text(shown_so_far(text, num_evidence).sentences, numbers, state)


def findings_so_far(text: str, num_papers: int) -> list[dict[str, Any]]:
    """The findings that stand complete at the beginning of a JSON text, each with its paper."""
    said, whole = _said(text)
    listed = said.get("findings") if isinstance(said, dict) else None
    if not isinstance(listed, list):
        return []
    found = []
    for item in listed if whole or len(said) > 1 else listed[:-1]:
        try:
            finding = Finding.model_validate(item)
        except pydantic_core.ValidationError:
            continue
        papers = [n for n in map(paper_of, finding.sentences) if 1 <= n <= num_papers]
        if papers:
            told = {"text": plain(finding.says), "kind": finding.kind, "number": papers[0]}
            found.append(told)
    return found


def shown_so_far(text: str, num_evidence: int) -> Shown:
    """The sentences that stand complete at the beginning of a JSON text.

    A sentence is complete as soon as something follows it. A longer prefix of the same JSON, if it
    names no key twice, gives a text that begins with this one.
    """
    said, whole = _said(text)
    complete: dict[str, list[CitedSentence]] = {name: [] for name in PARTS}
    for name, sentence in _complete(said, whole) if isinstance(said, dict) else ():
        complete[name].append(sentence)
    answer = CitedAnswer.model_construct(None, **complete)
    return show(answer, [str(n) for n in range(1, num_evidence + 1)])


def _said(text: str) -> tuple[Any, bool]:
    """What the beginning of a JSON text says, None if it is none, and whether it is all."""
    text = _CONTROL.sub(" ", text[max(text.find("{"), 0) :])
    try:
        return pydantic_core.from_json(text), True
    except ValueError:
        pass
    try:
        return pydantic_core.from_json(text, allow_partial=True), False
    except ValueError:
        return None, False


def _complete(said: dict[str, Any], whole: bool) -> Iterator[tuple[str, CitedSentence]]:
    """Sentences with their paragraph, up to the first that is incomplete or wrong."""
    for name in PARTS:
        sentences = said.get(name)
        if not isinstance(sentences, list):
            return
        last = not whole and name == [*said][-1]
        for sentence in sentences[:-1] if last else sentences:
            try:
                yield name, _sentence(sentence)
            except pydantic_core.ValidationError:
                return
        if last:
            return


def _sentence(said: Any) -> CitedSentence:
    """A sentence with the numbers of its evidence, whichever way it gives them."""
    if not isinstance(said, dict) or "sentences" not in said:
        return CitedSentence.model_validate(said)
    statement = CitingSentence.model_validate(said)
    papers = [number for number in map(paper_of, statement.sentences) if number]
    return CitedSentence.model_construct(None, text=statement.text, cites=papers)


def checked_in(pipeline: Pipeline) -> bool:
    """Whether a model reads the sentences of an answer once more before they stand."""
    return any(
        "sentences" in step.revises and not (isinstance(step, LLMStep) and step.off)
        for step in pipeline.answer
    )
