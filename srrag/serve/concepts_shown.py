"""Which names of a graph are shown to people, and which of them are one concept.

Rules read mentions badly at their borders, so the graph holds halves of sentences. They serve the
search, which matches their words; a reader takes them for names. The bar is stated in words in
`BAR`, which the page prints, and in patterns here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.reading.concepts import GENERAL, written_out
from srrag.reading.vocabulary import name_key, stems, tokens_of

BAR = (
    "Shown are names that could stand in a vocabulary: at most seven words and 60 characters, no "
    "verb, no dose, duration or number of people, no general word alone (“efficacy”, “group A”), "
    "no short form that no paper here spells out. Other spellings, and short forms with their long "
    "form, count as one; so do patients with an illness and the illness."
)

COLUMNS = ("population", "intervention", "outcome")
"""From whom to what is done to what comes of it."""

OF_TYPE: Mapping[str, int] = {
    "Population": 0, "Condition": 0, "Intervention": 1, "Comparator": 1, "Device": 1, "Arm": 1,
    "Exposure": 1, "Outcome": 2, "AdverseEvent": 2,
}  # fmt: skip
"""The column of a type of entity; other types stand in none."""

_VAGUE = """
    efficacy effectiveness feasibility information age aged frail mild moderate however aerobic
    community dwelling clinical benefit benefits experience use care long short term outcomes
    recurrent chronic acute severe adverse physically trained active usual standard intensive novel
    combination dose doses daily weekly program programme programs programmes rehabilitation session
    sessions phase week weeks month months day days once twice thrice early late proof principle
    progress prevalence incidence immunogenicity pharmacokinetics additional additive potential
    representative total whole selected different full half thereafter safe mid end all subjects
    last good otherwise parallel subscales subscale questionnaire them him you gain
    illustrative text
