"""One call that reads papers and answers a question from them, with the sentences it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress, zip_longest
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from srrag.answer.select.candidates import passage_of
from srrag.answer.select.papers import GatherPapers
from srrag.answer.select.quotes import ExtractRule, sentence_weights_fitted
from srrag.answer.select.sentence_numbers import cited, number_of_sentences, paper_lines
from srrag.answer.write.choose_rules import choose
from srrag.answer.write.cited import ABSTENTION, NO_EVIDENCE, answer_text, by_paper, choice_of
from srrag.answer.write.papers_answer import ChosenFromPapers, PapersAnswer, SearchingAnswer
from srrag.core.pipeline import Pipeline
from srrag.core.provenance import Fitted
from srrag.core.rows import Row, RowStep
from srrag.core.schema import (
    ANSWER,
    HITS,
    NO_CHOICE,
    PARTS,
    QUESTIONS,
    empty_value,
    relation,
    sentence_row,
)
from srrag.core.standing import SCALE
from srrag.core.step import Function, Place, Step
from srrag.llm.completion import Fault, PromptFile, Rules, quoted
from srrag.llm.fields import most_tokens
from srrag.reading.conversation import said
from srrag.reading.prose import plain

PATH = Path(__file__).parent / "prompts" / "read_and_answer.md"
SAID = PromptFile(Path(__file__).parent / "prompts" / "said_before.md")
NOTHING_TO_QUOTE = "No sentence of the papers speaks of what was asked."
MOST_QUOTES = 4
UNCITED = "No sentence of the answer cites a paper."


@dataclass(frozen=True, kw_only=True)
class ReadAndAnswer(RowStep):
    """Answer `text` from the papers in `evidence`, in one call that finds before it judges.

    The model lists the sentences that bear on the question (`findings`), says whether they answer
    it (`state`, `verdict`), and then writes answer, evidence and limits, each sentence with the
    numbers of the sentences that state it: its `places`. Numbers that name nothing are dropped and
    counted in `invalid_citations`, sentences left without any in `dropped_sentences`. Where the
    state is "not", `evidence` is what comes nearest. With `options` the model chooses one
    (`choice`); with `searches` a question without options may ask for a further search (see
    SearchAgain).
    Of a conversation it is shown what was said, which numbers of papers cannot cite.
    The rules quote (ExtractRule). A faulty answer rejects its row.
    """

    writes: ClassVar[pa.Schema] = relation(
        *ANSWER, "invalid_citations:int dropped_sentences:int searches:strings"
    )
    reads: ClassVar[tuple[str, ...]] = ("text", "options", "conversation", "evidence")
    slot: ClassVar[str] = "read"
    stage: ClassVar[str] = "answer"
    file: ClassVar[PromptFile] = PromptFile(PATH, PapersAnswer)
    prompt_files: ClassVar[tuple[Path, ...]] = (SAID.path,)
    version: ClassVar[int] = 3

    searches: bool = False
    max_tokens: int = most_tokens(SearchingAnswer)

    def fitted(self) -> tuple[Fitted, ...]:
        """The questions that the rules' sentence weights were fitted on; nothing for a model."""
        return (sentence_weights_fitted(),) if isinstance(self.engine, Rules) else ()

    def told(self, row: Row) -> dict[str, str] | None:
        """What was said, the question, its options and the papers, if there are any."""
        if not row["evidence"]:
            return None
        before = row["conversation"]["turns"]
        told = SAID.user(said=said(row["conversation"], row["evidence"])) if before else ""
        return {
            "said": f"{told}\n" if told else "",
            "question": quoted(row["text"]),
            "options": f"\nOptions: {quoted(row['options'])}" if row["options"] else "",
            "papers_in_all": _in_all(row["evidence"]),
            "papers": "\n".join(paper_lines(row["evidence"])),
        }

    def asked(self) -> dict[str, Any]:
        """Nothing: the system text is a row's own."""
        return {}

    def own(self, row: Row) -> dict[str, Any]:
        """The schema of a question with options or without, which the system text explains."""
        without = SearchingAnswer if self.searches else PapersAnswer
        schema = ChosenFromPapers if row["options"] else without
        about = {"question": row["text"], "options": tuple(row["options"])}
        rules = f"{SAID.system(grades=SCALE)}\n" if row["conversation"]["turns"] else ""
        system = PromptFile(PATH, schema).system(said_rules=rules)
        return {"schema": schema, "system": system, **about}

    def ruled(self, rows: Sequence[Row]) -> list[Row]:
        """Quote the papers, each quote by the number of its sentence."""
        return [self._ruled(row) for row in rows]

    def _ruled(self, question: Row) -> Row:
        passages = [passage_of(item) for item in question["evidence"]]
        choices = ExtractRule()(question["text"], passages).choices[:MOST_QUOTES]
        numbers = number_of_sentences(question["evidence"]) if choices else {}
        told: list[dict[str, Any]] = [
            {
                "text": each.text,
                "sentences": [numbers.get((n, each.text), str(n)) for n in each.cites],
            }
            for each in choices
        ]
        blank = {"findings": [], "verdict": "", "limits": [], "search": [], "choice": 0}
        schema = self.own(question)["schema"]
        if question["options"]:
            chosen = choose(question["text"], question["options"], passages)
            blank["choice"] = chosen.option + 1
        answer = blank | {
            "state": "answered" if told else "not",
            "answer": told[:1],
            "evidence": told[1:],
            "missing": "" if told else NOTHING_TO_QUOTE,
        }
        return {name: answer[name] for name in schema.model_fields}

    def fault(self, value: PapersAnswer, row: Row) -> Fault | None:
        """Fault: the state says that there is an answer, and no sentence of it cites a paper."""
        if value.state == "not":
            return None
        if any(cited(each.sentences, row["evidence"]).evidence_ids for each in value.answer):
            return None
        detail = (
            "No sentence of `answer` cites a sentence of the papers. Give for each its numbers, "
            'such as "2.7", or set `state` to "not".'
        )
        return Fault("uncited", detail)

    def unasked(self, row: Row) -> Row:
        """An abstention without papers."""
        return {"answer": ABSTENTION, "state": "not", "missing": NO_EVIDENCE, "model": "rules"}

    def columns(self, value: PapersAnswer, row: Row) -> Row:
        """The columns of an answer."""
        made = answer_columns(value, row["evidence"]) | {"model": self.engine.name}
        if made["state"] != "not":
            made["choice"] = choice_of(value, len(row["options"]))
        return made | {"searches": [plain(each) for each in getattr(value, "search", ())]}


