"""The support gate: checks each sentence of an answer against the evidence that it cites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from srrag.answer.cited import ABSTENTION, PARTIAL, UNCITED_MARK
from srrag.answer.support_gate import FAULTS, FITTED, Encode, Gate, Verdict
from srrag.answer.support_signs import Window
from srrag.model.encoder import Encoder
from srrag.provenance import Fitted, learned_id, packaged_fit
from srrag.rows import Row, live, with_columns
from srrag.schema import NO_CHOICE
from srrag.step import Function, LLMStep, Place, Step

UNSUPPORTED = "No sentence of the answer is supported by what it cites."

# Counts of the sentences and citations checked and kept.
SUPPORT = pa.struct(
    [
        pa.field("sentences", pa.int32()),
        pa.field("kept_sentences", pa.int32()),
        pa.field("citations", pa.int32()),
        pa.field("kept_citations", pa.int32()),
    ]
)
# What was dropped: whole sentences with their fault, and single citations of kept sentences
# ("citation").
DROPPED = pa.list_(
    pa.struct(
        [
            pa.field("text", pa.string()),
            pa.field("fault", pa.string()),
            pa.field("evidence_ids", pa.list_(pa.string())),
        ]
    )
)
CITATION = "citation"

MakeGate = Callable[[str, Sequence[Window]], Gate]
"""Makes the gate for a question and its evidence."""


@dataclass(frozen=True, kw_only=True)
class CheckSupport(Step):
    """Drop citations that do not support their sentence, then sentences without support.

    This step follows an answering step and revises its `answer` and `sentences`; kept sentences
    keep their paragraph and numbers. If no sentence remains, the answer is an abstention. `support`
    counts sentences and citations before and after; `unsupported` lists what was dropped and why
    (see FAULTS). A verbatim quote passes without a vector, so `embedder` is loaded only at the
    first sentence in other words.
    """

    embedder: Encoder = field(default_factory=Encoder)

    reads: ClassVar[tuple[str, ...]] = (
        "text", "evidence", "answer", "sentences", "state", "choice", "answer_note",
    )  # fmt: skip
    revises: ClassVar[tuple[str, ...]] = (
        "answer", "sentences", "state", "choice", "answer_note",
    )  # fmt: skip
    writes: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("support", SUPPORT, nullable=False),
            pa.field("unsupported", DROPPED, nullable=False),
        ]
    )

    def identity(self) -> dict[str, Any]:
        """The content of the fitted weights, without what they were fitted on."""
        return {FITTED.name: learned_id(FITTED.read_text("utf-8"), FITTED)}

    def fitted(self) -> tuple[Fitted, ...]:
        """The questions and articles whose pairs the gate was fitted on."""
        return (packaged_fit("srrag.answer", FITTED.name, "support gate"),)

    def open(self, at: Place) -> Function:
        """Bind the encoder, which is loaded at its first use."""
        encode = self.encode_at(at)

        def run(batch: pa.Table) -> pa.Table:
            rows: list[Row] = [
                {"answer": "", "sentences": [], "state": "", "choice": NO_CHOICE}
                | {"answer_note": ""}
                | {"support": dict.fromkeys(SUPPORT.names, 0), "unsupported": []}
            ] * batch.num_rows
            for number, row in live(batch, self.reads):
                rows[number] = checked(row, encode)
            names = (*self.revises, *self.writes.names)
            fields = [
                self.writes.field(name) if name in self.writes.names else batch.schema.field(name)
                for name in names
            ]
            return with_columns(batch, pa.Table.from_pylist(rows, schema=pa.schema(fields)))

        return run

    def encode_at(self, at: Place) -> Encode:
        """Return a function that encodes sentences and loads the encoder at its first call."""

        def encode(texts: Sequence[str]) -> Any:
            from srrag.model.embed import load

            return load(self.embedder, at.device).encode(texts)

        return encode


def windows_of(evidence: Sequence[Mapping[str, Any]]) -> list[Window]:
    """Convert the evidence of a question to the windows of the gate."""
    return [Window(item["title"], item["section"], item["text"]) for item in evidence]


def checked(row: Mapping[str, Any], encode: Encode) -> Row:
    """The revised columns of an answered question."""
    ids = [item["evidence_id"] for item in row["evidence"]]
    numbers = {evidence_id: n for n, evidence_id in enumerate(ids, start=1)}
    gate = Gate(row["text"], windows_of(row["evidence"]), encode)
    kept: list[Row | None] = []
    dropped: list[Row] = []
    for said in row["sentences"]:
        verdict = gate.check(said["text"], [numbers[each] for each in said["evidence_ids"]])
        stands = [ids[n - 1] for n in verdict.cites]
        lost = [each for each in said["evidence_ids"] if each not in stands]
        kept.append(None if verdict.fault else citing(said, stands))
        if verdict.fault or lost:
            fault = verdict.fault or CITATION
            dropped.append({"text": said["text"], "fault": fault, "evidence_ids": lost})
    left = [each for each in kept if each is not None]
    counts = {
        "sentences": len(kept),
        "kept_sentences": len(left),
        "citations": sum(len(each["evidence_ids"]) for each in row["sentences"]),
        "kept_citations": sum(len(each["evidence_ids"]) for each in left),
    }
    same = {name: row[name] for name in CheckSupport.revises}
    if dropped:
        same = revised(row, kept, numbers)
    return {**same, "support": counts, "unsupported": dropped}


def citing(sentence: Row, evidence_ids: Sequence[str]) -> Row:
    """A sentence that cites no more than these."""
    places = [each for each in sentence["places"] if each["evidence_id"] in evidence_ids]
    return {**sentence, "evidence_ids": list(evidence_ids), "places": places}


def revised(row: Mapping[str, Any], kept: Sequence[Row | None], numbers: Mapping[str, int]) -> Row:
    """The answer without the dropped sentences and citations; `kept` has None for a sentence."""
    texts = rebuilt(row["answer"], row["sentences"], kept, numbers)
    left = [each for each in kept if each is not None]
    if not left:
        note = " ".join(filter(None, (UNSUPPORTED, row["answer_note"])))
        return {"answer": ABSTENTION, "sentences": [], "state": "not",
                "choice": NO_CHOICE, "answer_note": note}  # fmt: skip
    return {
        "answer": "\n\n".join([*texts, *([PARTIAL] if row["state"] == "partly" else [])]),
        "sentences": left,
        "state": row["state"],
        "choice": row["choice"],
        "answer_note": row["answer_note"],
    }


def rebuilt(
    answer: str,
    sentences: Sequence[Mapping[str, Any]],
    kept: Sequence[Mapping[str, Any] | None],
    numbers: Mapping[str, int],
) -> list[str]:
    """The paragraphs of an answer with the kept version of each sentence; None drops a sentence."""
    shown: dict[int, list[str]] = {}
    for paragraph, each in zip(_paragraphs(answer, sentences, numbers), kept, strict=True):
        if each is not None:
            shown.setdefault(paragraph, []).append(_marked(each, numbers))
    return [" ".join(shown[paragraph]) for paragraph in sorted(shown)]


def _marked(sentence: Mapping[str, Any], numbers: Mapping[str, int]) -> str:
    marks = "".join(f"[{numbers[each]}]" for each in sentence["evidence_ids"])
    return f"{sentence['text']} {marks or UNCITED_MARK}"


def _paragraphs(
    answer: str, sentences: Sequence[Mapping[str, Any]], numbers: Mapping[str, int]
) -> list[int]:
    """The paragraph of each sentence, from 0.

    An answer is its sentences in order, each with its markers. Raises ValueError if it is not.
    """
    found = []
    at = paragraph = 0
    for sentence in sentences:
        text = _marked(sentence, numbers)
        start = answer.find(text, at)
        if start < 0:
            raise ValueError(f"the answer does not hold its sentence {text[:80]!r}")
        paragraph += answer.count("\n\n", at, start)
        at = start + len(text)
        found.append(paragraph)
    return found


def support_line(unsupported: Sequence[Mapping[str, Any]]) -> str:
    """A line for the reader on what was left out and why; "" if nothing was."""
    faults = Counter(each["fault"] for each in unsupported)
    citations = sum(len(e["evidence_ids"]) for e in unsupported if e["fault"] == CITATION)
    told = [
        f"{_some(count, 'sentence')} ({FAULTS[fault]})"
        for fault, count in faults.most_common()
        if fault != CITATION
    ]
    told += [f"{_some(citations, 'citation')} that did not support the sentence"] * bool(citations)
    return f"Left out: {'; '.join(told)}." if told else ""


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count > 1 else ''}"


def gate_of(steps: Sequence[Step], at: Place) -> MakeGate | None:
    """Return the gates of the pipeline's own CheckSupport step; None if it has no such step.

    Where a later step has a model read each sentence, no sentence passes before the end.
    """
    for number, step in enumerate(steps):
        if isinstance(step, CheckSupport):
            later = any(
                "sentences" in each.revises and not (isinstance(each, LLMStep) and each.off)
                for each in steps[number + 1 :]
            )
            return partial(Closed if later else Gate, encode=step.encode_at(at))
    return None


class Closed(Gate):
    """A gate that lets no sentence of a draft pass: what stands is known at the end."""

    def check(self, sentence: str, cites: Sequence[int]) -> Verdict:
        """Hold the sentence back."""
        return Verdict((), "unsupported")
