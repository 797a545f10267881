"""One form of PMID, PMCID and DOI, whatever a file, a notice or a list writes.

PMIDs are digits, PMCIDs begin with "PMC", also out of links to PubMed and PMC; DOIs are in lower
case without "doi:", resolver, escapes of links or what stands around them in a sentence. DOIs are
compared without case (DOI Handbook, section 2.4).
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from srrag.corpus.parsed import Metadata

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
