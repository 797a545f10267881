"""The findings of a root, gathered for a question."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from srrag.algo.terms import terms
from srrag.core.errors import UsageError
from srrag.core.ontology import DOCUMENT, HAS_ATTRIBUTE, Ontology
from srrag.core.schema import DOCUMENTS
from srrag.core.spec import content_id
from srrag.core.standing import COPY, Standings
from srrag.core.step import Place
from srrag.expand.picot_anchors import rule_anchors
from srrag.extract.extract_documents import ExtractDocuments
from srrag.extract.list_extracts import ListTriples
from srrag.graph.name_vectors import vectors_of
from srrag.model.embed import few_texts, load
from srrag.model.encoder import Encoder
from srrag.reading.concepts import read_abbreviations
from srrag.reading.lexicon import lexicon
from srrag.reading.numbers import NUMBER_WORDS
from srrag.reading.prose import has_no_results, section_role, sentence_spans
from srrag.reading.statement import read_statement
from srrag.storage.store import Store
from srrag.synthesis.comparisons import Parts, Row, fits_people
from srrag.synthesis.studies import NameMatcher, StudyPaper
from srrag.synthesis.synthesis import Synthesis, synthesise

_LABEL = re.compile(
    r"(?:(#{1,6}) +|\*\*)?(?:\d+(?:\.\d+)*\.? +)?"
    r"([A-Z][A-Za-z]+(?: [A-Za-z]+){0,3})(?:\*\*)?(?::|$)"
)
_OTHERS = re.compile(r"\b(?:discussion|comments?|references|bibliography|literature)\b", re.I)
"""Parts of a paper that tell of other studies beside its own."""
_BELOW_ALL = 7
"""The level of a label, which stands below headings of all levels."""
_MOST = 0.6
"""Share of words above which a sentence is a passage's, and an outcome is one that is named."""
_TREATED = re.compile(
    r"\b(?:intervention|treatment|treated|experimental|study|active)[- ]"
    r"(?:group|arm|condition|patient|participant|subject)s?\b",
    re.I,
)
"""How a paper calls the side that gets what its title names."""
_NO_SIDE = re.compile(
    r"(?:vs|versus)[\s.:]*[-−]?\d|than (?:half|twice)\b|over (?:time|the|an?|this|that)\b"
    rf"|over (?:{'|'.join(NUMBER_WORDS)})(?: (?:hour|day|week|month|year)s?\b|,)",
    re.I,
)
_WITHOUT = re.compile(r"\bnon-?\w+", re.I)
_CUT = re.compile(r"[,;(]")
_DIRECTION = {"increased": "more", "decreased": "less"}


def stated(papers: Iterable[StudyPaper], parts: Parts, names: NameMatcher) -> Iterator[Row]:
    """Yield rows of FINDINGS: sentences that tell clearly which way an asked outcome went.

    A sentence has to name an asked intervention, or the title of its paper has to where neither
    side is named. A comparison with anything but an asked comparator or a control group is left
    out, as are plans, methods and background; conclusions are conclusions.
    """
    given, against = [*parts["I"]], [*parts["C"]]
    for paper in papers:
        whole = f"{paper.title} {paper.text}"
        if has_no_results(paper.title, paper.text) or not names.holds_any(given, whole):
            continue
        role, level = "", 0
        for low, high in sentence_spans(paper.text):
            sentence = paper.text[low:high]
            if label := _LABEL.match(sentence):
                role, level = _role(label, role, level)
            outcome = next((each for each in parts["O"] if names.holds(each, [sentence])), "")
            if not outcome or role in ("background", "method"):
                continue
            sides = _sides(sentence, paper.title, given, against, names)
            if sides is None:
                continue
            treatment, comparator = sides
            # By another name the treatment tells no side of "than"; the comparator then does.
            named = bool({*terms(treatment)} & {*terms(sentence)})
            other = comparator if comparator in against or not named else ""
            told = read_statement(sentence, outcome, treatment if named else "", other)
            if not told.clear:
                continue
            way = told.better_or_worse
            yield {
                "finding_id": content_id(paper.doc_id, str(low), outcome),
                "doc_id": paper.doc_id, "unit_id": paper.doc_id, "grade": paper.grade,
                "kind": "concluded" if role == "conclusion" else "found",
                "interventions": [treatment], "comparators": [comparator],
                "outcome": outcome, "times": [], "people": [],
                "direction": _DIRECTION.get(told.direction, way) if way == "unclear" else way,
                "effect": "", "interval": "", "p": "",
                "places": [{"start": low, "end": high}], "quote": sentence, "confidence": 0.5,
                "reject": None,
            }  # fmt: skip


