"""Write a question from its seed window alone, with PICOT and certainty (SR-RAG, section 4.5)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa

from srrag.core.rows import Row, filled, live, rejected
from srrag.core.step import LLMStep
from srrag.lab.benchmark.filter_dense import conclusions
from srrag.lab.benchmark.sample import QUESTION, QUESTIONED
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile, fenced, quoted
from srrag.llm.fields import Means, Text, most_tokens
from srrag.reading.mentions import find_mentions
from srrag.reading.numbers import lost_numbers
from srrag.reading.prose import find_quote

_HEDGED = re.compile(
    r"\b(?:may|might|could|unclear|uncertain\w*|unknown|conflicting|inconclusive|preliminary|pilot|"
    r"(?:low|very low|limited|weak|insufficient|thin|scarce|poor) (?:quality |certainty )?"
    r"(?:evidence|certainty|data)|evidence [\w ,]{0,60}is (?:thin|weak|limited|low|lacking)|"
    r"no comparison group|further (?:research|studies|trials)|say nothing|rest on opinion)\b",
    re.IGNORECASE,
)
_ELEMENT_CHARS, _TITLE_CHARS = 100, 160
_PART_OF = {
    "Population": "P", "Condition": "P",
    "Intervention": "I", "Device": "I", "Arm": "I",
    "Comparator": "C",
    "Outcome": "O", "AdverseEvent": "O",
    "Timepoint": "T",
}  # fmt: skip
"""The part of a question that each type of mention states."""
Found = dict[str, Any]


def rule_questions(windows: Sequence[tuple[str, str, str]]) -> list[Found]:
    """Return the fields of a SeedQuestion for each window, a (text, section, title)."""
    sentences = [_sentence(window, section) for window, section, _ in windows]
    found = []
    rows = zip(windows, sentences, _elements(sentences), strict=True)
    for (window, _, title), sentence, picot in rows:
        question = _question(picot, title)
        hedge = _HEDGED.search(window)
        found.append(
            {
                "conclusion": sentence if question else "",
                "question": question,
                "picot": picot,
                "certainty": "uncertain" if hedge else "sufficient",
                "reason": (f"says {hedge[0][:60]!r}" if hedge else "no hedging word")
                if question
                else "the rules found no intervention or outcome in a concluding sentence",
            }
        )
    return found


def _sentence(window: str, section: str) -> str:
    """Return the best concluding sentence that fits its field, verbatim."""
    texts = (window[each.start : each.end] for each in conclusions(window, section))
    return next((text for text in texts if len(text) <= 800), "")


def _elements(texts: Sequence[str]) -> list[Found]:
    """Return the first mention of each PICOT element in each text, up to a semicolon."""
    typed = find_mentions(texts, [""] * len(texts), [False] * len(texts)) if texts else []
    found = []
    for text, mentions in zip(texts, typed, strict=True):
        picot = dict.fromkeys("PICOT", "")
        for mention in mentions:
            part, words = _PART_OF.get(mention.type, ""), text[mention.start : mention.end]
            words = " ".join(words.partition(";")[0].split())
            if part and not picot[part] and 2 < len(words) <= _ELEMENT_CHARS:
                picot[part] = words
        found.append(picot)
    return found


def _question(picot: Found, title: str) -> str:
    """Fill the question template; "" without an intervention or an outcome.

    If the sentence names no population, the title (without its numbers) takes its place.
    """
    about = " ".join(re.sub(r"\d", "", title).split())[:_TITLE_CHARS]
    who = f"In {picot['P']}, what" if picot["P"] else f"{about}: what" if about else "What"
    if picot["I"] and picot["O"]:
        against = f" compared with {picot['C']}" if picot["C"] else ""
        return f"{who} is the effect of {picot['I']}{against} on {picot['O']}?"
    if picot["I"]:
        return f"{who} does the evidence say about {picot['I']}?"
    if picot["O"]:
        return f"{who} is known about {picot['O']}?"
    return ""


STAGE = "questions"

_ABOUT_ITSELF = re.compile(
    r"\b(?:this|the|these|present|current) (?:present )?(?:stud(?:y|ies)|trial|passage|text|"
    r"document|paper|article|report|review|guideline|authors?|excerpt)\b"
    r"(?!s? (?:of|on|for|in)\b| messag|-)",
    re.IGNORECASE,
)

_UNSTATED = "it is not stated"
_NONE = "there is no clinical conclusion"


class Picot(Answer):
    """The elements of a question; "" where one is not stated."""

    P: Annotated[str, Text(20, "population", _UNSTATED)]
    I: Annotated[str, Text(20, "intervention or exposure", _UNSTATED)]  # noqa: E741 (its letter)
    C: Annotated[str, Text(20, "comparator", _UNSTATED)]
    O: Annotated[str, Text(20, "outcome", _UNSTATED)]  # noqa: E741
    T: Annotated[str, Text(20, "time", _UNSTATED)]


class SeedQuestion(Answer):
    """A question with the stretch of the window that answers it, both "" if there is none."""

    example: ClassVar[dict[str, Any] | None] = {
        "conclusion": "Budesonide halved the number of attacks in 12 months.",
        "question": "Does inhaled budesonide lower the number of asthma attacks in adults?",
        "picot": {
            "P": "adults with asthma",
            "I": "inhaled budesonide",
            "C": "",
            "O": "attacks",
            "T": "12 months",
        },
        "reason": "A trial with a clear result.",
        "certainty": "sufficient",
    }

    conclusion: Annotated[
        str, Text(60, "the core conclusion, one or two neighbouring sentences, copied", _NONE)
    ]
    question: Annotated[str, Text(30, "one sentence that ends with a question mark", _NONE)]
    picot: Annotated[Picot, Means("what passage, title and question state, in a few words each")]
    reason: Annotated[
        str, Text(30, "how certain the answer is and why, or why there is no conclusion")
    ]
    certainty: Annotated[
        Literal["sufficient", "uncertain", "none"],
        Means(
            "",
            {
                "sufficient": "if the passage answers the question plainly",
                "uncertain": "if it says itself that evidence is weak, conflicting, preliminary or "
                "lacking, or if it answers only in part",
                "none": "if there is no clinical conclusion",
            },
        ),
    ]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "write_question.md", SeedQuestion)


@dataclass(frozen=True, kw_only=True)
class WriteQuestion(LLMStep):
    """Writes a question with one prompt a window; the conclusion comes from the window only.

    The prompt shows what was asked before of the document, as abstracts repeat themselves. A
    conclusion that is not in the window, a number in question or PICOT that was not shown, and a
    question about "this study" are retried; then the row is rejected. It is also rejected if the
    model finds no clinical conclusion. The rules put mentions of the best concluding sentence into
    a template: that tests the machinery and is no question a clinician would ask.
    """

    version: ClassVar[int] = 4
    reads: ClassVar[tuple[str, ...]] = ("window", "title", "section", "grade", "asked")
    writes: ClassVar[pa.Schema] = QUESTIONED
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    max_tokens: int = most_tokens(SeedQuestion)

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render one prompt for each window."""
        return [
            Prompt(
                row,
                STAGE,
                PROMPT.system(),
                PROMPT.user(
                    title=quoted(seed["title"]),
                    section=quoted(seed["section"]),
                    grade=quoted(seed["grade"]),
                    asked=quoted(seed["asked"]),
                    passage=fenced("passage", seed["window"]),
                ),
                SeedQuestion,
                max_tokens=self.max_tokens,
            )
            for row, seed in live(batch, self.reads)
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Fill a template with the mentions of the best concluding sentence."""
        seeds = dict(live(batch, self.reads))
        names = ("window", "section", "title")
        asked = [tuple(seeds[prompt.row][name] for name in names) for prompt in prompts]
        return [SeedQuestion(**found).model_dump_json() for found in rule_questions(asked)]

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Return a fault for content that was not shown."""
        (row,) = batch.select(self.reads).slice(prompt.row, 1).to_pylist()
        return _fault(value, row)

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Keep the questions that pass the checks; reject the others."""
        shown = batch.select(self.reads).to_pylist()
        made = {
            prompt.row: _row(completion, shown[prompt.row])
            for prompt, completion in zip(prompts, completions, strict=True)
        }
        return filled(batch, QUESTION, made)


def _row(completion: Completion, shown: Row) -> Row:
    fault = completion.fault or _fault(completion.value, shown)
    if fault is not None:
        return rejected(STAGE, fault)
    value: SeedQuestion = completion.value
    span = find_quote(value.conclusion, shown["window"])
    if span is None:
        return rejected(STAGE, Fault("no_conclusion", value.reason))
    return {
        "text": " ".join(value.question.split()),
        "conclusion": shown["window"][slice(*span)],
        "picot": {name: " ".join(text.split()) for name, text in value.picot},
        "certainty": "uncertain" if value.certainty == "none" else value.certainty,
        "certainty_reason": " ".join(value.reason.split()),
    }


def _fault(value: SeedQuestion, shown: Row) -> Fault | None:
    if not value.conclusion:
        return None
    if find_quote(value.conclusion, shown["window"]) is None:
        said = value.conclusion[:200]
        return Fault("ungrounded", f"This is not in the passage: {said!r}. Copy exactly.")
    question = value.question
    if not question.endswith("?") or len(question.split()) < 4:
        return Fault("not_a_question", "Ask one whole question that ends with a question mark.")
    if found := _ABOUT_ITSELF.search(question):
        return Fault(
            "not_self_contained",
            f"The question says {found[0]!r}. Name who and what it is about instead.",
        )
    asked = " ".join([question, *(text for _, text in value.picot)])
    if unknown := lost_numbers(asked, [shown["window"], shown["title"], shown["section"]]):
        numbers = ", ".join(unknown[:5])
        return Fault("invented", f"Neither passage nor title hold these numbers: {numbers}.")
    return None
