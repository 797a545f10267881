"""Find populations that a model's text adds to the question."""

from __future__ import annotations

import re

import Stemmer

from srrag.reading.mentions import find_mentions

_WORD = re.compile(r"[^\W\d_]{3,}")
# Words that tell no population from another, in the authors' own list.
_OF_ANY_POPULATION = """
    patient participant people person individual subject case adult group cohort sample population
    study trial evidence concern include enrol recruit receive treat affect compare
    and are for from has have had not than that the their these this those was were when who whose
    with without
"""


def invented_populations(text: str, question: str) -> list[str]:
    """Populations that the rules find in the text and whose telling words the question lacks.

    "patients" and the like are no telling words: they fit every question.
    """
    (mentions,) = find_mentions([text], [""], [False])
    found = dict.fromkeys(text[m.start : m.end] for m in mentions if m.type == "Population")
    asked, vague = _stems(question), _stems(_OF_ANY_POPULATION)
    telling = {population: _stems(population) - vague for population in found}
    return [population for population, stems in telling.items() if stems and not stems & asked]


def _stems(text: str) -> set[str]:
    # One a call: a stemmer must not be shared by threads.
    return set(Stemmer.Stemmer("english").stemWords(_WORD.findall(text.casefold())))