def _role(label: re.Match[str], role: str, level: int) -> tuple[str, int]:
    """The role of what stands below a heading or label, and the level of the one that set it.

    A heading below one of results or of background changes nothing, unless it concludes.
    """
    depth = len(label[1] or "") or _BELOW_ALL
    named = section_role(label[2]) or ("background" if _OTHERS.search(label[2]) else "")
    held = role in ("result", "background") and depth > level and named != "conclusion"
    return (role, level) if held or not named else (named, depth)


def _sides(
    sentence: str, title: str, given: Sequence[str], against: Sequence[str], names: NameMatcher
) -> tuple[str, str] | None:
    """The asked intervention of a sentence and what it is compared with; None if it has others.

    The comparator is an asked one, else a control group by the sentence's own word.
    """
    than = _than(sentence)
    treatment = next((each for each in given if names.holds(each, [sentence])), "")
    other = next((each for each in against if names.holds(each, [sentence])), "")
    if not treatment:
        treatment = next((each for each in given if names.holds(each, [title])), "")
        if not treatment or ((than or other) and not _TREATED.search(sentence)):
            return None
    behind = _CUT.split(sentence[than.end() :])[0] if than else ""
    group = lexicon("control_group").search(sentence)
    named = f"{behind} | {group[0] if group else ''}"
    control = lexicon("control").search(named)
    if other and not (control and not names.holds_any([treatment, other], behind)):
        return treatment, other  # else both of them are compared with the control group
    words = " ".join(behind.split()[:5])
    without = lexicon("negation").search(words) or _WITHOUT.search(words)
    if than and not control and not without:
        return None
    return treatment, control[0].casefold() if control else "control"


def _than(sentence: str) -> re.Match[str] | None:
    """Where a sentence begins to name what it compares with; no two numbers, no stretch of time."""
    found = lexicon("than").finditer(sentence)
    return next((each for each in found if not _NO_SIDE.match(sentence, each.start())), None)


_ASKED = (("I", "treatment"), ("O", "outcome"))
_OTHER_NAME = "other_name"
_OF_THE_STUDY = (DOCUMENT, "Population")
_FACT = ["doc_id", "head", "head_type", "relation", "tail", "tail_type", "reject"]
_READ = ("doc_id", "title", "text", "grade")


def findings_read(store: Store, build: str) -> int:
    """How many findings a model read of the papers of a build; 0 for a build without a model."""
    return _count(store, store.read_pointer(build)["stages"], "findings")


