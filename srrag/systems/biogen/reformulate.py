"""Paraphrases of a question, each searched for by itself (BioGen, section 5, Listing 1)."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.algo.terms import STOPWORDS, terms
from srrag.core.rows import Row, RowStep, filled, live
from srrag.core.schema import relation
from srrag.core.step import Function, Place
from srrag.core.units import Units, open_units
from srrag.index.opened import open_sparse
from srrag.index.words import WordIndex
from srrag.llm.completion import Answer, PromptFile, Rules, fenced, quoted
from srrag.llm.fields import Text, most_tokens
from srrag.reading.concepts import read_abbreviations

Floats = npt.NDArray[np.float64]

FEEDBACK_WINDOWS = 5
FEEDBACK_TERMS = 8
_WORD = re.compile(r"[^\W_](?:[\w'’/+-]*[^\W_])?")
_CLEAN = re.compile(r"[\w+/'’.-]+")


@dataclass(frozen=True)
class Rewording:
    """The inputs of rewording: the BM25 index, the texts of its windows, and the abbreviations."""

    index: WordIndex
    units: Units
    abbreviations: Mapping[str, str]

    def __call__(self, question: str) -> list[str]:
        """Up to three versions, distinct and unlike the question.

        They stand for BioGen's clinical, patient-focused and aspect-specific versions: the question
        with its abbreviations written out, the rarer half of its words, and the question with the
        `FEEDBACK_TERMS` most telling words of its `FEEDBACK_WINDOWS` best windows (RM3).
        """
        versions = (
            written_out(question, self.abbreviations),
            self.rare(question),
            " ".join([question, *self.feedback(question)]),
        )
        found = {_plain(question): ""}
        for version in versions:
            if _plain(version):
                found.setdefault(_plain(version), version)
        return [version for version in found.values() if version]

    def rare(self, question: str) -> str:
        """The rarer half of a question's content words by inverse document frequency, in order."""
        words = list(dict.fromkeys(w for w in _WORD.findall(question) if _tells(w)))
        if len(words) < 2:
            return ""
        rarity = [self.rarity(word) for word in words]
        half = (len(words) + 1) // 2
        kept = sorted(range(len(words)), key=lambda n: (-rarity[n], n))[:half]
        return " ".join(words[n] for n in sorted(kept))

    def rarity(self, word: str) -> float:
        """Inverse document frequency of a word; of several terms in it the rarest counts."""
        held = [self.index.document_frequency(term) for term in self.index.terms(word)]
        return max((math.log(1 + len(self.index) / (1 + count)) for count in held), default=0.0)

    def feedback(self, question: str) -> list[str]:
        """The words that distinguish the best windows: RM1 (Lavrenko and Croft 2001) times rarity.

        P(w) is the sum over windows of P(w | window) times the window's share of the BM25 scores;
        it counts times the word's inverse document frequency, without which the words are those of
        any abstract. A word is written as the windows write it most often; numbers, and words of
        the question, are left out.
        """
        ((ids, scores),) = self.index.search([question], FEEDBACK_WINDOWS)
        if not len(ids):
            return []
        texts = self.units.take(ids.to_pylist(), ("text",))["text"].to_pylist()
        likely = likely_words(texts, np.asarray(scores, np.float64), question)
        worth = {word: share * self.rarity(word) for word, share in likely.items()}
        best = sorted(worth, key=lambda word: (-round(worth[word], 12), word))
        return best[:FEEDBACK_TERMS]


def likely_words(texts: Sequence[str], scores: Floats, question: str) -> dict[str, float]:
    """P(w) of the words of scored texts that the question lacks, stem by stem."""
    asked = set(terms(question))
    weight: defaultdict[str, float] = defaultdict(float)
    written: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for text, share in zip(texts, scores / scores.sum(), strict=True):
        words = [word for word in _WORD.findall(text) if _tells(word)]
        for word in words:
            (stem, *_) = terms(word) or [word.lower()]
            if stem not in asked:
                weight[stem] += float(share) / len(words)
                written[stem][word] += 1
    return {
        min(words.items(), key=lambda pair: (-pair[1], pair[0]))[0]: weight[stem]
        for stem, words in written.items()
    }


def written_out(question: str, abbreviations: Mapping[str, str]) -> str:
    """The question with each abbreviation, where it first stands, as "long form (ABC)"."""
    done: set[str] = set()
    lower = question.casefold()

    def whole(found: re.Match[str]) -> str:
        word = found[0]
        short = word.rstrip(".'’-")
        long = abbreviations.get(short, "")
        if not long or short in done or long.casefold() in lower:
            return word
        done.add(short)
        return f"{long} ({short}){word[len(short) :]}"

    return _CLEAN.sub(whole, question)