def answer_columns(told: PapersAnswer, evidence: Sequence[Row]) -> Row:
    """The columns of an answer to a question with these papers."""
    numbers = {item["evidence_id"]: n for n, item in enumerate(evidence, 1)}
    findings: list[Row] = []
    invalid = dropped = 0
    for finding in told.findings:
        found = cited(finding.sentences, evidence)
        invalid += found.invalid
        nowhere = ({"evidence_id": name, "start": 0, "end": 0} for name in found.evidence_ids)
        findings += [
            {"text": plain(finding.says), "kind": finding.kind, **place}
            for place in (found.places or [*nowhere])[:1]
        ]
    sentences: list[Row] = []
    for part in PARTS if told.state != "not" else ("evidence",):
        for each in getattr(told, part):
            found = cited(each.sentences, evidence)
            invalid += found.invalid
            dropped += not found.evidence_ids
            if found.evidence_ids and (text := plain(each.text)):
                sentences.append(
                    sentence_row(text, found.evidence_ids, part=part, places=found.places)
                )
    sentences = by_paper(sentences, evidence)
    answers = any(each["part"] == "answer" for each in sentences)
    state = told.state if answers else "not"
    if state != told.state:
        sentences = []
    return {
        "answer": answer_text(sentences, numbers, state),
        "state": state,
        "verdict": told.verdict if answers else "",
        "sentences": sentences,
        "findings": findings,
        "missing": plain(told.missing),
        "choice": NO_CHOICE,
        "answer_note": UNCITED if told.state != "not" and not answers else "",
        "invalid_citations": invalid,
        "dropped_sentences": dropped,
    }


def _in_all(evidence: Sequence[Row]) -> str:
    """How many papers there are, and how their pieces are numbered where they come in several."""
    papers = len({each["doc_id"] or n for n, each in enumerate(evidence)})
    pieces = f", in pieces numbered to {len(evidence)}; those that repeat others are left out"
    return f"{papers} in all{pieces if papers < len(evidence) else ''}"


_REVISES = tuple(
    name for step in (GatherPapers, ReadAndAnswer) for name in step.writes.names if name != "reject"
)


