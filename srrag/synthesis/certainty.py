"""How sure the evidence of a comparison is, argued by the five domains of GRADE.

Guyatt et al., J Clin Epidemiol 2011;64:380 and 383 to 394. Each domain is a judgement with its
reason and the sentences that it rests on, "not judged" where the papers do not tell enough. There
is no letter over all: who reads it weighs the domains. Whether a study has the people of the
question is told by age, sex, condition, stage and setting.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from srrag.core.schema import TENDS
from srrag.core.standing import joined
from srrag.reading.lexicon import lexicon
from srrag.reading.people import meet, traits
from srrag.reading.values import find_values
from srrag.synthesis.comparisons import BEFORE, Announced, Comparison, Parts, StudyRow
from srrag.synthesis.effects import Effect, PooledEffect
from srrag.synthesis.studies import NameMatcher

ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "age": ("age_range", "mean_age", "age_bin"),
    "sex": ("sex",),
    "condition": (),
    "stage": ("baseline_severity", "time_since_injury_or_surgery"),
    "setting": ("setting",),
}
"""What is compared, and the attributes of TRIPLES that tell it."""
_ASIDE = (*ATTRIBUTES["stage"], *ATTRIBUTES["setting"])
SHOWN = 3
"""Values of an attribute that are shown."""
_BEFORE = re.compile(r".*\b(?:with|having|who have|suffering from)\b", re.IGNORECASE)
_LOOSE = re.compile(r"\b(?:aged|years)\b|\W*\b(?:treated|living|in|of|the|and)\W*$", re.IGNORECASE)


@dataclass(frozen=True)
class PeopleFit:
    """One part of who is asked about and of whom a study tells; "" is not asked, or not told.

    `meets` is None where either is silent, or where words alone do not decide.
    """

    part: str
    asked: str
    told: str
    meets: bool | None = None


def asked_of(question: str, parts: Parts) -> dict[str, str]:
    """Who a question is about, by part."""
    told = _read(question)
    conditions = filter(None, map(_condition, parts.get("P", ())))
    return {**told, "condition": "; ".join(dict.fromkeys(conditions))}


def fit(asked: Mapping[str, str], row: StudyRow, names: NameMatcher) -> tuple[PeopleFit, ...]:
    """Hold who is asked about beside whom a study tells of.

    By the people of the finding, else by what was extracted of the paper, else by its title.
    """
    paper, whom = row.paper, row.paper.told.get("people", ())
    own, titled = _read(". ".join(row.people)), _read(". ".join([paper.title, *whom[:SHOWN]]))
    made = []
    for part, attributes in ATTRIBUTES.items():
        values = [value for name in attributes for value in paper.told.get(name, ())]
        told = own[part] or "; ".join(_longest(values[:SHOWN])) or titled[part]
        if part == "condition":
            told = _told_condition(asked[part], row.people, whom, paper.title, names)
        made.append(PeopleFit(part, asked[part], told, _meets(part, asked[part], told, names)))
    return tuple(made)


def _told_condition(
    asked: str,
    own_people: Sequence[str],
    people: Sequence[str],
    title: str,
    names: NameMatcher,
) -> str:
    """Who has what, as a paper words it: what is asked, what the title says too, or the finding."""
    own = [_worded(each) for each in own_people if _condition(each)]
    told = own + [_worded(each) for each in people if _condition(each)]
    near = (each for each in told if asked and names.means(asked.split("; "), [_condition(each)]))
    in_title = (each for each in asked.split("; ") if each and names.holds(each, [title]))
    titled = (each for each in told if names.holds(_condition(each), [title]))
    return next(near, "") or next(in_title, "") or next(titled, "") or "".join(own[:1])


def _read(text: str) -> dict[str, str]:
    found: dict[str, list[str]] = {part: [] for part in ATTRIBUTES}
    for trait in traits(text):
        if trait.kind in found:
            found[trait.kind].append(trait.phrase)
    for value in find_values(text.lower()):
        for part in ("stage", "setting"):
            if value.attribute in ATTRIBUTES[part]:
                found[part].append(value.value)
    return {part: "; ".join(_longest(said)) for part, said in found.items()}


def _longest(phrases: Sequence[str]) -> list[str]:
    """Each phrase once, without those that another one holds."""
    once = list(dict.fromkeys(phrases))
    longer = [(each, [other for other in once if other != each]) for each in once]
    return [each for each, others in longer if not re.search(_word(each), " | ".join(others))]


def _word(phrase: str) -> str:
    return rf"(?<!\w){re.escape(phrase)}(?!\w)"


def _worded(people: str) -> str:
    """A phrase that names people, without what a comma or a bracket adds behind what they have."""
    named = _BEFORE.match(people)
    added = re.compile("[,;(]").search(people, named.end() if named else 0)
    return people[: added.start()].strip() if added else people


def _condition(people: str) -> str:
    """What people have, of a phrase that names them: "severe COPD" of "adults with severe COPD"."""
    bare = _BEFORE.sub("", _worded(people))
    told = [trait.phrase for trait in traits(bare) if trait.kind != "species"]
    told += [value.value for value in find_values(bare.lower()) if value.attribute in _ASIDE]
    for phrase in sorted(told, key=len, reverse=True):
        bare = re.sub(_word(phrase), " ", bare, flags=re.IGNORECASE)
    bare = lexicon("person").sub(" ", bare)
    return " ".join(_LOOSE.sub(" ", bare).split()).strip(" ,;:0123456789")


def _meets(part: str, asked: str, told: str, names: NameMatcher) -> bool | None:
    if not asked or not told:
        return None
    if part in ("age", "sex"):
        years = re.sub(r"(\d+(?:\.\d+)?\s*(?:-|–|to|and)\s*\d+)", r"aged \1", told)
        return meet(part, asked, years if part == "age" else told)
    if part == "condition":
        return names.means(asked.split("; "), [_condition(told)])
    same: Sequence[bool] = [each in told for each in asked.split("; ")]
    return True if any(same) else None


FEW = 400
"""People below which an estimate is imprecise, whatever its interval (GRADE guidelines 6)."""
SOME, MUCH = 40.0, 75.0
"""I² in % from which studies differ moderately and considerably (Cochrane Handbook 10.10.2)."""
_NAMES = {"P": "people", "I": "treatment", "C": "comparator", "O": "outcome"}
FUNNEL = 10
"""Studies below which asymmetry says nothing (Cochrane Handbook 13.3)."""


@dataclass(frozen=True)
class Domain:
    """One of the five: `judgement` is "no concern", "concern" or "not judged"."""

    domain: str
    judgement: str
    reason: str
    sentences: tuple[str, ...] = ()


def argue(
    made: Comparison,
    pooled: Mapping[str, PooledEffect],
    fits: Mapping[str, Sequence[PeopleFit]],
    parts: Parts,
    announced: Sequence[Announced],
    names: NameMatcher,
) -> tuple[Domain, ...]:
    """The five domains of a comparison; `pooled` is by kind of effect."""
    if not made.rows:
        return ()
    return (
        _design(made), _inconsistency(made, pooled), _indirectness(made, fits, parts, names),
        _imprecision(made, pooled), _reporting(made, announced),
    )  # fmt: skip


def _design(made: Comparison) -> Domain:
    name = "risk of bias"
    randomised = [row for row in made.rows if row.paper.grade == "C"]
    masked = [m for row in made.rows for paper in row.papers for m in paper.told.get("masking", ())]
    said = tuple(dict.fromkeys(masked))
    if made.against == BEFORE:
        told = "nothing was compared: a change since before may have other causes"
        return Domain(name, "concern", told, _quotes(made.rows))
    if len(randomised) < len(made.rows):
        others = len(made.rows) - len(randomised)
        told = f"{others} of {len(made.rows)} studies are not known to be randomised"
        return Domain(name, "concern", told, _designs(made.rows))
    bare = [m for m in said if "open" in m.lower() or "unblind" in m.lower()]
    if bare:
        return Domain(name, "concern", "randomised, but people knew what they got", tuple(bare))
    kept = sum(any(p.told.get("masking") for p in row.papers) for row in made.rows)
    if kept < len(made.rows):
        untold = f"masking is told of {kept} of {len(made.rows)} studies"
        told = f"randomised; {untold}; concealment and losses are not read"
        return Domain(name, "not judged", told, said)
    return Domain(name, "no concern", "randomised and masked; losses are not read", said)


def _inconsistency(made: Comparison, pooled: Mapping[str, PooledEffect]) -> Domain:
    name = "inconsistency"
    if len(made.rows) < 2:
        return Domain(name, "not judged", "there is one study")
    told = {row.counted for row in made.rows} & {"better", "worse", "more", "less"}
    against = {"better", "worse"} <= told or {"more", "less"} <= told
    most = max(pooled.values(), key=lambda each: each.studies, default=None)
    if most is not None and most.studies == len(made.rows):
        share = 100 * most.i2
        much = "considerable" if share >= MUCH else "moderate" if share >= SOME else "low"
        reason = f"I² {share:.0f} % over {most.studies} studies is {much} (τ² {most.tau2:.3g})"
        return Domain(name, "concern" if share >= SOME else "no concern", reason)
    if against:
        return Domain(name, "concern", "studies point opposite ways", _quotes(made.rows))
    counted = {row.counted.removeprefix(TENDS) for row in made.rows}
    if len(counted) > 1:
        said = ", ".join(sorted(counted))
        return Domain(name, "concern", f"studies say different things: {said}", _quotes(made.rows))
    return Domain(name, "no concern", f"all {len(made.rows)} studies say: {counted.pop()}")


def _indirectness(
    made: Comparison, fits: Mapping[str, Sequence[PeopleFit]], parts: Parts, names: NameMatcher
) -> Domain:
    name, n = "indirectness", len(made.rows)
    lacking: list[str] = []
    people = [each for row in made.rows for each in fits[row.doc_id] if each.asked]
    for part in dict.fromkeys(each.part for each in people):
        other = sum(each.part == part and each.meets is False for each in people)
        lacking += [f"{other} of {n} with another {part} than asked"] * bool(other)
    for part, told in (("C", "comparator"), ("O", "outcome")):
        asked = parts.get(part, ())
        off = [row for row in made.rows if asked and not _holds(row, part, asked, names)]
        lacking += [f"{len(off)} of {n} with other {told} than asked"] * bool(off)
    parted = [row for row in made.rows if row.subgroup]
    lacking += [f"{len(parted)} told of a part of their people alone"] * bool(parted)
    if lacking:
        return Domain(name, "concern", "; ".join(lacking), _quotes(made.rows))
    if silent := dict.fromkeys(each.part for each in people if not each.told):
        return Domain(name, "not judged", f"not told by all studies: {', '.join(silent)}")
    named = [part for part in "PICO" if parts.get(part)]
    if named in ([], ["I"]):
        return Domain(name, "not judged", "neither people nor outcome were read in the question")
    held = joined(_NAMES[part] for part in named)
    return Domain(name, "no concern", f"the studies hold the {held} of the question")


def _holds(row: StudyRow, part: str, asked: Sequence[str], names: NameMatcher) -> bool:
    return names.means(asked, row.comparators if part == "C" else [row.outcome])


def _imprecision(made: Comparison, pooled: Mapping[str, PooledEffect]) -> Domain:
    name = "imprecision"
    sizes = [row.paper.people for row in made.rows]
    people = sum(size for size in sizes if size)
    known = None not in sizes
    few = f"; {people:,} people in all" if known else "; not all studies tell how many people"
    for kind, each in pooled.items():
        low, high = each.random_interval
        bounds = f"the pooled {kind}'s interval"
        if low <= 0 <= high:
            return Domain(name, "concern", f"{bounds} holds no effect and effects both ways{few}")
        small = known and people < FEW
        return Domain(
            name, "concern" if small else "no concern", f"{bounds} leaves no effect out{few}"
        )
    read = [row.read for row in made.rows if isinstance(row.read, Effect)]
    if known and people < FEW:
        return Domain(name, "concern", f"{people:,} people in all, fewer than {FEW}")
    if read and len(read) == len(made.rows):
        crossing = sum(each.crosses for each in read)
        reason = f"{crossing} of {len(read)} intervals hold no effect{few}"
        return Domain(name, "concern" if crossing else "no concern", reason)
    return Domain(name, "not judged", f"no interval of every study{few}")


def _reporting(made: Comparison, announced: Sequence[Announced]) -> Domain:
    name = "reporting"
    waiting = [each for each in announced if each.protocol]
    lost = [each for each in announced if not each.protocol and not each.found]
    if waiting or lost:
        said = [f"{len(waiting)} announced outcomes of protocols without results"] * bool(waiting)
        said += [f"{len(lost)} announced outcomes without a result here"] * bool(lost)
        quotes = tuple(each.quote for each in [*waiting, *lost])
        return Domain(name, "concern", "; ".join(said), tuple(dict.fromkeys(quotes)))
    few = "too few studies for a funnel" if len(made.rows) < FUNNEL else ""
    told = few or "asymmetry is not tested"
    return Domain(name, "not judged", f"no protocol without results is here; {told}")


def _quotes(rows: Sequence[StudyRow]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.quote for row in rows))


def _designs(rows: Sequence[StudyRow]) -> tuple[str, ...]:
    told = [d for row in rows for paper in row.papers for d in paper.told.get("study_design", ())]
    return tuple(dict.fromkeys(told))
