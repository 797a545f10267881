"""The check of an answer's sentences against what they cite, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import pyarrow as pa
from pydantic import Field

from srrag.answer.select.sentence_numbers import CitedText, cited, cited_papers, sources_of
from srrag.answer.support.vetoes import folded, intrusion, veto
from srrag.answer.write.cited import answer_text
from srrag.core.rows import Row, live, with_columns, with_rejects
from srrag.core.schema import NO_CHOICE, SUPPORT, UNSUPPORTED, relation
from srrag.core.standing import SCALE
from srrag.core.step import LLMStep
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile, Rules, quoted
from srrag.llm.fields import Items, Means, Text, most_tokens
from srrag.reading.conversation import said
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
    '("no size is given", "it is a protocol", "the conclusion goes beyond the figures" of one that '
    'is there, "whether it helps children is open", "with 30 people a harm may have been missed"). '
    "What the authors conclude is stated if the sentence says it as they do",
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
        # What the paper says the other way weighs more than what `veto` holds back.
        fault = found.verdict if found.verdict == "contradicted" else fault or found.verdict
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


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "check_answer.md", CheckedAnswer)


@dataclass(frozen=True, kw_only=True)
class CheckAnswer(LLMStep):
    """Have a model check the sentences of an answer against what each cites, and mend them.

    This step follows an answering step: one call a question, with the cited papers and all
    sentences that cite. A sentence that is not wholly supported is replaced once by its correction,
    which the same call gives; without one it is left out. If the lead falls (the first sentence of
    the part `answer`), so do verdict and choice: the answer says that it could not be supported,
    and what still stands is shown as evidence. `support` counts sentences, `unsupported` lists what
    did not stand as written and what stands instead.

    Numbers that no cited sentence holds are shown to the model, which decides. What `veto` finds
    is held back whatever the model says, in findings as well; `missing` and reasons may name what
    no paper holds. Sentences without a
    verdict stay as they were, and the question is marked as degraded. By rules this step is off.

    A cited paper is shown whole up to `whole_chars`, else the cited sentences with `neighbours`
    on either side.
    """

    whole_chars: int = 3000
    neighbours: int = 2
    max_tokens: int = most_tokens(CheckedAnswer)

    reads: ClassVar[tuple[str, ...]] = ("text", "conversation", "evidence", *REVISES)
    revises: ClassVar[tuple[str, ...]] = REVISES
    writes: ClassVar[pa.Schema] = relation(("support", SUPPORT), ("unsupported", UNSUPPORTED))
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    auxiliary: ClassVar[bool] = True
    version: ClassVar[int] = 5

    @property
    def off(self) -> bool:
        """Rules quote word for word, and have nothing to check."""
        return isinstance(self.engine, Rules)

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render one prompt for each question with a sentence that cites."""
        if self.off:
            return []
        return [
            Prompt(
                number,
                "check",
                PROMPT.system(grades=SCALE),
                self.rendered(row, [row["sentences"][place] for place in asked]),
                CheckedAnswer,
                max_tokens=self.max_tokens,
            )
            for number, row in live(batch, self.reads)
            if (asked := to_check(row))
        ]

    def rendered(self, row: Row, sentences: Sequence[Row]) -> str:
        """Render what a row has and its sentences in one prompt; sentences are numbered from 1."""
        question, papers = row["text"], cited_papers(row["evidence"], sentences)
        before = row["conversation"]["turns"]
        return PROMPT.user(
            said=f"{said(row['conversation'], row['evidence'])}\n" if before else "",
            question=quoted(question),
            papers="\n".join(
                line
                for paper in papers.values()
                for line in paper.lines(self.whole_chars, self.neighbours)
            ),
            num_sentences=len(sentences),
            sentences="\n".join(
                quoted(_to_judge(n, sentence, papers, question))
                for n, sentence in enumerate(sentences, 1)
            ),
        )

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Nothing is asked of the rules."""
        return []

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Each sentence has a check."""
        (row,) = batch.select(["sentences", "evidence"]).slice(prompt.row, 1).to_pylist()
        numbers = range(1, len(to_check(row)) + 1)
        given = [each.n for each in value.checks]
        if lacking := [n for n in numbers if n not in given]:
            listed = ", ".join(map(str, lacking))
            return Fault("incomplete", f"No check is given for these sentences: {listed}.")
        return None

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Revise each answer by the checks on its sentences."""
        checks: dict[int, dict[int, CheckedSentence]] = {}
        faults: dict[int, list[Fault]] = {}
        for prompt, completion in zip(prompts, completions, strict=True):
            fault = completion.fault or self.check(batch, prompt, completion.value)
            if fault is not None:
                faults[prompt.row] = [fault]
            given = completion.value.checks if completion.value else ()
            checks[prompt.row] = {each.n: each for each in reversed(given)}
        names = [*self.revises, "support", "unsupported"]
        blank = {"support": dict.fromkeys(SUPPORT.names, 0), "unsupported": []}
        rows = [each | blank for each in batch.select(list(self.revises)).to_pylist()]
        for number, row in live(batch, self.reads):
            if not self.off:
                rows[number] = checked(row, checks.get(number, {}))
        fields = [
            self.writes.field(name) if name in self.writes.names else batch.schema.field(name)
            for name in names
        ]
        table = pa.Table.from_pylist(rows, schema=pa.schema(fields))
        return with_rejects(with_columns(batch, table), "check", faults)


def _to_judge(n: int, sentence: Row, papers: Mapping[str, CitedText], question: str) -> Row:
    """What a prompt tells of a sentence; `not_found` stands only where a number was lost."""
    cited = [papers[each] for each in sentence["evidence_ids"] if each in papers]
    cites: list[str] = []
    sources = [question]
    for paper in cited:
        places = paper.of_places(sentence["places"])
        cites += [f"{paper.number}.{each}" for each in places] or [str(paper.number)]
        sources += [paper.item["title"], str(paper.item["year"] or "")]
        sources += [paper.sentence(each) for each in places] or [paper.item["text"]]
    lost = lost_numbers(sentence["text"], sources)
    told = {"n": n, "text": sentence["text"], "cites": ", ".join(cites)}
    return told | ({"not_found": ", ".join(lost)} if lost else {})
