"""What becomes of an answer by the checks on its sentences: each stays, is replaced, or falls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from srrag.answer.select.sentence_numbers import CitedText, cited, cited_papers, sources_of
from srrag.answer.support.vetoes import folded, intrusion, veto
from srrag.answer.write.cited import answer_text
from srrag.core.rows import Row
from srrag.core.schema import NO_CHOICE
from srrag.llm.completion import Answer
from srrag.llm.fields import Items, Means, Text
from srrag.reading.numbers import lost_numbers
from srrag.reading.prose import plain

LOST_LEAD = "The answer that was written could not be supported by the papers that it cites."
REVISES = (
    "answer", "sentences", "state", "verdict", "choice", "answer_note", "missing", "findings",
)  # fmt: skip
"""The columns of an answer that checks revise."""

VERDICTS = {
    "full": "if the papers that it cites say all of this, in whatever words, also in sentences of "
    "theirs that it does not cite, or more than this: what is left out is a fault only where it "
    "changes the meaning, as a subgroup does that stands for all. "
    "Plain conclusions count: a number rounded or converted, a sum or difference, a "
    "count of the papers cited, what the answer remarks of them if they do not say otherwise "
    '("no size is given", "it is a protocol", "the conclusion goes beyond the figures", '
    '"whether it helps children is open", "with 30 people a harm may have been missed"). What the '
    "authors conclude is stated if the sentence says it as they do",
    "partial": "if its main statement is there, but something in it is not stated or goes further",
    "none": "if its main statement is not there, even if you know it to be true. So is advice, an "
    "order to the reader or an advertisement that no cited paper gives",
    "contradicted": "if what it cites says otherwise: another direction, number, group, "
    "comparator, people, outcome or paper than the sentence says",
}
"""What each verdict means, for the model that gives it."""
MAX_CHECKS = 24
MAX_CITES = 6


class CheckedSentence(Answer):
    """What the cited papers say of one sentence, and the sentence as they state it."""

    n: Annotated[int, Field(ge=1, le=MAX_CHECKS), Means("the number of the sentence")]
    reason: Annotated[
        str, Text(25, "what is cited where it matters, and what differs", "all agrees")
    ]
    verdict: Annotated[Literal["full", "partial", "none", "contradicted"], Means("", VERDICTS)]
    correction: Annotated[
        str,
        Text(
            60,
            "the sentence as the papers state it, changed as little as possible: what is not "
            "stated goes, what is wrong is set right",
            'the verdict is "full", or if the papers state nothing that could stand in its place',
        ),
    ]
    cites: Annotated[
        list[Annotated[str, Field(max_length=12)]],
        Items(MAX_CITES, 'numbers of the sentences that the correction rests on, such as "2.7"',
              "there is none"),
    ]  # fmt: skip


class CheckedAnswer(Answer):
    """One check a sentence."""

    example: ClassVar[dict[str, Any] | None] = {
        "checks": [
            {"n": 1, "reason": "2.7 gives the 12 points, for walking speed.", "verdict": "full",
             "correction": "", "cites": []},
            {"n": 2, "reason": "2.9 has women only.", "verdict": "partial",
             "correction": "In women, falls were fewer.", "cites": ["2.9"]},
        ]
    }  # fmt: skip

    checks: Annotated[list[CheckedSentence], Items(MAX_CHECKS, "one for each sentence, in order")]


def checked(row: Row, checks: Mapping[int, CheckedSentence]) -> Row:
    """The columns of an answer that its checks revise, with `support` and `unsupported`.

    `checks` are by number from 1 of what `to_check` returns.
    """
    asked = to_check(row)
    papers = cited_papers(row["evidence"], row["sentences"])
    by_place = {place: checks.get(n) for n, place in enumerate(asked, 1)}
    kept: list[Row] = []
    unsupported: list[Row] = []
    lead: Settled | None = None
    for place, sentence in enumerate(row["sentences"]):
        settled = settle(sentence, by_place.get(place), papers, row)
        stands = settled.sentence
        if settled.fault and stands and stands["text"] in [each["text"] for each in kept]:
            stands = None  # an earlier sentence says it already
        if lead is None and sentence["part"] == "answer":
            lead = settled
        kept += [stands] if stands else []
        if settled.fault:
            told = {name: sentence[name] for name in ("text", "evidence_ids")}
            told |= {"fault": settled.fault, "reason": settled.reason}
            unsupported.append(told | {"repaired": stands["text"] if stands else ""})
    counts = {
        "sentences": len(row["sentences"]),
        "kept_sentences": len(kept),
        "repaired_sentences": sum(bool(each["repaired"]) for each in unsupported),
    }
    same = {name: row[name] for name in REVISES} | _unvetoed(row)
    revised = _revised(row, kept, lead) if unsupported else {}
    return {**same, **revised, "support": counts, "unsupported": unsupported}


def _revised(row: Row, kept: list[Row], lead: Settled | None) -> Row:
    """The columns of an answer of which these sentences are left; `lead` became of its first."""
    fell = lead is not None and lead.sentence is None
    turned = lead is not None and lead.fault == "contradicted"
    if fell:
        kept = [
            each | {"part": "limits" if each["part"] == "limits" else "evidence"} for each in kept
        ]
    told = any(each["part"] != "limits" for each in kept)
    closed = row["state"] == "not" or not told
    head = [LOST_LEAD] if fell and not closed else []
    numbers = {item["evidence_id"]: n for n, item in enumerate(row["evidence"], 1)}
    body = answer_text(kept, numbers, "not" if closed else "")
    because = f"{LOST_LEAD} {lead.reason}".strip() if lead and fell else ""
    return {
        "answer": "\n\n".join([*head, body]),
        "sentences": kept,
        "state": "not" if closed else "partly" if fell else row["state"],
        "verdict": "" if fell or turned else row["verdict"],
        "choice": NO_CHOICE if fell or turned else row["choice"],
        "answer_note": " ".join(filter(None, (because, row["answer_note"]))),
    }


def _unvetoed(row: Row) -> Row:
    """Findings and `missing` without what `veto` holds back, nor findings with a lost number.

    No model checks findings.
    """
    every = [f"{item['title']}\n{item['text']}" for item in row["evidence"]]

    def stands(finding: Row) -> bool:
        sources = whole_papers({"evidence_ids": [finding["evidence_id"]]}, row)
        return not veto(finding["text"], sources) and not lost_numbers(finding["text"], sources)

    return {
        "findings": [each for each in row["findings"] if stands(each)],
        "missing": "" if intrusion(row["missing"], [row["text"], *every]) else row["missing"],
    }


def to_check(row: Mapping[str, Any]) -> list[int]:
    """The places of the sentences of an answer that cite evidence, MAX_CHECKS at most."""
    held = {item["evidence_id"] for item in row["evidence"]}
    return [
        place
        for place, each in enumerate(row["sentences"])
        if held.intersection(each["evidence_ids"])
    ][:MAX_CHECKS]


class Settled(NamedTuple):
    """What becomes of a sentence: it stays, is replaced, or falls, where `sentence` is None."""

    sentence: Row | None
    fault: str = ""
    reason: str = ""


def settle(
    sentence: Row,
    found: CheckedSentence | None,
    papers: Mapping[str, CitedText],
    row: Row,
) -> Settled:
    """Decide on a sentence by its check, None where there is none, and by what `veto` finds."""
    sources = whole_papers(sentence, row)
    full = found is not None and found.verdict == "full"
    fault = veto(sentence["text"], sources, checked=full)
    reason = ""
    if found is not None and found.verdict != "full":
        fault = fault or found.verdict
        reason = "" if intrusion(found.reason, sources) else plain(found.reason)
    if not fault:
        return Settled(sentence)
    corrected = found and correction(sentence, found, papers, row)
    return Settled(corrected or None, fault, reason)


def correction(
    sentence: Row, found: CheckedSentence, papers: Mapping[str, CitedText], row: Row
) -> Row | None:
    """The corrected sentence with what it rests on; None if there is none that can stand.

    It rests on what the sentence rests on, unless the check names sentences of the papers shown. It
    holds no number that neither it nor they hold, and nothing that `veto` holds back.
    """
    text = plain(found.correction)
    if not text:
        return None
    named = cited(found.cites, row["evidence"])
    ids = [each for each in named.evidence_ids if each in papers]
    places = [each for each in named.places if each["evidence_id"] in papers]
    if not ids:
        ids, places = sentence["evidence_ids"], sentence["places"]
    new = {**sentence, "text": text, "evidence_ids": ids, "places": places}
    sources = sources_of(new, papers, row["text"])
    lost = {*lost_numbers(text, sources)} - {*lost_numbers(sentence["text"], sources)}
    cites_same = (ids, places) == (sentence["evidence_ids"], sentence["places"])
    same = cites_same and folded(text) == folded(sentence["text"])
    return None if same or lost or veto(text, whole_papers(new, row)) else new


def whole_papers(sentence: Row, row: Row) -> list[str]:
    """The question, and all evidence that is of the papers that a sentence cites.

    A passage that says "Dex" is of a paper that says "dexamethasone" elsewhere.
    """
    cited = {e["doc_id"] or e["evidence_id"] for e in row["evidence"]
             if e["evidence_id"] in sentence["evidence_ids"]}  # fmt: skip
    return [row["text"]] + [
        f"{item['title']}\n{item['year'] or ''}\n{item['text']}"
        for item in row["evidence"]
        if (item["doc_id"] or item["evidence_id"]) in cited
    ]
