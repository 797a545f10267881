"""Concept names within a mention: no counts, no enumerations, no clauses, one name each.

A mention is the span that annotators mark ("856 patients with arthritis seen at our institution");
a node of the graph is a name that a vocabulary could contain ("patients with arthritis"). Rules on
the lower-cased text; Recommendation and Contraindication are sentences and stay whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from srrag.reading.lexicon import bounded, words
from srrag.storage.mirror import pull_build

CONCEPTS = 4
"""The version of these rules; facts from another version are extracted again."""
MAX_WORDS = 12
"""Words of the longest name."""
WHOLE = frozenset({"Recommendation", "Contraindication"})
_COUNTED = frozenset({"Population", "Condition", "Arm"})

_NUMBER = (
    r"(?:\d[\d,.]{0,12}|(?:(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|"
    r"thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|"
    r"sixty|seventy|eighty|ninety|hundred|thousand)\b[\s-]?){1,5})"
)
_LEADING = bounded(
    r"(?:[-–•*#:;,.)\]‘’']{1,3}\s?|\(?(?:\d{1,2}|[a-d]|i{1,3}|iv|v)\)\s*|"
    r"(?:among|between|whether|using|such as|well as|as well as|same|other|several|various|many|"
    r"some|any|more|most|only|also|our|his|her|either|upon|via|per|such|given|if|then|there|where|"
    r"while|when|how|can|may|could|would|will|not|over|within|until|about|every|being|without|"
    r"at|from|by|after|before|during|under|through|throughout|across|toward|towards|but|so|both|their|its|these|those|the|an?|of|"
    r"in|on|for|to|with|and|or|mean|median|overall|respective|current|present|following|thereby|"
    r"used|treated with|run by|along with|supplementation (?:of|with)|conducted with|submitted to|"
    r"eligible|consecutive|included|mainly|novel|new|particular|conjunction with|although|whereas|"
    r"out of this sample|furthermore|moreover|however|which|thus|they|it|we|aimed at|greater|"
    r"better|worse|"
    r"(?:reduc|increas|decreas|improv|determin|evaluat|assess|investigat|examin|compar|modulat|"
    r"utiliz|prevent|enhanc|explor|measur|promot|affect|influenc|includ|maintain|attend|ingest|"
    r"contain|perform|receiv|prov|last|complet|consum|provid|achiev|produc|demonstrat|indicat|"
    r"suggest|identif|describ|apply|support|caus|regard|continu)"
    r"(?:e|es|ed|ing|s)?|"
    r"(?:(?:small|large|total|random|convenience|subsequent)\s)?"
    r"(?:subset|subgroup|cases?|sample|number|series|cohort|majority|proportion|rest|"
    r"effects?|reductions?|improvements?|increases?|decreases?|changes?|differences?)\s(?:of|in|on|"
    r"from)|"
    r"(?:intervention|control|treatment|exercise|experimental)?\s?(?:groups?|arms?|phase)\s?"
    r"(?:[a-d]|\d)?\s?:|\d[\d.,]{0,6}\s?(?:mg|g|ml|µg|mcg|iu|units)(?:/[a-z]{1,4}){0,2}(?:\sof)?|"
    r"(?:background|introduction|objectives?|aims?|purpose|methods?|results?|"
    r"findings|conclusions?)\s?:)(?:\s+|(?<=:)))"
)
_COUNT = bounded(
    rf"(?:a total of\s)?{_NUMBER}\s?(?:%\s(?:of\s(?:the\s)?)?)?(?:and\s)?"
    r"(?![\d.–-]|(?:hour|day|week|month|year|min))"
)
_CLAUSE_END = bounded(
    r"(?:(?<!\swho)(?<!\sthat)(?<!which),?\s(?:were|was|are|is|will|would|has|have|had|did|does|do|can|could|may|might|should|"
    r"must|showed|shows|improved|improves|increased|increases|reduced|reduces|decreased|produced|"
    r"led|resulted|occurred|attended|wore|completed|performed|preceded|participated|received|"
    r"provided|changed|emerged|continued|consumed|underwent|demonstrated|experienced|revealed|"
    r"remained|started|took|supports?|which|that|allows?|enables?|provides?|contributed|suppressed|"
    r"met|appreciate|indicates?|suggest(?:s|ed|ing)?|exhibits?|displays?|associated with|according|"
    r"enhanced|delayed|interacts?|older|while|when|whereas|thereby|because|despite|(?:immediately\s)?"
    r"after|following|before|prior to|due to|versus|vs|than|compared|upon|throughout|leads|acts?|"
    r"represents|includes|broke|causes|caused|(?:between|from|in) (?:january|february|march|april|"
    r"may|june|july|august|september|october|november|december|\d{4})|"
    r"(?:seen|treated|enrolled|recruited|included|admitted|referred|randomi[sz]ed|assigned|"
    r"allocated|attending)\s(?:at|in|from|to|into|by|with|over|an?)|"
    r"by (?:use|means) of|(?:as\s)?(?:measured|assessed|evaluated|determined|quantified) "
    r"(?:by|with|using|at|in|on)|using|based on|defined as|such as|including|"
    r"(?:at|in|from) (?:our|an?|the|this) (?:unit|institution|hospital|department|clinic|cent(?:er|"
    r"re)))\b|,\s(?:\d|up to|of both|mean|aged|both|including|who|considered|although|whereas|"
    r"with an? mean)|(?<=[a-z]{3})\.(?=[a-z]{3})|\s[–—]\s|\s?[±<>≤≥]|:\s)"
)
_TRAIL = bounded(
    r"(?:\s(?:at|after|over|during|from|for|until|within)\s(?:the\s)?"
    rf"(?:baseline|follow-?up|each|first|last|{_NUMBER})(?:\s?[%°]|[\s-].{{0,60}})?|"
    r"\s(?:at|after|over|during|from|for|until|in|within|to|by|per|on|of|across|and|or|with|the|an?|"
    r"as|that|who|which|between|both|respectively|alone|only|also|among|often|along|aged|already|"
    r"achieving|either|any|its|their|not|due|when|"
    r"(?!family|anomaly|assembly|elderly|supply|daily|weekly|monthly|early|only)[a-z-]{2,20}ly)|"
    r"\s(?:of|in|for|among)\s(?:the\s|all\s|our\s)?(?:patients|participants|subjects|controls)|"
    r"\s?\(\d[^()]{0,40}\)|\s?\((?:[np]\s?[=<]?\s?)?\d[\d\s.,;:%±–<>=/-]{0,40}\)?|\s\(?(?:t|phase|arm|group)\s?\d\)?|"
    r"[\s,;:.(\[‘’'–-]{1,9}|\s\d+(?:\.\d+)?\s?%)$"
)
_RELATIVE = bounded(r"(?<=[a-z])\s(?:who|which|that|where|whose)\s")
_GLUE = bounded(r"\s?;\s|\s?,\s(?:and\s|or\s)?|\sand\s|\sor\s")
_PREPOSITION = bounded(r"\s(?:of|in|for|between|with|on|by|to|from)\s")
_HALF = bounded(
    r"(?:[a-z-]{3,30}(?:al|ic|ive|ous|ary|ed|ular|olar|ory|ble|-)|pre|post|peri|lower|upper|low|"
    r"high|short|long|left|right|mild|severe|acute)$"
)
_MEMBER = bounded(r"[a-z-]{1,30}\s(?:of|in|on|to)\s")
_ADJECTIVE = bounded(
    r"[a-z-]{0,30}(?:ical|ional|ological|ysical|based|related|specific|[a-z]{4}ed|emic|graphic|"
    r"logic|metric|bolic|genic|tive|ssive)(?:\s?\([^()]{0,20}\))?$"
)
GENERAL = words("no_name")
"""Words that alone name no concept."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_AGE = bounded(r"(?:\bage[ds]?\b|±|\brange\b|\bold\b)[^.;]{0,30}$")


