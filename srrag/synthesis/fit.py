"""Whether a study's people are those of the question: age, sex, condition, stage and setting."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from srrag.reading.lexicon import lexicon
from srrag.reading.people import meet, traits
from srrag.reading.values import find_values
from srrag.synthesis.comparisons import Parts, StudyRow
from srrag.synthesis.names import NameMatcher

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
    """What people have: what is asked, what the title says too, or what the finding says."""
    own = [each for each in map(_condition, own_people) if each]
    told = own + [each for each in map(_condition, people) if each]
    near = (each for each in told if asked and names.means(asked.split("; "), [each]))
    in_title = (each for each in asked.split("; ") if each and names.holds(each, [title]))
    titled = (each for each in told if names.holds(each, [title]))
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


def _condition(people: str) -> str:
    """What people have, of a phrase that names them: "severe COPD" of "adults with severe COPD"."""
    bare = re.split("[,;(]", _BEFORE.sub("", people))[0]
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
        return names.means(asked.split("; "), [told])
    same: Sequence[bool] = [each in told for each in asked.split("; ")]
    return True if any(same) else None