class StudyFindings:
    """The findings of a build and what their papers say of their studies, read once.

    Raises UsageError for a root without a build. Where no model read, rules read all papers anew
    for each question, and by the `ontology` what those with results say of their studies.
    """

    def __init__(self, store: Store, build: str, ontology: Ontology) -> None:
        """Read findings and papers; names are encoded when a question first needs them."""
        self._ontology = ontology
        self._store, self._pointer = store, store.read_pointer(build)["stages"]
        self._folders = store.artifacts(build)
        self._findings = _rows(store, self._pointer, "findings")
        self._papers, self._names = self._read(self._findings)

    def unread(self, question: str, most: int | None = None) -> str:
        """Why rules do not read the papers for a question; "" where they or a model do.

        Rules need an intervention and an outcome, and read at most `most` documents.
        """
        if self._findings:
            return ""
        (parts,) = rule_anchors([question])
        if not (parts["I"] and parts["O"]):
            read = "; ".join(f"{name}: {', '.join(parts[part]) or 'none'}" for part, name in _ASKED)
            return f"rules read {read}: name both, or build with a model (model=…)"
        count = _count(self._store, self._pointer, "documents")
        if most is not None and count > most:
            return f"{count:,} documents are too many for rules: build with a model (model=…)"
        return ""

    def synthesise(
        self, question: str, answer: str = "", told: Iterable[tuple[str, str]] = ()
    ) -> Synthesis:
        """Say what the findings say to a question.

        With the passages that an answer rests on, by document, a model's findings in them say what
        is compared, in place of the question: of several the one nearest to the answer's words.

        Raises UsageError where no model read and the question names no intervention or outcome.
        """
        if why := self.unread(question):
            raise UsageError(f"root={self._store} holds no findings; {why}")
        (parts,) = rule_anchors([question])
        with few_texts():
            if self._findings:
                meant = _behind(f"{question} {answer}", told, self._findings)
                known = (self._findings, self._papers, self._names, "a model")
                if not meant:
                    return synthesise(question, parts, *known)
                compared = _compared(parts["P"], meant, self._papers, self._names)
                return synthesise(question, compared, *known, asked={"P": compared["P"]})
            papers, names = self._read(None)
            made = list(stated(papers.values(), parts, names))
            self._place(made)
            some = [papers[name] for name in dict.fromkeys(row["doc_id"] for row in made)]
            papers |= _told_by_rules(some, self._ontology)
            return synthesise(question, parts, made, papers, names, "rules")

    def _read(self, findings: list[Row] | None) -> tuple[dict[str, StudyPaper], NameMatcher]:
        """The papers of findings, of all for None, and what compares their names."""
        wanted = None if findings is None else {row["doc_id"] for row in findings}
        columns = ["doc_id", "title", "text", "grade", "year", "pmid", "source_id", "metadata"]
        documents = _rows(self._store, self._pointer, "documents", columns, wanted)
        ids = [row["doc_id"] for row in documents]
        states, links = Standings(self._folders.get("standing")).find(ids)
        facts = _rows(self._store, self._pointer, "triples", _FACT, set(ids)) if findings else []
        told, others = _told(facts)
        papers = {
            row["doc_id"]: StudyPaper(
                row["doc_id"], row["title"], row["year"], row["grade"], row["pmid"], status,
                link, _ids(row), row["text"], told=told.get(row["doc_id"], {}),
            )
            for row, status, link in zip(documents, states, links, strict=True)
            if status != COPY
        }  # fmt: skip
        folder = self._folders.get("abbreviations")
        long = read_abbreviations(folder) if folder else {}
        self._place(findings or [])
        built = self._folders.get("names")
        return papers, NameMatcher(
            long, others, load(Encoder()).encode, vectors_of(built, Encoder()) if built else None
        )

    def _place(self, findings: list[Row]) -> None:
        """Name the window that each finding's sentence begins in."""
        columns = ["unit_id", "doc_id", "char_start", "char_end"]
        of = {row["doc_id"] for row in findings}
        windows: dict[str, list[Row]] = {}
        for window in _rows(self._store, self._pointer, "windows", columns, of) if of else ():
            windows.setdefault(window["doc_id"], []).append(window)
        for row in findings:
            start = min((place["start"] for place in row["places"]), default=0)
            held = (w["unit_id"] for w in windows.get(row["doc_id"], ())
                    if w["char_start"] <= start < w["char_end"])  # fmt: skip
            row["window"] = next(held, "")


def _ids(row: Row) -> frozenset[str]:
    """The ids of a document, as the links of standings name them."""
    told = {**json.loads(row["metadata"] or "{}"), "pmid": row["pmid"]}
    named = (f"{name}:{told[name]}" for name in ("pmid", "pmcid", "doi") if told.get(name))
    return frozenset([row["source_id"], *named])


def _behind(said: str, told: Iterable[tuple[str, str]], findings: Iterable[Row]) -> list[Row]:
    """The results that an answer rests on and names the outcome of, the one it names best first.

    A finding stands in a passage that holds most words of its sentence, or most of whose words its
    sentence holds.
    """
    passages: dict[str, list[set[str]]] = {}
    for document, text in told:
        passages.setdefault(document, []).append({*terms(text)})
    words = {*terms(said)}

    def share(name: str) -> float:
        held = {*terms(name)}
        return len(held & words) / max(1, len(held))

    found = []
    for row in findings:
        held = passages.get(row["doc_id"])
        if not held or row["kind"] != "found" or row["reject"] or not row["interventions"]:
            continue
        quote = {*terms(row["quote"])}
        shared = max(len(quote & each) / max(1, min(len(quote), len(each))) for each in held)
        if shared > _MOST and share(row["outcome"]) > _MOST:
            found.append(row)

    def named(row: Row) -> tuple[float, float]:
        return share(row["outcome"]), share(" ".join(row["interventions"]))

    return sorted(found, key=named, reverse=True)