def concept_spans(lower: str, kind: str, start: int, end: int) -> list[tuple[int, int]]:
    """The spans [start, end) of the concepts that a mention of a type names; often one, or none."""
    if kind in WHOLE:
        return [(start, end)]
    if kind == "Timepoint":
        start, end = _front(lower, start, end, counts=False)
        aged = _AGE.search(lower, max(0, start - 50), start)
        return [] if aged or start >= end else [(start, end)]
    found = []
    for piece in _listed(lower, kind, start, end):
        a, b = _bare(lower, kind, *piece)
        if _is_concept(lower[a:b]):
            found.append((a, b))
    return found


def concept_name(text: str) -> str:
    """A name without counts in brackets and with single blanks: "resistance (n = 18) exercise"."""
    return " ".join(_SIZES.sub(" ", text).split())


_SIZES = bounded(r"\s?[(\[]\s?[nN]\s?=\s?\d[\d,]{0,8}\s?[)\]]")


def _bare(lower: str, kind: str, start: int, end: int) -> tuple[int, int]:
    """Cut clauses, then leading and trailing words."""
    start, end = _front(lower, start, end, counts=kind in _COUNTED)
    for cut in _CLAUSE_END.finditer(lower, start, end):
        if cut.start() > start and not _opens(lower[start : cut.start()]):
            end = cut.start()
            break
    relative = _RELATIVE.search(lower, start, end)
    if relative and len(lower[start:end].split()) > MAX_WORDS:
        end = relative.start()
    start, end = _closed(lower, start, end)
    while match := _TRAIL.search(lower, start, end):
        if match.start() <= start or match.start() >= end:
            break
        end = match.start()
    return _closed(lower, start, end)


def _front(lower: str, start: int, end: int, *, counts: bool) -> tuple[int, int]:
    """Move the start behind function words, enumerations and, with `counts`, numbers of people."""
    moved = True
    while moved:
        moved = False
        for pattern in (_LEADING, _COUNT) if counts else (_LEADING,):
            match = pattern.match(lower, start, end)
            if match and start < match.end() < end:
                start, moved = match.end(), True
    return start, end


