"""The gate before an answer: judges whether the evidence is about the question."""

from __future__ import annotations

import functools
import json
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from srrag.algo.classification import sigmoid
from srrag.algo.terms import terms
from srrag.answer.gate.coverage import (
    FEATURES,
    Floats,
    Frequencies,
    Held,
    TextSource,
    features,
    held,
    lacked_words,
    missing_words,
    shares,
    typos,
)
from srrag.core.provenance import NOT_KNOWN, Fitted, learned_id, read_fitted
from srrag.core.rows import live, with_columns
from srrag.core.schema import ANSWERABLE, non_null
from srrag.core.standing import joined
from srrag.core.step import Function, Place, Step
from srrag.reading.people import asked_people
from srrag.reading.prose import plain
from srrag.storage.atomic_write import read_json

PACKAGED = "answerable.json"
MAX_NAMED = 8
"""Words that a note lists; the rest are counted."""
NEAR_SHARE = 0.6
"""A document is on topic if it holds this share of the question weight that the best one holds."""
MAX_TITLE_CHARS = 160
OTHER_PEOPLE = "So the answer may be about other people than those asked about."
_NOTHING: Mapping[str, Any] = {
    "lacking": [], "near": [], "nearest": "", "on_topic": [], "lacks": [], "shares": []
}  # fmt: skip


@dataclass(frozen=True)
class AnswerableModel:
    """A logistic regression over FEATURES, with the word frequencies behind the features."""

    weights: tuple[float, ...]
    bias: float
    threshold: float
    frequencies: Frequencies
    fitted: Fitted = NOT_KNOWN

    def probability(self, found: Floats) -> float:
        """Probability that the evidence answers the question, from FEATURES."""
        return float(sigmoid(np.array([found @ np.array(self.weights) + self.bias]))[0])