def _compared(
    people: list[str], meant: list[Row], papers: Mapping[str, StudyPaper], names: NameMatcher
) -> Parts:
    """The parts by the results behind an answer: their interventions on the outcome of the first.

    The people of the question stay if the first one's paper tells of them.
    """
    outcome, paper = meant[0]["outcome"], papers[meant[0]["doc_id"]]
    same = [row for row in meant if names.same(row["outcome"], outcome)]
    given = dict.fromkeys(name for row in same for name in row["interventions"])
    fits = fits_people(paper, {"P": people}, names)
    return {"P": people if fits else [], "I": [*given], "C": [], "O": [outcome], "T": []}


def _count(store: Store, pointer: dict[str, Any], stage: str) -> int:
    """The rows of a stage, by its receipts; 0 for a stage that is not there."""
    if stage not in pointer:
        return 0
    entry = pointer[stage]
    parts = (store.read_receipt(stage, entry["fingerprint"], part) for part in entry["parts"])
    return sum(each.rows_out for each in parts)


def _rows(
    store: Store,
    pointer: dict[str, Any],
    stage: str,
    columns: list[str] | None = None,
    of: set[str] | None = None,
) -> list[Row]:
    """The rows of a stage, of these documents alone unless `of` is None."""
    parts = _parts(store, pointer, stage, columns)
    if of is not None:
        ids = pa.array(sorted(of), pa.string())
        parts = (part.filter(pc.is_in(part["doc_id"], ids)) for part in parts)
    return [row for part in parts for row in part.to_pylist()]


def _parts(
    store: Store, pointer: dict[str, Any], stage: str, columns: list[str] | None = None
) -> Iterator[pa.Table]:
    if stage in pointer:
        entry = pointer[stage]
        for part in entry["parts"]:
            yield store.read_part(stage, entry["fingerprint"], part, columns)


def _told_by_rules(papers: Sequence[StudyPaper], ontology: Ontology) -> dict[str, StudyPaper]:
    """These papers, with what rules read of their studies in their texts."""
    rows = [{**{name: getattr(paper, name) for name in _READ}, "reject": None} for paper in papers]
    fields = [DOCUMENTS.field(name) for name in (*_READ, "reject")]
    at = Place()
    extracts = ExtractDocuments(ontology=ontology).open(at)(
        pa.Table.from_pylist(rows, schema=pa.schema(fields))
    )
    told, _ = _told(ListTriples().open(at)(extracts).to_pylist())
    return {each.doc_id: replace(each, told=told.get(each.doc_id, {})) for each in papers}


def _told(
    facts: Iterable[Row],
) -> tuple[dict[str, dict[str, tuple[str, ...]]], dict[str, set[str]]]:
    """What papers say of their studies, by attribute, and the other names of names."""
    told: dict[str, dict[str, tuple[str, ...]]] = {}
    others: dict[str, set[str]] = {}
    for row in facts:
        if row["reject"] is None:
            of = told.setdefault(row["doc_id"], {})
            attribute = row["tail_type"]
            if row["relation"] == HAS_ATTRIBUTE and attribute == _OTHER_NAME:
                others.setdefault(row["head"], set()).add(row["tail"])
            elif row["relation"] == HAS_ATTRIBUTE:
                if row["head_type"] in _OF_THE_STUDY or attribute in (
                    "dose",
                    "duration",
                    "frequency",
                ):
                    of[attribute] = tuple(dict.fromkeys((*of.get(attribute, ()), row["tail"])))
            elif row["relation"] == "has_population":
                of["people"] = tuple(dict.fromkeys((*of.get("people", ()), row["tail"])))
    return told, others
