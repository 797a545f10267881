"""The cited answer: its schema, faults in its citations, and its rendering."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from srrag.core.schema import NO_CHOICE, PARTS, sentence_row
from srrag.llm.completion import Answer, Fault
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

MAX_OPTIONS = 64

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
