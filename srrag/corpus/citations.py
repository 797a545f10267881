"""What searches export: RIS, MEDLINE (nbib), Web of Science, EndNote (.enw, XML), BibTeX and CSV.

Each record becomes the JSON that `parse_json` reads. The four formats of tags have one reader,
because rispy joins a record without its closing tag to the next one, which is then lost.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from srrag.corpus.inline_xml import inline_text
from srrag.corpus.parse_text import decode
from srrag.corpus.parsed import Unparsable, doi_of, local_name, pmcid_of, pmid_of, xml_root

Citation = dict[str, Any]
"""`title`, `text` (the abstract), `year`, `pmid`, `pmcid`, `doi`, `journal`, and lists.

`notices` are references as "ErratumIn 333", with the PMID of the other paper if it is given.
"""

_HEAD_BYTES = 4_000
_STARTS = {
    "ris": re.compile(r"(?:\d+\.\s+)?TY {0,2}- "),
    "medline": re.compile(r"(?:PMID|OWN|STAT|DCOM) ?- "),
    "wos": re.compile(r"FN [^\n]*\r?\nVR "),
    "enw": re.compile(r"%0 "),
    "bibtex": re.compile(r"(?:%[^\n]*\n\s*)*@[A-Za-z]+\s*[{(]"),
    "endnote": re.compile(r"(?:<\?xml[^>]*>\s*)?<xml>\s*<records"),
}
_SUFFIXES = {
    ".ris": "ris", ".nbib": "medline", ".ciw": "wos", ".bib": "bibtex", ".csv": "csv",
    ".tsv": "csv", ".enw": "enw",
}  # fmt: skip
_LINE = {
    "ris": re.compile(r"([A-Z][A-Z0-9]) {1,2}-(?: (.*))?$"),
    "medline": re.compile(r"([A-Z]{2,4}) {0,2}- (.*)$"),
    "wos": re.compile(r"([A-Z][A-Z0-9])(?: (.*))?$"),
    "enw": re.compile(r"%(\S)(?: (.*))?$"),
}
_WIDE = re.compile(r"^[A-Z][A-Z0-9]  -", re.MULTILINE)
_NARROW = re.compile(r"^[A-Z][A-Z0-9] -", re.MULTILINE)
_OPENS = {"ris": "TY", "medline": "PMID", "wos": "PT", "enw": "0"}
_LISTS = ("publication_types", "mesh", "keywords")
# Of each value the fields that hold it, the first present one first.
_FIELDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "ris": {
        "title": ("TI", "T1", "CT", "BT"), "text": ("AB", "N2"), "year": ("PY", "Y1", "DA"),
        "pmid": ("UR",), "doi": ("DO", "M3", "UR"), "pmcid": ("C2",),
        "journal": ("JF", "JO", "T2", "JA"), "publication_types": ("M3",), "keywords": ("KW",),
    },
    "medline": {
        "title": ("TI", "BTI"), "text": ("AB",), "year": ("DP", "DEP"), "pmid": ("PMID",),
        "doi": ("AID", "LID"), "pmcid": ("PMC",), "journal": ("JT", "TA"),
        "publication_types": ("PT",), "mesh": ("MH",), "keywords": ("OT",),
    },
    "wos": {
        "title": ("TI",), "text": ("AB",), "year": ("PY",), "pmid": ("PM",), "doi": ("DI",),
        "journal": ("SO",), "publication_types": ("DT",), "keywords": ("DE",),
    },
    "enw": {
        "title": ("T",), "text": ("X",), "year": ("D", "8"), "pmid": ("U",), "doi": ("R", "U"),
        "pmcid": ("2",), "journal": ("J", "B"), "publication_types": ("9",), "keywords": ("K",),
    },
    "bibtex": {
        "title": ("title",), "text": ("abstract",), "year": ("year", "date"), "pmid": ("pmid",),
        "pmcid": ("pmcid", "pmc"), "doi": ("doi",), "journal": ("journal", "journaltitle"),
        "publication_types": ("type",), "keywords": ("keywords",),
    },
    "csv": {
        "title": ("title", "articletitle", "documenttitle", "ti"),
        "text": ("abstract", "abstractnote", "abstracttext", "ab"),
        "year": ("year", "publicationyear", "publishedyear", "pubyear", "date", "publicationdate",
                 "py"),
        "pmid": ("pmid", "pubmedid", "medlinepmid", "pm"), "pmcid": ("pmcid", "pmcidnumber"),
        "doi": ("doi", "di"),
        "journal": ("journal", "journalbook", "sourcetitle", "publicationtitle", "so"),
        "publication_types": ("publicationtype", "publicationtypes", "documenttype", "dt"),
        "mesh": ("mesh", "meshterms"), "keywords": ("keywords", "authorkeywords", "de"),
    },
    "endnote": {
        "title": ("titles/title",), "text": ("abstract",), "year": ("dates/year",),
        "pmid": ("urls/related-urls/url",),
        "doi": ("electronic-resource-num",), "pmcid": ("custom2",),
        "journal": ("periodical/full-title", "titles/secondary-title"),
        "publication_types": ("work-type",), "keywords": ("keywords/keyword",),
    },
}  # fmt: skip
_NUMBERS = {
    "ris": ("AN", "DB", "DP"), "enw": ("M", "~", "W"),
    "endnote": ("accession-num", "remote-database-name", "remote-database-provider"),
}  # fmt: skip
"""The number of a record in a database, and the fields that name the database."""
# What a record of MEDLINE says of other papers: its tags, as the XML of PubMed calls them.
# https://pubmed.ncbi.nlm.nih.gov/help/#pubmed-format
_SAYINGS = {
    "RIN": "RetractionIn", "ROF": "RetractionOf",
    "PRIN": "PartialRetractionIn", "PROF": "PartialRetractionOf",
    "RRI": "RetractedandRepublishedIn", "RRF": "RetractedandRepublishedFrom",
    "ECI": "ExpressionOfConcernIn", "ECF": "ExpressionOfConcernFor",
    "EIN": "ErratumIn", "EFR": "ErratumFor",
    "CRI": "CorrectedandRepublishedIn", "CRF": "CorrectedandRepublishedFrom",
    "UIN": "UpdateIn", "UOF": "UpdateOf",
}  # fmt: skip
_OTHER = re.compile(r"\bPMID: ?(\d+)")
_SPLIT = re.compile(r"\s*[;|]\s*")
_INDEXED = re.compile(r"pubmed|medline|\bnlm\b", re.IGNORECASE)

Fields = Mapping[str, list[str]]


def export_format(body: bytes, suffix: str = "") -> str:
    """The format by its first lines, else by its suffix in lower case; "" for no export."""
    head = body[:_HEAD_BYTES].removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").lstrip()
    named = (name for name, start in _STARTS.items() if start.match(head))
    first = head.partition("\n")[0]
    table = "csv" if suffix == ".txt" and "\t" in first else ""
    if table and _lacking(_names(first, "\t")):
        table = ""
    return next(named, _SUFFIXES.get(suffix, table))


def read_citations(body: bytes, kind: str) -> Iterator[Citation]:
    """Yield the records of an export; raises Unparsable at the end for those it could not read.

    It also raises where there is no record.
    """
    found = False
    for fields in _every(body, kind):
        found = True
        yield _record(fields, kind)
    if not found:
        raise Unparsable("no_records", f"no record of {kind} in it")


def _every(body: bytes, kind: str) -> Iterator[Fields]:
    if kind == "endnote":
        yield from map(_of_xml, xml_root(body).iter("{*}record"))
        return
    text = decode(body)[0].replace("\r\n", "\n").replace("\r", "\n")
    readers = {"csv": _of_csv, "bibtex": _of_bibtex}
    yield from readers[kind](text) if kind in readers else _of_tags(text, kind)


def _record(fields: Fields, kind: str) -> Citation:
    """Choose the values; ids take one form here, as a DOI may be a link or carry "[doi]"."""
    made: Citation = {}
    for name, keys in _FIELDS[kind].items():
        values = [value for key in keys for value in fields.get(key, ())]
        if name in _LISTS:
            made[name] = [item for value in values for item in _SPLIT.split(value) if item]
        elif name == "text":  # some write a field for each part of it
            texts = ("\n\n".join(filter(None, fields.get(key, ()))) for key in keys)
            made[name] = next(filter(None, texts), "")
        elif form := {"doi": doi_of, "pmid": pmid_of}.get(name):
            made[name] = next(filter(None, map(form, values)), "")
        else:
            made[name] = next(iter(values), "")
    number, *bases = _NUMBERS.get(kind, ("",))
    if _INDEXED.search(" ".join(name for base in bases for name in fields.get(base, ()))):
        made["pmid"] = pmid_of(next(iter(fields.get(number, ())), "")) or made["pmid"]
    if kind == "medline":
        made["notices"] = [*_notices(fields)]
        if fields.keys() & {"RIN", "RRI"}:  # "retraction in": the notice of this paper
            made["publication_types"].append("Retracted Publication")
    made["pmcid"] = pmcid_of(made.get("pmcid", ""))
    if kind in ("ris", "endnote") and not made["pmcid"].startswith("PMC"):
        made["pmcid"] = ""
    made["mesh"] = [each.split("/")[0].strip("*") for each in made.get("mesh", ())]
    return {name: value for name, value in made.items() if value}


def _notices(fields: Fields) -> Iterator[str]:
    """Yield each reference to a notice or from one: its type, and the PMID of the other paper."""
    for tag, kind in _SAYINGS.items():
        for value in fields.get(tag, ()):
            other = _OTHER.search(value)
            yield f"{kind} {other[1]}" if other else kind


def _of_tags(text: str, kind: str) -> Iterator[Fields]:
    """Read lines of a tag and a value; what has no tag goes on with the value above it.

    Where most tags of RIS have two blanks behind them, a line with one is text: "OR - 2.3".
    """
    by_two = kind == "ris" and len(_WIDE.findall(text)) > len(_NARROW.findall(text))
    fields: dict[str, list[str]] = {}
    values: list[str] = []
    for line in text.splitlines():
        found = _LINE[kind].match(line)
        if found and by_two and line[3:4] == "-" and line.strip() != "ER -":
            found = None
        if found is None:
            if values and line.strip():
                values[-1] = f"{values[-1]} {line.strip()}".strip()
            continue
        tag = found[1]
        if tag == _OPENS[kind] and _OPENS[kind] in fields:
            yield fields
            fields = {}
        if tag == "ER":  # some programs write no type, with which a record of RIS begins
            if fields:
                yield fields
            fields, values = {}, []
            continue
        values = [] if tag == "EF" else fields.setdefault(tag, [])
        values.append((found[2] or "").strip())
    if _OPENS[kind] in fields:
        yield fields


def _of_csv(text: str) -> Iterator[Fields]:
    """Read a table by the names of its columns; the delimiter is the commonest of its head."""
    head = text.partition("\n")[0]
    delimiter = max(",\t;", key=head.count)
    rows = csv.reader(io.StringIO(text), delimiter=delimiter)
    next(rows, None)
    names = _names(head, delimiter)
    if lacking := _lacking(names):
        raise Unparsable("no_records", f"no column {lacking!r}; the columns are {head[:200]}")
    try:
        for row in rows:
            if any(row):
                pairs = zip(names, row, strict=False)
                yield {name: [value.strip()] for name, value in pairs if value.strip()}
    except csv.Error as error:  # what stands behind may be the rest of a text with commas
        detail = f"line {rows.line_num}: {error}; no row from there on is read"
        raise Unparsable("broken_csv", detail) from error


def _names(head: str, delimiter: str) -> list[str]:
    """The names of columns in lower case, letters alone."""
    names = next(csv.reader([head], delimiter=delimiter), [])
    return [re.sub(r"[^a-z]", "", name.lower()) for name in names]


def _lacking(names: Iterable[str]) -> str:
    """The column without which a table holds no records, "" if it has them."""
    needed = (_FIELDS["csv"][each] for each in ("title", "text"))
    return next((keys[0] for keys in needed if not {*keys} & {*names}), "")


def _of_bibtex(text: str) -> Iterator[Fields]:
    from bibtexparser import loads  # a question never needs it
    from bibtexparser.bparser import BibTexParser
    from bibtexparser.customization import convert_to_unicode

    parser = BibTexParser(common_strings=True, ignore_nonstandard_types=False)
    parser.customization = lambda entry: convert_to_unicode(
        {key: _without_commands(value) for key, value in entry.items()}
    )
    entries = loads(text, parser).entries
    for entry in entries:
        yield {key: [re.sub(r"[{}]", "", value)] for key, value in entry.items() if value}
    opened = len(_ENTRY.findall(text))
    if len(entries) < opened:  # the parser drops what it cannot read
        raise Unparsable("broken_bibtex", f"{len(entries)} of {opened} entries could be read")


def _without_commands(value: str) -> str:
    """Write as characters the commands of LaTeX that `convert_to_unicode` leaves or misreads."""
    value = _RAISED.sub(lambda found: f"<sup>{found[1] or found[2]}</sup>", value)
    value = _COMMAND.sub(lambda found: _SIGNS.get(found[1], found[0]), value)
    value = _MATHS.sub(r"\1", _FONT.sub("", value))
    return _LATEX_BLANK.sub(" ", value)


_SIGNS = {
    "textless": "<", "textgreater": ">", "textpm": "±", "textmu": "μ", "leq": "≤", "le": "≤",
    "leqslant": "≤", "geq": "≥", "ge": "≥", "geqslant": "≥", "neq": "≠", "times": "×",
    "textminus": "−", "textquoteleft": "‘", "textquoteright": "’", "kappa": "κ", "degree": "°",
    "textasciicircum": "^", "infty": "∞", "rightarrow": "→",
}  # fmt: skip
_COMMAND = re.compile(r"\\([A-Za-z]+)(?:\{\}| )?")
_FONT = re.compile(r"\\(?:text|math)[a-z]*\s*(?=\{[^}])|\\(?:emph|mbox)\s*(?=\{)|(?<!\\)_(?=\{)")
_RAISED = re.compile(r"\\textsuperscript\s*\{([^{}]*)\}|(?<!\\)\^\{([^{}]*)\}")
_MATHS = re.compile(r"(?<!\\)\$([^$\s]+)\$")
_LATEX_BLANK = re.compile(r"\\[,;: ]|(?<!\\)~")
_ENTRY = re.compile(r"^[ \t]*@(?!comment|string|preamble)\w+\s*[{(]", re.IGNORECASE | re.MULTILINE)


def _of_xml(record: Any) -> Fields:
    """Read a record of EndNote XML; the paths are those of `_FIELDS`."""
    paths = {path for keys in _FIELDS["endnote"].values() for path in keys}
    found: dict[str, list[str]] = {}
    for path in paths.union(_NUMBERS["endnote"]):
        for node in record.iterfind(path):
            if local_name(node) and (value := inline_text(node).strip()):
                found.setdefault(path, []).append(value)
    return found