@dataclass(frozen=True, kw_only=True)
class SearchAgain(Step):
    """Search for each text in `searches` by the pipeline `search`, and answer from all found.

    This step follows ReadAndAnswer(searches=true). The papers that the first answer used come
    first, then the best `k` windows of each search in turn, then what was found before; `read`
    answers anew, and the new answer counts. Questions without `searches` stay as they are, and so
    does a question whose search or second reading failed, or whose search brought no text that was
    not read. `searches` keeps what was searched for.
    """

    version: ClassVar[int] = 2

    search: Pipeline
    papers: GatherPapers
    read: ReadAndAnswer
    k: int = 20

    reads: ClassVar[tuple[str, ...]] = ("text", "options", "conversation", "hits", *_REVISES)
    revises: ClassVar[tuple[str, ...]] = tuple(name for name in _REVISES if name != "searches")
    writes: ClassVar[pa.Schema] = pa.schema([])

    def __post_init__(self) -> None:
        """Raise ValueError if `k` is below 1, or the second reading would ask for a third."""
        if self.k < 1:
            raise ValueError("k must be at least 1")
        if self.read.searches:
            raise ValueError("read.searches: there is no third search")

    def needs(self) -> tuple[str, ...]:
        """What the search needs, and the papers."""
        return tuple(dict.fromkeys((*self.search.needs(), *self.papers.needs())))

    def identity(self) -> dict[str, Any]:
        """The identities of the search and of the reading."""
        return {"search": self.search.identity(), "read": self.read.identity()}

    def open(self, at: Place) -> Function:
        """Open the search, the papers and the reading."""
        search, papers, read = (step.open(at) for step in (self.search, self.papers, self.read))
        names = [*self.revises, "searches"]

        def run(batch: pa.Table) -> pa.Table:
            rows = batch.select(names).to_pylist()
            asked = [
                (n, text)
                for n, row in enumerate(rows)
                for text in row["searches"]
                if any(char.isalnum() for char in text)
            ]
            if not asked:
                return batch
            made = search(_questions([text for _, text in asked]))
            found: dict[int, list[list[Row]]] = {}
            for (n, _), hits in zip(asked, made["hits"].to_pylist(), strict=True):
                found.setdefault(n, []).append(hits[: self.k])
            again = batch.take(pa.array([*found]))
            hits = [
                list(merged(rows[n], lists, before))
                for (n, lists), before in zip(found.items(), again["hits"].to_pylist(), strict=True)
            ]
            again = again.drop_columns([*names, "hits"]).append_column("hits", pa.array(hits, HITS))
            again = papers(again)
            new = [
                not _texts(evidence) <= _texts(rows[n]["evidence"])
                for n, evidence in zip(found, again["evidence"].to_pylist(), strict=True)
            ]
            told = read(again.filter(pa.array(new, pa.bool_()))).to_pylist() if any(new) else []
            for n, row in zip(compress(found, new), told, strict=True):
                if row["reject"] is None:
                    rows[n] = {name: row[name] for name in self.revises}
            for name in self.revises:
                place = batch.column_names.index(name)
                item = batch.schema.field(name)
                column = pa.array([row[name] for row in rows], item.type)
                batch = batch.set_column(place, item, column)
            return batch

        return run


def _texts(evidence: Sequence[Row]) -> set[str]:
    return {item["text"] for item in evidence}


def _questions(texts: Sequence[str]) -> pa.Table:
    blank = {item.name: empty_value(item.type) for item in QUESTIONS} | {"reject": None}
    return pa.Table.from_pylist([blank | {"text": text} for text in texts], schema=QUESTIONS)


def merged(answered: Row, found: Sequence[Sequence[Row]], before: Sequence[Row]) -> Iterator[Row]:
    """The hits of a second reading: of the papers used, of each search in turn, and of the first.

    Each window comes once, with the score of its own search.
    """
    used = {name for each in answered["sentences"] for name in each["evidence_ids"]}
    used |= {each["evidence_id"] for each in answered["findings"]}
    kept = [
        {"unit_id": item["unit_id"], "score": item["score"]}
        for item in answered["evidence"]
        if item["evidence_id"] in used
    ]
    in_turn = (hit for hits in zip_longest(*found) for hit in hits if hit is not None)
    every: dict[str, Row] = {}
    for hit in chain(kept, in_turn, before):
        every.setdefault(hit["unit_id"], hit)
    for rank, hit in enumerate(every.values(), 1):
        yield {"unit_id": hit["unit_id"], "score": hit["score"], "rank": rank}
