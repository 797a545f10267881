"""The comparisons that bear on a question, one row a study."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from srrag.core.schema import EFFECT_OF, TENDS
from srrag.core.standing import HIDDEN
from srrag.reading.statement import contrary
from srrag.synthesis.effects import Effect, Unpooled, read_effect, unconfirmed
from srrag.synthesis.studies import REVIEWS, NameMatcher, StudyPaper, covered, one_study

Row = dict[str, Any]
Parts = Mapping[str, Sequence[str]]
OPPOSITE = {"better": "worse", "worse": "better", "more": "less", "less": "more"}
TOLD = (*OPPOSITE, "no difference", "not inferior", "differs")
BEFORE = "before, or no comparator named"
_SHAM = re.compile(r"\b(?:placebo|sham|dummy|(?<!mobile )(?<!motor )vehicle)", re.I)
_USUAL = re.compile(
    r"(?:the |an? )?(?:"
    r"(?:usual|standard|routine)(?:[ -]of)?[ -](?:[\w-]+ ){0,2}care"
    r"|(?:usual|standard|routine) (?:medical )?(?:treatment|therapy|management|practice)"
    r"|(?:care|treatment|therapy|practice) as usual"
    r"|usual (?:daily )?(?:activit\w+|lifestyle|diet)"
    r"|(?:(?:no|non)[ -](?:treatment|intervention|exercise)[ -]|wait\w*[ -]?(?:list)?[ -]"
    r"|usual[ -]care |(?:attention|sedentary|delayed[ -]treatment|non-?\w+|untreated|healthy"
    r"|passive|inactive|matched|historical) )?"
    r"controls?"
    r"|(?:no|without)(?: .*)?|untreated(?: [\w-]+)?|nothing"
    r"|(?:watchful )?wait\w*(?:[ -](?:list|and[ -]see))?"
    r")(?: (?:alone|only|groups?|arms?|conditions?|subjects|participants|patients|people"
    r"|without .*))*",
    re.I,
)
"""The whole name of what is no active comparator: "rate control" is one, so is "aspirin alone"."""
_WITH = re.compile(r"\s*(?:\+|/|\b(?:and(?! see)|or|plus)\b)\s*", re.I)
_ASIDE = re.compile(r"\s*\([^()]*\)")
_JOINED = re.compile(r"\s*(?:,|\+|/|\b(?:and(?! see)|or|plus)\b)\s*", re.I)


@dataclass(frozen=True)
class StudyRow:
    """What one study found for a comparison: the finding that it tells first of all its people.

    `direction` and `read` are of what is asked for against the other side (`turned` where the
    paper has them the other way round). `subgroup`: it is told of some of its people alone.
    `window` is the unit that its first place lies in. `contrary` are sentences of the study that
    say the opposite, and then it counts as no direction. `tends`: the paper calls it a trend, or
    its own test leaves it open. `concluded` is a conclusion that goes beyond the result. `more`
    counts its further findings.
    """

    papers: tuple[StudyPaper, ...]
    interventions: tuple[str, ...]
    comparators: tuple[str, ...]
    outcome: str
    times: tuple[str, ...]
    people: tuple[str, ...]
    direction: str
    effect: str
    interval: str
    p: str
    read: Effect | Unpooled
    quote: str
    places: tuple[tuple[int, int], ...]
    doc_id: str
    window: str = ""
    turned: bool = False
    subgroup: bool = False
    contrary: tuple[str, ...] = ()
    concluded: str = ""
    more: tuple[Row, ...] = ()
    one_by: str = ""
    tends: bool = False

    @property
    def paper(self) -> StudyPaper:
        """The paper that the finding stands in."""
        return next(each for each in self.papers if each.doc_id == self.doc_id)

    @property
    def counted(self) -> str:
        """The direction that it counts as; "tends better" where its own test leaves it open."""
        if self.contrary:
            return "contradicts itself"
        if self.direction in OPPOSITE and self.tends:
            return f"{TENDS}{self.direction}"
        return self.direction if self.direction in TOLD else "unclear"


@dataclass(frozen=True)
class Comparison:
    """The studies that compare the same with the same on one outcome; reviews stand apart."""

    interventions: tuple[str, ...]
    against: str
    outcome: str
    rows: tuple[StudyRow, ...]
    reviews: tuple[StudyRow, ...] = ()


@dataclass(frozen=True)
class Announced:
    """An outcome that a study announced: `found` tells whether a result of it is there."""

    paper: StudyPaper
    outcome: str
    times: tuple[str, ...]
    quote: str
    found: bool
    protocol: bool


@dataclass(frozen=True)
class Found:
    """All that bears on a question, with what was left aside and why."""

    comparisons: tuple[Comparison, ...]
    announced: tuple[Announced, ...] = ()
    background: int = 0
    concluded: tuple[Row, ...] = ()
    one_group: int = 0
    other_people: tuple[StudyPaper, ...] = ()
    left_out: tuple[StudyPaper, ...] = ()
    relaxed: tuple[str, ...] = ()
    parts: Parts = field(default_factory=dict)


def compare(
    parts: Parts, findings: Iterable[Row], papers: Mapping[str, StudyPaper], names: NameMatcher
) -> Found:
    """Find what bears on a question: its P, I, C and O; a part that it does not name fits all.

    Background, plans and conclusions are never counted as results, and neither is an effect that
    is compared between people ("effect of drug A on death" in men vs. in women). Papers that must
    not be cited are left out by name, also one of a study that has others, as are those whose later
    version bears on the question too; and so are studies of other people.
    """
    findings = [
        row
        | {"direction": row["direction"].removeprefix(TENDS)}
        | {"tends": row["direction"].startswith(TENDS)}
        for row in findings
        if row["reject"] is None
        and row["doc_id"] in papers
        and not row["outcome"].startswith(EFFECT_OF)
    ]
    names.learn(
        name
        for row in findings
        for name in (*row["interventions"], *row["comparators"], row["outcome"])
    )
    parts = _settled(parts, findings, papers, names)
    treated = [*parts.get("I", ()), *parts.get("C", ())]
    sides = {n: _side(row, parts, treated, names) for n, row in enumerate(findings)}
    on = [(row, side) for n, row in enumerate(findings) if (side := sides[n])]
    asked = [each for each in parts.get("O", ()) if each]
    relaxed: list[str] = []
    if asked:
        meant = [(row, side) for row, side in on if names.means(asked, [row["outcome"]])]
        if not any(row["kind"] == "found" for row, _ in meant):
            # What no result names may be an illness ("probiotics improve periodontitis").
            ill = {r["doc_id"] for r, _ in on if names.holds_any(asked, papers[r["doc_id"]].title)}
            meant = [(row, side) for row, side in on if row["doc_id"] in ill or not ill]
            relaxed, asked = ["O"], []
        on = meant
    fits = {doc: fits_people(papers[doc], parts, names) for doc in {r["doc_id"] for r, _ in on}}
    others = tuple(papers[doc] for doc in fits if not fits[doc])
    with_results = {row["doc_id"] for row, _ in on if row["kind"] == "found"}
    later = frozenset().union(*(papers[doc].ids for doc in with_results))
    unseen = {
        doc
        for doc in {row["doc_id"] for row in findings}
        if papers[doc].status in HIDDEN
        or (papers[doc].status == "superseded" and papers[doc].link in later)
    }
    hidden = tuple(papers[doc] for doc in fits if fits[doc] and doc in unseen)
    on = [(r, s) for r, s in on if fits[r["doc_id"]] and r["doc_id"] not in unseen]
    if parts.get("C"):
        meant = [(r, s) for r, s in on if s in ("both", "turned both")]
        relaxed += [] if meant else ["C"]
        on = meant or on
    turned = [(_turned(row) if "turned" in side else row, "turned" in side) for row, side in on]
    of = one_study(papers[doc] for doc in dict.fromkeys(row["doc_id"] for row in findings))
    # A hidden paper may show that two others are of one study; nothing that it says is used.
    quoted = {of[row["doc_id"]][0] for row, _ in turned}
    hidden += tuple(papers[d] for d in of if d in unseen - {*fits} and of[d][0] in quoted)
    of = {doc: told for doc, told in of.items() if doc not in unseen}
    findings = [row for row in findings if row["doc_id"] in of]
    results = [(r, t) for r, t in turned if r["kind"] == "found"]
    told = [(r, t) for r, t in results if r["comparators"] or r["direction"] in TOLD]
    planned = [row for row, _ in turned if row["kind"] == "planned"]
    concluded = [row for row, _ in turned if row["kind"] == "concluded"]
    groups = _grouped(told, _distinct(asked, names), names)
    comparisons = [
        made
        for (against, outcome), rows in groups.items()
        if (made := _comparison(against, outcome, rows, concluded, papers, of, names, findings))
    ]

    def place(made: Comparison) -> tuple[bool, bool, int, int]:
        other = bool(asked) and all(row.outcome not in asked for row in made.rows)
        return made.against == BEFORE, other, -len(made.rows), -len(made.reviews)

    comparisons.sort(key=place)
    answered = {of[row["doc_id"]][0] for row, _ in told}
    return Found(
        tuple(comparisons),
        tuple(_announced(row, findings, papers, of, names) for row in _each_once(planned)),
        sum(row["kind"] == "background" for row, _ in turned),
        tuple(row for row in concluded if of[row["doc_id"]][0] not in answered),
        len(results) - len(told),
        others, hidden, tuple(relaxed), parts,
    )  # fmt: skip


def _settled(
    parts: Parts, findings: Sequence[Row], papers: Mapping[str, StudyPaper], names: NameMatcher
) -> Parts:
    """The parts by what studies call them, where the words of the question leave it open.

    What no study gives or compares is of the people, if something is left ("Does vitamin D help
    in COPD?"), and what studies measure and no title holds is an outcome ("… for pain").
    """
    given = {name for row in findings for name in (*row["interventions"], *row["comparators"])}
    measured = {row["outcome"] for row in findings}
    titles = [paper.title for paper in papers.values()]
    treated = [each for each in parts.get("I", ()) if names.means([each], given)]
    others = [each for each in parts.get("I", ()) if each not in treated] if treated else []
    people = [*parts.get("P", ()), *others]
    outcomes = [
        each for each in people if names.means([each], measured) and not names.holds(each, titles)
    ]
    return {
        **parts,
        "I": treated or parts.get("I", ()),
        "P": [each for each in people if each not in outcomes],
        "O": [*parts.get("O", ()), *outcomes],
    }


def _side(row: Row, parts: Parts, treated: Sequence[str], names: NameMatcher) -> str:
    """How a finding bears on what is asked: "as told", "turned", with " both" if C fits too."""
    if not treated:
        return "as told"
    given, against = row["interventions"], row["comparators"]
    wanted, others = parts.get("I", ()) or treated, parts.get("C", ())
    here, there = names.means(wanted, given), names.means(wanted, against)
    if here and (not there or not others):
        return "both" if others and names.means(others, against) else "as told"
    if there and not here:
        return "turned both" if others and names.means(others, given) else "turned"
    if here and there:
        return "both" if names.means(others, against) else "turned both"
    return ""


def _turned(row: Row) -> Row:
    direction = OPPOSITE.get(row["direction"], row["direction"])
    return row | {
        "interventions": row["comparators"],
        "comparators": row["interventions"],
        "direction": "unclear" if direction == "not inferior" else direction,
    }


def fits_people(paper: StudyPaper, parts: Parts, names: NameMatcher) -> bool:
    """Whether a paper tells of half the words or more of the people that are asked about."""
    asked = [each for each in parts.get("P", ()) if each]
    told = frozenset().union(*names.stems(f"{paper.title} {paper.text[:6000]}"))
    return not asked or any(
        covered(stems, told) >= 0.5 for each in asked for stems in names.stems(each)
    )


def _against(comparators: Sequence[str], interventions: Sequence[str]) -> str:
    """The class of a comparator: inactive ones by kind, active ones by name.

    A dummy beside an active drug that the interventions lack is no placebo group.
    """
    told = " and ".join(comparators)
    if not told:
        return BEFORE
    parts = _parts_of(told)
    both = {each.casefold() for each in _parts_of(" and ".join(interventions))}
    bare = _ASIDE.sub(lambda aside: " placebo" if _SHAM.search(aside[0]) else "", told)
    rest = [part for part in _WITH.split(bare) if part and not _SHAM.search(part)]
    if _SHAM.search(told) and all(_USUAL.fullmatch(p) or p.casefold() in both for p in rest):
        return "placebo or sham"
    usual = bool(parts) and all(_USUAL.fullmatch(part) for part in parts)
    return "usual care or no treatment" if usual else told


def _parts_of(told: str) -> list[str]:
    return [part for part in _JOINED.split(_ASIDE.sub("", told)) if part]


def _distinct(outcomes: Sequence[str], names: NameMatcher) -> list[str]:
    """The first name of each outcome."""
    found: list[str] = []
    for each in outcomes:
        if not any(names.same(each, one) and not contrary(each, one) for one in found):
            found.append(each)
    return found


def _grouped(
    rows: Sequence[tuple[Row, bool]], asked: Sequence[str], names: NameMatcher
) -> dict[tuple[str, str], list[tuple[Row, bool]]]:
    groups: dict[tuple[str, str], list[tuple[Row, bool]]] = {}
    for row, turned in rows:
        against = _against(row["comparators"], row["interventions"])
        outcome = _asked_for(row["outcome"], asked, names) or row["outcome"]
        for other, named in groups:
            same = other == against or (
                BEFORE not in (other, against) and names.same(other, against)
            )
            alike = named == outcome or (
                not {named, outcome}.intersection(asked)
                and names.same(named, outcome)
                and not contrary(named, outcome)
            )
            if same and alike:
                against, outcome = other, named
                break
        groups.setdefault((against, outcome), []).append((row, turned))
    return groups


def _asked_for(outcome: str, asked: Sequence[str], names: NameMatcher) -> str:
    """The asked outcome that a result tells of, by its name before its meaning; "" without any.

    Survival is not the mortality that was asked about.
    """
    asked = [each for each in asked if not contrary(each, outcome)]
    ranked = (
        (each for each in asked if each == outcome),
        (each for each in asked if names.same(each, outcome)),
        (each for each in asked if names.means([each], [outcome])),
    )
    return next((each for named in ranked for each in named), "")


def _comparison(
    against: str,
    outcome: str,
    rows: Sequence[tuple[Row, bool]],
    concluded: Sequence[Row],
    papers: Mapping[str, StudyPaper],
    of: Mapping[str, tuple[str, str]],
    names: NameMatcher,
    findings: Sequence[Row],
) -> Comparison | None:
    studies: dict[str, list[tuple[Row, bool]]] = {}
    for row, turned in rows:
        studies.setdefault(of[row["doc_id"]][0], []).append((row, turned))
    made = []
    for study, told in studies.items():
        docs = [doc for doc, (root, _) in of.items() if root == study]
        whole = _whole_people([row for row in findings if row["doc_id"] in docs])
        beyond = [row for row in concluded if row["doc_id"] in docs]
        one_by = of[docs[0]][1] if len(docs) > 1 else ""
        about = [papers[d] for d in docs], one_by, names
        made.append(_study_row([outcome], told, whole, beyond, *about))
    own = tuple(row for row in made if row.paper.grade not in REVIEWS)
    reviews = tuple(row for row in made if row.paper.grade in REVIEWS)
    if against == BEFORE and not any(row.direction in TOLD for row in made):
        return None
    given = tuple(dict.fromkeys(" and ".join(row.interventions) for row in made))
    named = {row.outcome for row in made}
    return Comparison(given, against, named.pop() if len(named) == 1 else outcome, own, reviews)


def _whole_people(rows: Sequence[Row]) -> tuple[str, ...]:
    """The people that more than half the results of a study are told of, else () for all."""
    told = Counter(tuple(row["people"]) for row in rows if row["kind"] == "found")
    return next((people for people, n in told.items() if 2 * n > told.total()), ())


def _study_row(
    asked: Sequence[str],
    told: Sequence[tuple[Row, bool]],
    whole: tuple[str, ...],
    concluded: Sequence[Row],
    papers: Sequence[StudyPaper],
    one_by: str,
    names: NameMatcher,
) -> StudyRow:
    def is_part(row: Row) -> bool:
        return tuple(row["people"]) not in ((), whole)

    def start(row: Row) -> int:
        return min((place["start"] for place in row["places"]), default=0)

    def far(row: Row) -> int:
        """How far its outcome is from what is asked for: the name itself, the same by it, near."""
        if row["outcome"] in asked:
            return 0
        return 1 if any(names.same(each, row["outcome"]) for each in asked) else 2

    grades = {paper.doc_id: paper.grade or "E" for paper in papers}
    ranked = sorted(
        told,
        key=lambda each: (far(each[0]), is_part(each[0]), grades[each[0]["doc_id"]],
                          each[0]["direction"] not in TOLD, start(each[0])),
    )  # fmt: skip
    lead, turned = ranked[0]
    like = [each for each in ranked if _alike(each[0], lead, names)]
    reads = [_read(row, back) for row, back in like]
    sure = next((n for n, read in enumerate(reads) if isinstance(read, Effect)), 0)
    if like[sure][0]["direction"] == lead["direction"]:
        (lead, turned), read = like[sure], reads[sure]
    else:
        read = reads[0]
    part = is_part(lead)
    contrary = tuple(
        row["quote"] for row, _ in like if row["direction"] == OPPOSITE.get(lead["direction"])
    )
    if contrary:
        read = Unpooled("its sentences contradict each other")
    elif part:
        read = Unpooled("told of a part of its people alone")
    beyond = ""
    if lead["direction"] == "no difference":
        beyond = next((r["quote"] for r in concluded if r["direction"] in OPPOSITE), "")
    places = tuple((place["start"], place["end"]) for place in lead["places"])
    return StudyRow(
        tuple(papers), tuple(lead["interventions"]), tuple(lead["comparators"]), lead["outcome"],
        tuple(lead["times"]), tuple(lead["people"]), lead["direction"], lead["effect"],
        lead["interval"], lead["p"], read, lead["quote"], places, lead["doc_id"],
        lead.get("window", ""), turned, part, contrary, beyond,
        tuple(row for row, _ in ranked if row is not lead), one_by,
        lead["tends"] or unconfirmed(lead["p"], lead["interval"], read),
    )  # fmt: skip


def _read(row: Row, turned: bool) -> Effect | Unpooled:
    way = OPPOSITE.get(row["direction"], row["direction"]) if turned else row["direction"]
    read = read_effect(row["effect"], row["interval"], str(way), row["outcome"], row["quote"])
    return read.turned() if turned and isinstance(read, Effect) else read


def _alike(row: Row, lead: Row, names: NameMatcher) -> bool:
    """Whether two findings of a study are of one comparison, outcome, time and people."""
    keys = ("interventions", "comparators", "times", "people")
    outcomes = row["outcome"], lead["outcome"]
    alike = names.same(*outcomes) and not contrary(*outcomes)
    return alike and all(row[key] == lead[key] for key in keys)


def _announced(
    row: Row,
    findings: Sequence[Row],
    papers: Mapping[str, StudyPaper],
    of: Mapping[str, tuple[str, str]],
    names: NameMatcher,
) -> Announced:
    own = [r for r in findings if of[r["doc_id"]][0] == of[row["doc_id"]][0]]
    results = [each for each in own if each["kind"] == "found"]
    found = any(names.same(row["outcome"], each["outcome"]) for each in results)
    paper = papers[row["doc_id"]]
    return Announced(paper, row["outcome"], tuple(row["times"]), row["quote"], found, not results)


def _each_once(rows: Iterable[Row]) -> list[Row]:
    return list({(row["doc_id"], row["outcome"]): row for row in rows}.values())
