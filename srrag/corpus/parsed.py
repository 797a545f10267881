"""What parsers and readers of documents share: their results, the ids of papers, and XML that is
read without files, network or entities of its own.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html.entities import html5
from typing import Any
from urllib.parse import unquote

from lxml import etree

from srrag.core.errors import SrragError

Metadata = dict[str, str | int | list[str]]

_WORD = re.compile(r"[^\W_]+")
_LEAST_KEPT = 0.1
_YEAR = re.compile(r"(?<!\d)(1[89]\d\d|20\d\d)(?!\d)")
_MAX_VALUE_CHARS = 2_000
_MAX_ITEMS = 500
_SPLIT = re.compile(r"\s*[;|]\s*")
_LISTS = {
    "mesh": "mesh",
    "mesh_terms": "mesh",
    "publication_type": "publication_types",
    "publication_types": "publication_types",
    "keywords": "keywords",
}
_NAMES = {
    "evidence_grade": "grade",
    "licence": "license",
    "condition_code": "condition",
}


class Unparsable(SrragError):
    """A document that cannot be read, with a reason in one word and a detail in one line."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Parsed:
    """Text in Markdown shape, not yet tidied, with its title and metadata.

    `text` leaves out the title. Metadata values are strings, integers and lists of strings;
    `words_left_out` is what the source holds beside the text.
    """

    title: str
    text: str
    metadata: Metadata = field(default_factory=dict)


def plain_metadata(record: Mapping[object, object]) -> Metadata:
    """Reduce untrusted key-value pairs to plain metadata under the names used here.

    Keeps scalars and lists of scalars, with caps on their size; drops all else.
    """
    plain: Metadata = {}
    for key, value in list(record.items())[:_MAX_ITEMS]:
        name = str(key).strip().lower().replace(" ", "_").replace("-", "_")[:100]
        if name in _LISTS:
            if items := _items(value):
                plain[_LISTS[name]] = items
        elif name == "year":
            if year := year_of(value):
                plain["year"] = year
        elif isinstance(value, list):
            plain[name] = _items(value)
        elif (text := _scalar(value)) is not None:
            plain[_NAMES.get(name, name)] = text
    return plain


_HASHES = re.compile(r"^(\s*#{1,6})[ \t]+", re.MULTILINE)


def no_heading(text: str) -> str:
    """Text in which no line begins as a heading: "# P < 0.05", a note, becomes "#P < 0.05"."""
    return _HASHES.sub(r"\1", text)


def count_words(text: str) -> int:
    """The number of words and numbers in a text; marks of tables and headings are none."""
    return sum(1 for _ in _WORD.finditer(text))


def check_kept(parsed: Parsed) -> None:
    """Raise Unparsable("mostly_left_out") where less than a tenth of the source is in the text."""
    kept = count_words(f"{parsed.title} {parsed.text}")
    left_out = parsed.metadata.get("words_left_out", 0)
    if isinstance(left_out, int) and kept < _LEAST_KEPT * (kept + left_out):
        raise Unparsable("mostly_left_out", f"{kept:,} of {kept + left_out:,} words could be read")


def year_of(value: object) -> int:
    """The first year from 1800 to 2099 in a value, or 0."""
    if isinstance(value, datetime.date):
        return value.year
    found = _YEAR.search(str(value)[:_MAX_VALUE_CHARS])
    return int(found[1]) if found else 0


def _items(value: object) -> list[str]:
    parts: Iterable[object] = value if isinstance(value, list) else _SPLIT.split(str(value or ""))
    scalars = [_scalar(part) for part in list(parts)[:_MAX_ITEMS]]
    return [text for text in scalars if text]


def _scalar(value: object) -> str | None:
    if isinstance(value, (str, int, float, datetime.date)):
        return str(value)[:_MAX_VALUE_CHARS].strip()
    return None


_END = r"0*([1-9]\d{0,8})(?:\.\d{1,2})?/?\Z"
_DIGITS = re.compile(rf"(?:https?://\S*pubmed\S*/)?(?:pmid|pubmed)?[:\s]*{_END}", re.IGNORECASE)
_PMCID = re.compile(rf"(?:https?://\S*/(?=PMC))?(?:pmcid[:\s]*)?(?:PMC\s*)?{_END}", re.IGNORECASE)
_DOI = re.compile(r"10\.\d{4,9}/[^\s\"<>]+")
_HYPHENS = str.maketrans("\u2010\u2011\u2012\u2013\ufe63", "-----")  # as typesetters print them
_AROUND = ".,;:'’”*"
_BRACKETS = {")": "(", "]": "[", "}": "{"}


def pmid_of(told: object) -> str:
    """The digits of a PMID, "" if there are none."""
    found = _DIGITS.match(str(told).strip())
    return found[1] if found else ""


def pmcid_of(told: object) -> str:
    """A PMCID with its "PMC", which older articles leave out; "" if it is none."""
    found = _PMCID.match(str(told).strip())
    return f"PMC{found[1]}" if found else ""


def doi_of(told: object) -> str:
    """The first DOI in a text, in lower case, without the marks behind it; "" if there is none.

    A bracket stays where the DOI opens it: Elsevier's hold pairs, as in 10.1016/s0140-6736(05)1.
    """
    found = _DOI.search(unquote(str(told)).translate(_HYPHENS))
    if found is None:
        return ""
    doi = found[0]
    while doi[-1] in _AROUND or doi.count(doi[-1]) > doi.count(_BRACKETS.get(doi[-1], doi[-1])):
        doi = doi[:-1]
    return doi.lower()


_FORMS = {"pmid": pmid_of, "pmcid": pmcid_of, "doi": doi_of}


def plain_ids(metadata: Metadata) -> Metadata:
    """Return metadata with PMID, PMCID and DOI in one form; what is no such id is left out."""
    kept = {name: value for name, value in metadata.items() if name not in _FORMS}
    for name, form in _FORMS.items():
        if plain := form(metadata.get(name, "")):
            kept[name] = plain
    return kept


def xml_root(body: bytes) -> etree._Element:
    """Parse XML; raises Unparsable("broken_xml") or ("unsafe_xml") if it declares entities."""
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(body, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise Unparsable("broken_xml", str(error).splitlines()[0]) from error
    if root is None:
        raise Unparsable("broken_xml", "no root element")
    internal = root.getroottree().docinfo.internalDTD
    if internal is not None and _declares_entities(internal):
        raise Unparsable("unsafe_xml", "the document declares entities of its own")
    return root


def _declares_entities(internal: Any) -> bool:  # the stubs lack DTD.entities
    return next(iter(internal.entities()), None) is not None


def local_name(node: etree._Element) -> str:
    """Return the element's name without its namespace; "" for entity references."""
    return etree.QName(node).localname if isinstance(node.tag, str) else ""


def entity_text(node: etree._Element) -> str:
    """Return the character of an unexpanded HTML reference such as &eacute;, else ""."""
    return html5.get((node.text or "").lstrip("&"), "")