def read_model(path: Path) -> AnswerableModel:
    """Read a model written by `srrag fit_abstain`; raises ValueError that names the file."""
    try:
        return parse_model(read_json(path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not what `srrag fit_abstain` writes ({error})") from error


def parse_model(told: Mapping[str, Any]) -> AnswerableModel:
    """Parse the content of a model file; raises ValueError if its features are not FEATURES."""
    if tuple(told["features"]) != FEATURES:
        raise ValueError("its features are not those of this version: fit it again")
    counts = {stem: int(n) for stem, n in told["document_frequency"].items()}
    weights = tuple(float(each) for each in told["weights"])
    if len(weights) != len(FEATURES):
        raise ValueError(f"{len(weights)} weights for {len(FEATURES)} features")
    frequencies = Frequencies(int(told["num_texts"]), counts)
    seen = read_fitted(told, "answerable", PACKAGED)
    return AnswerableModel(
        weights, float(told["bias"]), float(told["threshold"]), frequencies, seen
    )


@functools.cache
def packaged_model() -> AnswerableModel:
    """The model that comes with the package."""
    return parse_model(json.loads(files("srrag.answer.gate").joinpath(PACKAGED).read_text("utf-8")))


@dataclass(frozen=True, kw_only=True)
class JudgeAnswerable(Step):
    """Add `answerable`, the probability that `evidence` answers `text`, and the reasons as `gate`.

    The judgement uses title, section and text of each piece of evidence, joined by document; where
    `documents` names a column of documents, the text of a piece's whole document there. `gate`
    says whether to answer (the probability reaches `threshold`; null: the model's own), which
    telling words of the question are missing from the evidence, which words the nearest paper
    holds, and which pieces of evidence belong to documents with the main words of the question.
    `model` is a file of `srrag fit_abstain`; "" takes the packaged one. Its content is part of the
    identity, its path is not.
    """

    version: ClassVar[int] = 6
    writes: ClassVar[pa.Schema] = non_null("answerable:float", ("gate", ANSWERABLE))

    model: str = ""
    threshold: float | None = None
    documents: str = ""

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The question, the evidence, and the documents that it is of."""
        return ("text", "evidence", *filter(None, (self.documents,)))

    def __post_init__(self) -> None:
        """Raise ValueError for a threshold outside 0…1."""
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold is {self.threshold}: a probability, or null")

    def identity(self) -> dict[str, Any]:
        """The content of the model's file, without what it was fitted on."""
        text = (
            Path(self.model).read_text("utf-8")
            if self.model
            else files("srrag.answer.gate").joinpath(PACKAGED).read_text("utf-8")
        )
        return {"model": learned_id(text, self.model or PACKAGED)}

    def fitted(self) -> tuple[Fitted, ...]:
        """The questions with and without an answer that the model was fitted to."""
        return ((read_model(Path(self.model)) if self.model else packaged_model()).fitted,)

    def open(self, at: Place) -> Function:
        """Read the model; raises ValueError that names an invalid file."""
        model = read_model(Path(self.model)) if self.model else packaged_model()
        least = model.threshold if self.threshold is None else self.threshold

        def run(batch: pa.Table) -> pa.Table:
            gates: list[dict[str, Any]] = [
                {"answers": False, **_NOTHING} for _ in range(batch.num_rows)
            ]
            sure = np.zeros(batch.num_rows, np.float32)
            for row, question in live(batch, self.reads):
                whole = question[self.documents] if self.documents else ()
                texts = sources(question["evidence"], whole)
                found = held(question["text"], texts, model.frequencies)
                sure[row] = model.probability(features(found)) if question["evidence"] else 0.0
                gates[row] = {
                    "answers": bool(sure[row] >= least),
                    **_told(found, question["evidence"]),
                }
            columns = (pa.array(sure), pa.array(gates, ANSWERABLE))
            return with_columns(batch, pa.table(columns, schema=self.writes))

        return run


def sources(
    evidence: Sequence[Mapping[str, Any]], documents: Sequence[Mapping[str, Any]] = ()
) -> list[TextSource]:
    """Convert evidence to the sources of the gate, with the text of its document if that is there.

    A document is a paper: windows with the same PubMed id, or else the same title, belong together.
    """
    whole = {_paper(each): each["text"] for each in documents}
    return [
        TextSource(
            _paper(item),
            (item["title"], item["section"], whole.get(_paper(item), item["text"])),
        )
        for item in evidence
    ]


def _paper(item: Mapping[str, Any]) -> str:
    return str(item["pmid"] or item["title"] or item["doc_id"])


def _told(found: Held, evidence: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The missing words, the nearest words with their paper, and the evidence that is on topic."""
    lacking = missing_words(found)
    if not len(found.inside) or not len(found.words):
        return {**_NOTHING, "lacking": lacking}
    mass = found.documents @ found.weights**2
    best = int(np.argmax(mass))
    holds = [i for i in np.flatnonzero(found.documents[best]) if found.weights[i] > 0]
    telling = sorted(sorted(holds, key=lambda i: -found.weights[i])[:MAX_NAMED])
    enough = mass >= NEAR_SHARE * mass[best]
    title = plain(evidence[best]["title"])
    return {
        "lacking": lacking,
        "near": [found.words[i] for i in telling],
        "nearest": textwrap.shorten(title, MAX_TITLE_CHARS, placeholder=" …") if telling else "",
        "on_topic": [e["evidence_id"] for e, is_on in zip(evidence, enough, strict=True) if is_on],
        "lacks": [
            {"evidence_id": each["evidence_id"], "words": words}
            for each, words in zip(evidence, lacked_words(found), strict=True)
        ],
        "shares": [
            {"word": word, "share": share}
            for word, share in zip(found.words, shares(found).tolist(), strict=True)
            if share
        ],
    }


def lack_note(gate: Mapping[str, Any]) -> str:
    """A note that lists the question's words that no evidence holds, "" if there are none."""
    words = gate["lacking"]
    return f"Nothing in the evidence on {_listed(words)}." if words else ""


def typo_note(question: str, evidence: Sequence[Mapping[str, Any]]) -> str:
    """How words of a question that no evidence holds were read, "" for none."""
    texts = [text for each in evidence for text in (each["title"], each["text"])]
    read = typos(question, texts, packaged_model().frequencies)
    return " ".join(f"“{typo}” is read as “{word}”." for typo, word in read.items())


def unsaid_words(gate: Mapping[str, Any], cited: Collection[str]) -> list[str]:
    """Telling words of the question that no paper cited (by evidence id) speaks of."""
    lacks = [each["words"] for each in gate.get("lacks") or () if each["evidence_id"] in cited]
    return [word for word in (lacks[0] if lacks else ()) if all(word in each for each in lacks)]


def unsaid_share(gate: Mapping[str, Any], cited: Collection[str]) -> float:
    """The share of the question's weight (0…1) that `unsaid_words` carry."""
    unsaid = unsaid_words(gate, cited)
    return float(sum(each["share"] for each in gate.get("shares") or () if each["word"] in unsaid))


def unsaid_note(gate: Mapping[str, Any], cited: Collection[str]) -> str:
    """That no paper cited (by evidence id) speaks of words of the question, "" if each word is.

    The evidence may hold such a word elsewhere, in a paper that the answer does not rest on.
    """
    unsaid = [word for word in unsaid_words(gate, cited) if word not in gate["lacking"]]
    return f"No paper cited here speaks of {_listed(unsaid)}." if unsaid else ""


def people_note(question: str, gate: Mapping[str, Any], cited: Collection[str]) -> str:
    """That an answer may be about others, if no paper cited speaks of whom the question names."""
    asked = {*terms(asked_people(question))}
    missing = [*gate["lacking"], *unsaid_words(gate, cited)]
    return OTHER_PEOPLE if cited and not asked.isdisjoint(terms(" ".join(missing))) else ""


def abstention_note(gate: Mapping[str, Any], cited: Collection[str] = ()) -> str:
    """A note that says what is missing and what the nearest paper covers; never empty.

    `cited` are the papers (by evidence id) of an answer that was withheld.
    """
    if apart := unsaid_words(gate, cited):
        told = [f"What could be quoted is from papers that do not speak of {_listed(apart)}."]
    else:
        told = [lack_note(gate) or "No paper in the evidence speaks of all that the question asks."]
    if gate["near"]:
        paper = f" (“{gate['nearest']}”)" if gate["nearest"] else ""
        told.append(f"The nearest that there is speaks of {_listed(gate['near'])}{paper}.")
    return " ".join(told)


def _listed(words: Sequence[str]) -> str:
    """Join quoted words for a sentence; after the first ones, count the rest."""
    shown = [f"“{word}”" for word in words[:MAX_NAMED]]
    more = len(words) - len(shown)
    return joined([*shown, f"{more} more"] if more else shown)
