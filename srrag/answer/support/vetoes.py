"""What may not stand in an answer whatever a model says of it: facts about a text and its sources.

Links, quantities and words to the reader are found in any language; names, advice and what is apart
from its sources are found where both are English, as in the frequencies of medical words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache

from srrag.algo.terms import STOPWORDS, guess_language, terms
from srrag.answer.gate.answerable import packaged_model
from srrag.answer.gate.coverage import TELLING, Held, TextSource, held
from srrag.answer.select.candidates import speaks_to_a_model
from srrag.model.encoder import Encoder, load_tokenizer
from srrag.reading.lexicon import lexicon
from srrag.reading.numbers import lost_numbers
from srrag.reading.people import LOOSE
from srrag.reading.prose import cut_sentences
from srrag.reading.tagger import treatment_weight

KINDS = LINK, READER, ORDER, DOSE, ADVICE, NAME, APART = (
    "link", "reader", "order", "dose", "advice", "name", "apart",
)  # fmt: skip

_CONTACT = re.compile(
    r"""
      [a-z]{3,6}://\S+
    | [\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+
    | \bwww\.[\w-]{1,64}(?:\.[\w-]{1,64})+
    | \b(?:[a-z0-9-]{1,63}\.){1,5}(?:(?:com|org|net|info|gov|edu|int|io)\b(?!\.\w)|[a-z]{2,8}/\w)
    | (?<![\w.,])(?:\+|00)\(?[1-9](?:[\s().-]{0,2}\d){7,13}(?![\w%])      # a number abroad
    | (?<![\w.,])\(?0\d{2,4}\)?(?:[\s./-]\d{2,8}){1,4}(?![\w%,.]\d|\w|%)  # at home
    | (?<![\w.,])\(?0\d\)?(?:[\s/-]\d{2,8}){2,4}(?![\w%,.]\d|\w|%)
    | (?<![\w.,])(?:1-)?\(?[2-9]\d{2}\)?[\s.-]\d{3}[.-]\d{4}(?![\w%])     # of North America
    """,
    re.IGNORECASE | re.VERBOSE,
)
_MIN_DIGITS = 7
_READER = re.compile(r"\b(?:you|your|yours|yourself)\b", re.IGNORECASE)
_UNITS = (
    r"(?:mg|g|[uµμ]g|mcg|ng|ml|cl|i\.?u\.?|mmol|units?|tablets?|capsules?|drops|puffs|ampoules?)\b"
)
_QUANTITY = re.compile(rf"(?<![\w.])(\d{{1,6}}(?:[.,]\d{{1,4}})?)\s?{_UNITS}", re.IGNORECASE)
_UNIT = re.compile(rf"(?<![^\W\d]){_UNITS}", re.IGNORECASE)
_PER_UNIT = (Decimal(1), Decimal(1000), Decimal("0.001"))
"""A quantity is the same in the next larger or smaller unit."""
_ADVISES = re.compile(
    r"\b(?:should|must|ought to|ha(?:s|ve) to|recommend\w*|advi[sc]e\w*|advisable)\b", re.IGNORECASE
)
_BEARS_ADVICE = re.compile(r"\b(?:need|needs|needed|(?:guideline|prescri|warrant)\w*)\b", re.I)
_BIDS = re.compile(r"(?:please|always|never|don['’]t|do not)\b", re.IGNORECASE)
_LABEL = re.compile(r"[^.:]{1,80}: ")
"""The name of an outcome: what follows is told of it."""
_LEAD = re.compile(
    r"(?:(?:if|when|whenever|unless|once|while|before|after|for|to) (?:[\w-]{1,30} ){0,5}"
    r"[\w-]{1,30}, )?(?:\w{2,20}ly )?",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\b(?:if|when|whenever|unless)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_NOT_BARE = re.compile(r"(?:ing|ed|ly|[^s]s)$")
_FINITE = re.compile(
    r"is|are|was|were|has|have|had|does|did|can|could|may|might|must|shall|should|will|would"
    r"|\w{2,}[^e]ed|became|began|brought|came|chose|fell|felt|found|gave|got|grew|held|kept|led"
    r"|left|lost|made|met|ran|rose|saw|slept|spent|stood|took|underwent|went|won"
)
"""Verbs that have a subject, but for those in -s; the irregular ones are those of results."""
_UNKNOWN = 1.0
_PROPER = re.compile(r"(?<=[\w,;:] )[A-Z][a-z]{2,}\b")
"""A word with a capital within a sentence."""
_LEAST_NAME = 6
_TOKENS_OF_A_WORD = 2
"""Of "eyesight", "dropout", "rectum"; names of drugs have more."""
_PLAIN_ENDING = re.compile(r"(?:[^aeiou]ed|ing|er|est|ly|ness|ment|ful|less|able|[^sui]s)$")
"""Endings of everyday English; few names of drugs or procedures have them."""
_THERAPIES = {
    "physio": "physical",
    "radio": "radiation",
    "chemo": "chemotherapeutic",
    "psycho": "psycholog\\w+",
    "pharmaco": "pharmacolog\\w+",
    "hormono": "hormon\\w+",
}
_OTHER_NAMES = (
    ("epinephrine", "adrenaline"),
    ("adrenaline", "epinephrine"),
    ("acetaminophen", "paracetamol"),
    ("paracetamol", "acetaminophen"),
)
_DENIES = re.compile(r"^(?:un|im|in|non)(?=\w{4})")
_MIN_APART = 4
"""Telling words that a text has at least, if none of them is its sources'."""


def veto(text: str, sources: Sequence[str], checked: bool = False) -> str:
    """Why a text is held back as a statement, "" if it may stand.

    `sources` are the question, then what is cited. What `intrusion` finds comes first. DOSE is a
    quantity of a drug that no source holds in any unit, ADVICE recommends or orders where no source
    gives advice, NAME holds a word that is in no source, not an everyday one, and is somebody's
    name, unknown to medical texts or that of a treatment. APART shares no telling word with what is
    cited. Of a text that a model `checked`, and found in the sources whole, only intrusions and
    treatments are held back, unless the sources have them by another name: words alone held back
    17 of 680 such sentences, all of them true.
    """
    if found := intrusion(text, sources):
        return found
    told = [_without_orders(source) for source in sources]
    known = [source for source in told if _UNIT.search(source)]
    if not checked and any(_lost(each[1], known) for each in _QUANTITY.finditer(text)):
        return DOSE
    read = (f"{told[0]} {text}", " ".join(told[1:]))
    if not {*map(guess_language, read)} <= {"English", ""}:
        return ""
    if not checked and _advice(text, told):
        return ADVICE
    read_as = [TextSource(str(number), (each,)) for number, each in enumerate(told)]
    words = held(text, read_as, packaged_model().frequencies)
    if _named(text, folded(" ".join(told)), words, treatments_alone=checked):
        return NAME
    return APART if not checked and _apart(words) else ""


def intrusion(text: str, sources: Sequence[str]) -> str:
    """Why a text is held back even as a remark, "" if it may stand.

    LINK is a web or e-mail address or a telephone number that no source holds, READER addresses the
    reader where no source does, ORDER speaks to a model, or says what only words to a model in a
    source do.
    """
    said, whole = folded(text), folded("\n".join(sources))
    if _contact(said, whole):
        return LINK
    if _READER.search(said) and not _READER.search(whole):
        return READER
    return ORDER if speaks_to_a_model(text) or _ordered(text, sources) else ""


def _named(text: str, whole: str, found: Held, treatments_alone: bool) -> bool:
    """Whether a text has a name that no source holds; `whole` are the sources, folded.

    With a capital it is that of a firm or a person, unless it begins like a word of theirs: Mexican
    is of Mexico.
    """
    lost = found.weights * ~found.inside.any(axis=0)
    proper = {word: word[:4].casefold() in whole for word in _PROPER.findall(text)}
    for word, weight in zip(found.words, lost, strict=True):
        everyday = word not in proper and _tokens(_denied(word.lower())) == 1
        if everyday or lexicon("control").search(word) or not LOOSE.isdisjoint(terms(word)):
            continue
        treatment = weight >= TELLING and treatment_weight(word) >= 1
        if treatments_alone:
            if treatment and not _otherwise_named(word.casefold(), whole):
                return True
            continue
        if treatment:
            return True
        if weight and not proper.get(word, True):
            return True
        if weight >= _UNKNOWN and word not in proper and _is_name(word):
            return True
    return False


def _otherwise_named(treatment: str, whole: str) -> bool:
    """Whether the sources call a treatment by another name: physiotherapy is physical therapy."""
    if stem := _THERAPIES.get(treatment.removesuffix("therapy")):
        return bool(re.search(rf"\b{stem} (?:therap|treatment)", whole))
    names = (treatment.replace(*each) for each in _OTHER_NAMES if each[0] in treatment)
    return any(re.search(rf"\b{re.escape(name)}\b", whole) for name in names)


def _apart(found: Held) -> bool:
    """Whether none of the telling words of a text is in what it cites."""
    telling = found.weights >= TELLING
    return bool(telling.sum() >= _MIN_APART and not (telling & found.inside[1:].any(axis=0)).any())


def _denied(word: str) -> str:
    """What an everyday word denies, as "unequal" does "equal"; a word that is none, as it is."""
    plain = _DENIES.sub("", word)
    return plain if _tokens(plain) == 1 else word


def _is_name(word: str) -> bool:
    """Whether a word that medical texts do not know looks like none of everyday English."""
    known = len(word) < _LEAST_NAME or _PLAIN_ENDING.search(word.lower())
    return not known and _tokens(word) > _TOKENS_OF_A_WORD


@lru_cache(maxsize=4096)
def _tokens(word: str) -> int:
    """How many tokens the packaged encoder makes of a word: one of an everyday word."""
    return int(load_tokenizer(Encoder()).count([word])[0])


def _contact(said: str, whole: str) -> bool:
    digits = re.sub(r"\D", "", whole)
    for found in _CONTACT.finditer(said):
        contact = found[0].rstrip(".,;:)]}\"'")
        number = re.sub(r"[\s().+/-]", "", contact)
        if number.isdigit() and (len(number) < _MIN_DIGITS or number in digits):
            continue
        if contact not in whole:
            return True
    return False


def _without_orders(source: str) -> str:
    """A source without its sentences that speak to a model."""
    if not speaks_to_a_model(source):
        return source
    return "\n".join(
        sentence
        for line in source.split("\n")
        for sentence in cut_sentences(line)
        if not speaks_to_a_model(sentence)
    )


def _ordered(text: str, sources: Sequence[str]) -> bool:
    """Whether a text has a word that its sources hold in sentences to a model alone."""
    told = [_without_orders(source) for source in sources]
    ordered = {*terms("\n".join(sources))} - {*terms("\n".join(told))}
    return not ordered.isdisjoint(terms(text))


def _lost(written: str, told: Sequence[str]) -> bool:
    value = Decimal(written.replace(",", "."))
    return all(lost_numbers(f"{(value * unit).normalize():f}", told) for unit in _PER_UNIT)


def _advice(text: str, told: Sequence[str]) -> bool:
    """Whether a text advises where no source does, or orders what none does."""
    if any(map(_orders, cut_sentences(text))):
        return not any(map(_orders, cut_sentences("\n".join(told))))
    if not _ADVISES.search(text):
        return False
    return not any(_ADVISES.search(each) or _BEARS_ADVICE.search(each) for each in told)


def _orders(sentence: str) -> bool:
    """Whether a sentence is an order: it begins by a verb, and no verb in it has a subject.

    A line on an outcome, behind its name, is none.
    """
    if _BIDS.match(sentence):
        return True
    if _LABEL.match(sentence):
        return False
    lead = _LEAD.match(sentence)
    said = _CONDITION.split(sentence[lead.end() if lead else 0 :])[0]
    first, *rest = _WORD.findall(said.lower()) or [""]
    if first in STOPWORDS - {"do", "use"} or _NOT_BARE.search(first) or not _is_verb(first):
        return False
    return bool(rest) and rest[0] != "of" and not any(map(_has_subject, rest))


def _is_verb(word: str) -> bool:
    """Whether a word can be a verb: everyday English has its form in -ing."""
    stems = (word, word + word[-1:], word.removesuffix("e"))
    return any(_tokens(f"{stem}ing") == 1 for stem in stems)


def _has_subject(word: str) -> bool:
    if _FINITE.fullmatch(word):
        return True
    bare = (word[:-1], word.removesuffix("es"), f"{word.removesuffix('ies')}y")
    return word.endswith("s") and not word.endswith("ss") and any(map(_is_verb, bare))


def folded(text: str) -> str:
    """A text without capitals, runs of spaces, and forms of letters that look alike."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