""".split()  # noqa: SIM905 (a list of as many literals hides the words)
_GENERAL_ALONE = rf"^(?:(?:{'|'.join(sorted({*GENERAL, *_VAGUE}))})[\s,/()-]*)+$"
_VERBS = (
    r"\b(?:was|were|is|are|be|been|being|has|have|had|did|does|do|will|would|can|could|may|might|"
    r"should|showed|shown|shows|compared|recommend(?:s|ed|ing)?|enrolled|participat(?:e|ed|ing)|"
    r"assigned|allocated|recorded|scheduled|identif(?:y|ied|ies)|managed|received?|receiving|"
    r"affiliated|consist(?:s|ed|ing)|includ(?:e|es|ed|ing)|consum(?:e|ed|ing)|reached|emerged|"
    r"serv(?:e|ed|ing)|remain(?:s|ed)?|improv(?:es|ed|ing)|reduc(?:es|ed|ing)|increas(?:es|ed)|"
    r"decreas(?:es|ed)|using|used|administered|encouraging|visuali[sz]ing|however|whereas|"
    r"respectively|although|because|which|who|whom|whose|that|they|their|we|our|among|between|"
    r"versus|vs|than|these|those|such|without|beyond|perceiv(?:e|ed)|after|before|during|alongside|once|twice|if|there)\b"
)
_EDGES = (
    r"^(?:of|in|on|for|to|with|and|or|by|at|as|from|per|each|every|both|total|other|some|no|not|"
    r"healed|left|than)\b|"
    r"\b(?:of|in|on|for|with|to|and|or|by|at|the|an?|from|per|across|as|not|no|all|its|versus|"
    r"[a-z]{3,}(?:[^p]ly))$|^[^a-z0-9α-ω]|[-–/,]$"
)
_FIGURES = (
    r"\d{3,}|%|\bn\s?=|[±<>=≥≤≈°·*•|]|\b\d+(?:\.\d+)?[\s-]?(?:mg|g|kg|ml|µg|min|minutes?|hours?|h|"
    r"days?|weeks?|months?|mmol|iu|ma)\b|\b(?:daily|weekly|monthly|a week|a day)\b|"
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve)[\s-](?:weeks?|months?|days?|"
    r"complications|case)|^\d+(?:\s|$)|\b(?:january|february|march|april|june|july|august|september|"
    r"october|november|december|20[012]\d|19\d\d)\b"
)
_BROKEN = r"[a-z)]\.\s?[a-z]{3,}|[:;?!“”\"\[\]{}]|\.\.|, .*, |,\s?(?:mean|aged?)\b|\s['’]"
_ARMS = (
    r"^(?:groups?|arms?|cohorts?)(?:$|\s\S{1,2}$|\s(?-i:[A-Z]))|\b(?:groups?|arms?|cohorts?|controls?)(?:\s?\([^()]*\))?$|"
    r"\bcontrol group\b"
)
_SHORT = re.compile(r"[A-Z][A-Za-z0-9]{0,3}[A-Z][A-Za-z0-9]{0,3}s?")
_PEOPLE = re.compile(
    r"^(?:(?:patients?|participants?|people|persons?|subjects?|individuals?|those|cases?)\s"
    r"(?:with|who have|suffering from|of)|(?:diagnosis|progression|presence|onset) of)\s"
    r"(?:the\s|an?\s)?|\s(?:patients?|participants?|subjects?)$",
    re.IGNORECASE,
)
_OWN_SHORT = re.compile(r"(.{3,}) \(([^()\s]{1,8})\)")
_ILLNESS = re.compile(
    r"(?:syndromes?|diseases?|disorders?|dystrophy|atrophy|itis|osis|oma|emia|purpura|ataxia|"
    r"cancers?|carcinomas?|tumou?rs?|pseudotumou?r|sclerosis|epilepsy|hemophilia|haemophilia|"
    r"rupture of membranes|progeria)(?:\s?\([^()]*\))?$",
    re.IGNORECASE,
)


def passes(names: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.bool_]:
    """Which names clear the bar, short forms aside (`Spelling.knows`)."""
    length = pc.utf8_length(names)
    words = pc.list_value_length(pc.split_pattern(names, " "))
    fits = pc.and_(
        pc.and_(pc.greater_equal(length, 3), pc.less_equal(length, 60)), pc.less_equal(words, 7)
    )
    closed = pc.equal(pc.count_substring(names, "("), pc.count_substring(names, ")"))
    good = pc.and_(fits, closed)
    for pattern in (_GENERAL_ALONE, _VERBS, _EDGES, _FIGURES, _BROKEN, _ARMS):
        found = pc.match_substring_regex(names, pattern, ignore_case=True)
        good = pc.and_not(good, found)
    return np.asarray(good.to_numpy(zero_copy_only=False), np.bool_)


def columns_of(types: pa.ChunkedArray, names: pa.ChunkedArray) -> npt.NDArray[np.int8]:
    """The column of each entity, -1 for none; an illness stands first, whatever it was read as."""
    known = pa.array(list(OF_TYPE), pa.string())
    number = pc.fill_null(pc.index_in(types, value_set=known), -1).to_numpy()
    column = np.array([*OF_TYPE.values(), -1], np.int8)[number]
    ill = pc.match_substring_regex(names, _ILLNESS.pattern, ignore_case=True).to_numpy()
    column[(column >= 0) & ill] = 0
    return np.asarray(column)


class Spelling:
    """The short forms that a corpus defines."""

    def __init__(self, long: Mapping[str, str]) -> None:
        """Keep long forms that read as one: they begin with a letter and hold no bracket."""
        self._long = {
            short: full
            for short, full in long.items()
            if _SHORT.fullmatch(short) and full[:1].isalpha() and "(" not in full
            and not full.lower().startswith(("and ", "of ", "the ", "for ", "in "))
        }  # fmt: skip

    def knows(self, name: str) -> bool:
        """Whether a reader can: it is no short form, or one that the corpus spells out."""
        return not _SHORT.fullmatch(name) or name in self._long

    def spelled(self, name: str) -> str:
        """The name with its short forms written out."""
        whole = written_out(name, self._long)
        return " ".join(self._long.get(word, word) for word in whole.split(" "))

    def key(self, name: str, column: int) -> str:
        """What all spellings of a concept share: its words in any order, number and spelling.

        Patients with an illness, and a diagnosis of it, count as the illness.
        """
        own = _OWN_SHORT.fullmatch(name)
        if own and own[1][0].casefold() == own[2][0].casefold():
            name = own[1]  # "exercise (Ex)"
        if column == 0:
            name = _PEOPLE.sub("", name)
        return name_key(self.spelled(name))

    @cached_property
    def _shorts(self) -> dict[str, list[str]]:
        """The short forms by each word of their long form."""
        found: dict[str, list[str]] = defaultdict(list)
        for short, full in self._long.items():
            for word in set(tokens_of(full)):
                found[word].append(short)
        return found

    def written(self, word: str) -> str:
        """A pattern that every name matches whose key has this word, and few others."""
        return "|".join([*stems(word), *(rf"\b{each}\b" for each in self._shorts.get(word, ()))])

    def shown(self, names: Sequence[str]) -> tuple[str, list[str]]:
        """The name to show and the other spellings, of spellings by descending use."""
        written = [name for name in names if not _SHORT.fullmatch(name)]
        if not written:
            return f"{self._long[names[0]]} ({names[0]})", []
        own = _OWN_SHORT.fullmatch(written[0])
        best = own[1] if own and own[1] in written else written[0]
        seen = {best.casefold()}
        others = []
        for name in names:
            if name.casefold() not in seen:
                seen.add(name.casefold())
                others.append(name)
        return best, others