def _closed(lower: str, start: int, end: int) -> tuple[int, int]:
    """Leave no bracket open: cut before the first that is not closed, after one not opened."""
    depth, opened = 0, start
    for place in range(start, end):
        if lower[place] in "([":
            depth, opened = depth + 1, place if depth == 0 else opened
        elif lower[place] in ")]":
            if depth == 0:
                return start, place
            depth -= 1
    return (start, opened) if depth else (start, end)


def _listed(lower: str, kind: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the members of a list; one that is half a name ("physical and mental health") joins."""
    if kind == "Population":
        yield start, end
        return
    begin = start
    for match in _GLUE.finditer(lower, start, end):
        left = lower[begin : match.start()]
        if _opens(left):
            continue
        joint = lower[match.start() : match.end()].strip() in {"and", "or"}
        if not left.strip() or (len(left.split()) == 1 and _HALF.match(left.strip())):
            continue
        whole = _PREPOSITION.search(left) and not _MEMBER.match(lower, match.end(), end)
        if joint and (whole or not _WORD.search(left)):
            continue
        yield begin, match.start()
        begin = match.end()
    yield begin, end


def _opens(text: str) -> bool:
    """Whether a bracket of the text is still open at its end."""
    return text.count("(") > text.count(")") or text.count("[") > text.count("]")


def _is_concept(name: str) -> bool:
    """Whether the rest is a name: it has letters, is not too long, and not only general words."""
    words = name.split()
    tokens = _WORD.findall(name)
    if not tokens or len(words) > MAX_WORDS:
        return False
    if _ADJECTIVE.match(name):
        return False
    return not all(token in GENERAL for token in tokens)


_PAIR = re.compile(r"\(\s*([^()\[\]{};,]{2,12}?)\s*[);,]")
_SHORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9/+.-]*(?: [A-Za-z0-9][A-Za-z0-9/+.-]*)?")
_STOP = re.compile(r"[.;:!?](?:\s|$)|[()\[\]]")
_BRACKETED = re.compile(r"(?P<long>[^()]{4,200}) \((?P<short>[^()\s]{2,12})\)")
_MAX_WORDS = 2


def abbreviations(text: str) -> Iterator[tuple[str, str]]:
    """Yield (short form, long form) of each definition in a text, in order.

    The algorithm of Schwartz and Hearst (2003): the long form stands before the short form in
    parentheses, within min(|short| + 5, 2 |short|) words and one sentence; it is the shortest
    stretch of whole words that contains the letters of the short form in order, matched from the
    right; the first letter begins a word. Short forms have 2 to 10 characters, at most two words,
    and a letter.
    """
    for found in _PAIR.finditer(text):
        short = found[1].strip()
        if not _is_short(short):
            continue
        size = len(short)
        before = _sentence(text[: found.start()])
        words = before.split()[-min(size + 5, 2 * size) :]
        long = long_form(short, " ".join(words))
        if not _contains(long, short):
            yield short, long


def long_form(short: str, text: str) -> str:
    """The shortest end of a text that a short form may abbreviate, "" if there is none."""
    place = len(text)
    for n in range(len(short) - 1, -1, -1):
        letter = short[n].lower()
        if not letter.isalnum():
            continue
        place -= 1
        while place >= 0 and not (
            text[place].lower() == letter and (n > 0 or place == 0 or not text[place - 1].isalnum())
        ):
            place -= 1
        if place < 0:
            return ""
    start = text.rfind(" ", 0, place) + 1
    # The first letter has to begin a word, or the part of a word after a hyphen.
    return text[start:].strip(" ,-\"'")


def _is_short(text: str) -> bool:
    return (
        2 <= len(text) <= 10
        and len(text.split()) <= _MAX_WORDS
        and any(char.isupper() for char in text)
        and _SHORT.fullmatch(text) is not None
    )


def _sentence(text: str) -> str:
    """The end of a text after its last stop or bracket."""
    tail = text[-200:]
    stops = [found.end() for found in _STOP.finditer(tail)]
    return tail[stops[-1] if stops else 0 :].strip()


def _contains(long: str, short: str) -> bool:
    """Whether the long form is no longer than the short one, or has it as a word."""
    return len(long) <= len(short) or short.lower() in long.lower().split()


def written_out(name: str, long: Mapping[str, str]) -> str:
    """A name without its abbreviation: `long` for a short form alone, "long form (LF)" without it.

    The bracket has to hold a short form that the corpus defines.
    """
    if name in long:
        return long[name]
    found = _BRACKETED.fullmatch(name)
    return found["long"] if found and found["short"] in long else name


FILE = "abbreviations.json"


def read_abbreviations(folder: Path) -> dict[str, str]:
    """Read what the build wrote; raises ValueError that names an unreadable file."""
    pull_build(folder)
    path = folder / FILE
    try:
        found: dict[str, str] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: not the abbreviations of a build ({error})") from error
    return found