def _tells(word: str) -> bool:
    """Whether a word says what a text is about: no stop word, no number, no single letter."""
    return len(word) > 1 and word.lower() not in STOPWORDS and not word.isdigit()


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


class Reformulations(Answer):
    """Exactly three versions."""

    example: ClassVar[dict[str, Any] | None] = {
        "clinical": "Is topical fluoride varnish efficacious in the primary prevention of caries "
        "in the deciduous dentition?",
        "patient": "Will painting my toddler's teeth with fluoride stop holes?",
        "aspect": "How well does fluoride varnish work as a treatment to prevent caries in "
        "children?",
    }

    clinical: Annotated[str, Text(60, "in more formal, clinical terms")]
    patient: Annotated[str, Text(60, "direct and simple, as a patient would ask")]
    aspect: Annotated[
        str,
        Text(
            60,
            "with one aspect in front: diagnosis, treatment or prognosis, or definition or cause "
            "if it asks for one",
        ),
    ]

    def versions(self) -> list[str]:
        """All three in order."""
        return [self.clinical, self.patient, self.aspect]

    def distinct(self, question: str) -> list[str]:
        """The versions in order, without repetitions of each other or of words of the question."""
        asked = _plain(question)
        found: dict[str, str] = {}
        for version in self.versions():
            if _plain(version) not in asked:
                found.setdefault(_plain(version), version)
        return list(found.values())


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "reformulate.md", Reformulations)


@dataclass(frozen=True, kw_only=True)
class Reformulate(RowStep):
    """Reword `text` in up to three ways, to search for in addition to it.

    A version that repeats the question or another version is left out. `context` also shows topic
    and narrative to the model, unlike the submitted runs (section 5). A faulty answer rejects its
    row. `reformulation_model` says who wrote the versions, "" for nobody.

    The engine `rules` cannot reword, and writes no version unless `by_rules`: then versions come
    from the corpus's own words (see `reword_rules`), by the indexes that the last fields name.
    """

    version: ClassVar[int] = 3

    context: bool = False
    by_rules: bool = False
    max_tokens: int = most_tokens(Reformulations)
    index: str = "sparse"
    units: str = "units"
    abbreviations: str = "abbreviations"

    reads: ClassVar[tuple[str, ...]] = ("text", "topic", "narrative")
    writes: ClassVar[pa.Schema] = relation("reformulations:strings reformulation_model")
    slot: ClassVar[str] = "reformulate"
    file: ClassVar[PromptFile] = PROMPT
    auxiliary: ClassVar[bool] = True

    @property
    def off(self) -> bool:
        """Whether there is no version: the engine is `rules` and `by_rules` is off."""
        return isinstance(self.engine, Rules) and not self.by_rules

    @property
    def _rewords(self) -> bool:
        """Whether the corpus's own words make the versions."""
        return isinstance(self.engine, Rules) and self.by_rules

    def needs(self) -> tuple[str, ...]:
        """The indexes that rules reword by; a model needs none."""
        return (self.index, self.units, self.abbreviations) if self._rewords else ()

    def open(self, at: Place) -> Function:
        """Bind the engine, or map the indexes that rules reword by."""
        if not self._rewords:
            return super().open(at)
        reword = Rewording(
            open_sparse(at.artifact(self.index)),
            open_units(at, self.units),
            read_abbreviations(at.artifact(self.abbreviations)),
        )

        def run(batch: pa.Table) -> pa.Table:
            made = {
                number: {
                    "reformulations": reword(row["text"]),
                    "reformulation_model": self.engine.name,
                }
                for number, row in live(batch, ("text",))
            }
            return filled(batch, self.writes, made)

        return run

    def told(self, row: Row) -> Row:
        """The question, with topic and narrative if `context` is on."""
        context = context_of(row) if self.context else ""
        return {"question": fenced("question", row["text"]), "context": context}

    def ruled(self, rows: Sequence[Row]) -> Iterable[Answer]:
        """The question as it is (its beginning, where it is long), which counts as no version."""
        asked = (row["text"] for row in rows)
        return [Reformulations(clinical=text, patient=text, aspect=text) for text in asked]

    def columns(self, value: Any, row: Row) -> Row:
        """The versions that are new."""
        model = "" if self.off else self.engine.name
        return {"reformulations": value.distinct(row["text"]), "reformulation_model": model}


def context_of(row: Row) -> str:
    """Topic and narrative of a question, a line each, those that it has."""
    told = (("Topic", row["topic"]), ("Narrative", row["narrative"]))
    return "".join(f"\n{name}: {quoted(text)}" for name, text in told if text)
