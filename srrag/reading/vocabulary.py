"""A medical vocabulary of the user's: names, their types, and the longest match of them in a text.

Written for the tables of MeSH headings, MeSH tree numbers and synonyms of the Disease Ontology;
`desc*.xml` of MeSH adds its entry terms.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from srrag.core.spec import content_id, file_sha256

TERMS, TREE, SYNONYMS = "terms.tsv", "tree_numbers.tsv", "disease_synonyms.tsv"
MAX_WORDS = 8
"""Words of the longest name that is looked for."""

_TOKEN = re.compile(r"[^\W_]+")
_BRACKETS = re.compile(r"\s*[\[(][^\[\]()]*[\])]")
# A heading has the type of the first prefix of its tree number.
_TYPES = (
    ("C23.888", "Symptom"), ("C", "Disease"), ("F03", "Disease"), ("D", "Drug"),
    ("B", "Pathogen"), ("E01", "Medical Test"), ("E04", "Surgery"), ("E02", "Treatment"),
    ("E03", "Treatment"), ("F01.145", "Life Habits"), ("I03", "Life Habits"),
    ("G11.427.410.698.277", "Life Habits"),
)  # fmt: skip
OTHER = "Other"
_SPELLINGS = (("aemi", "emi"), ("oedem", "edem"), ("oestr", "estr"), ("tumour", "tumor"),
              ("haem", "hem"), ("paed", "ped"), ("diarrhoe", "diarrhe"), ("leuka", "leuke"),
              ("orrhoe", "orrhe"), ("ischaem", "ischem"))  # fmt: skip
# Words that stand for one another in names: the organ's adjective for the organ, and the like.
_SAME = {
    "hepatic": "liver", "pulmonary": "lung", "gastric": "stomach", "renal": "kidney",
    "cardiac": "heart", "prostatic": "prostate", "colonic": "colon", "rectal": "rectum",
    "cutaneous": "skin", "pancreatic": "pancreas", "ovarian": "ovary", "uterine": "uterus",
    "esophageal": "esophagus", "oesophageal": "esophagus", "intestinal": "intestine",
    "cancer": "neoplasm", "tumor": "neoplasm", "malignancy": "neoplasm",
    "metastases": "metastasis", "metastatic": "metastasis", "diabetic": "diabetes",
    "trauma": "injury", "disorder": "disease", "lymph": "lymphatic", "node": "",
    "recurrent": "recurrence", "invasion": "invasiveness", "children": "child",
}  # fmt: skip
_SKIPPED = frozenset(["", "of", "the", "a", "an", "and", "in", "mellitus", "urinary"])
# Headings whose name is an everyday word in papers, so that a match has no meaning.
_PLAIN = frozenset(
    """
    disease syndrome patient therapeutics association role risk death other work time lead plan
    water light play family face hand head food research publication methods human humans
    population goal attention solution solutions elements gold recurrence sign symptom signs
    symptoms diagnosis prognosis therapy treatment drug child adult male female women men
    neoplasm pharmaceutical preparation united states animal animals mice rats cohort studies
    """.split()  # noqa: SIM905 (a list of 60 literals hides the words)
)


_ORDERED = frozenset((
    "high", "low", "more", "less", "left", "right", "upper", "lower", "pre", "post", "to", "versus",
))  # fmt: skip
"""Words whose position in a name distinguishes meanings."""


class Term(NamedTuple):
    """An entity of the vocabulary: its heading, type and id."""

    name: str
    type: str
    mesh: str


class TermMatch(NamedTuple):
    """A term in a text, from `start` to `end` (characters)."""

    term: Term
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Names and synonyms in a folder; its content is its identity, not its path.

    The folder holds `terms.tsv` (mesh_id, mesh_name), `tree_numbers.tsv` (mesh_id,
    mesh_tree_number), and if wanted `disease_synonyms.tsv` (doid, name, type) and `desc*.xml` of
    MeSH. Without a folder there is no name in it.
    """

    folder: str | None = field(default=None, compare=False, metadata={"identity": False})
    synonyms: bool = True
    """Whether to read synonyms, too."""
    revision: str | None = None
    """Hash of the files; read from the folder by default."""

    def __post_init__(self) -> None:
        """Hash the folder's files; raises ValueError that names a missing one."""
        if self.folder and self.revision is None:
            object.__setattr__(self, "revision", content_id(*self._hashes()))

    def _hashes(self) -> Iterator[str]:
        for path in self._files():
            yield path.name
            yield file_sha256(path)

    def _files(self) -> list[Path]:
        folder = Path(str(self.folder)).expanduser()
        for name in (TERMS, TREE):
            if not (folder / name).is_file():
                raise ValueError(f"mesh={self.folder}: there is no file {name}")
        more = [folder / SYNONYMS, *sorted(folder.glob("desc*.xml"))] if self.synonyms else []
        return [folder / TERMS, folder / TREE, *(path for path in more if path.is_file())]

    def open(self) -> Matcher:
        """Read the names, once in a process.

        Raises ValueError that names a damaged file, an unknown folder, or one whose files are not
        those of `revision`.
        """
        if self.revision is None:
            return Matcher({})
        if not self.folder:
            raise ValueError(f"mesh=: where the vocabulary {self.revision[:12]} lies is not known")
        return _opened(self)


class Matcher:
    """Finds terms in texts: at each place the longest name, in one pass.

    `names` maps normalised names (`key`) to their terms.
    """

    def __init__(self, names: dict[str, Term]) -> None:
        self.names = names
        self._longest: dict[str, int] = {}
        for words in (name.split(" ") for name in names):
            for word in words:
                self._longest[word] = max(self._longest.get(word, 0), len(words))

    def find(self, text: str) -> list[TermMatch]:
        """The terms of a text in order, without overlaps."""
        words = ((normal(each[0]), each.start(), each.end()) for each in _TOKEN.finditer(text))
        tokens = [each for each in words if each[0] not in _SKIPPED]
        found, place = [], 0
        while place < len(tokens):
            size, term = self._at(tokens, place)
            if term is None:
                place += 1
                continue
            found.append(TermMatch(term, tokens[place][1], tokens[place + size - 1][2]))
            place += size
        return found

    def _at(self, tokens: Sequence[tuple[str, int, int]], place: int) -> tuple[int, Term | None]:
        most = min(self._longest.get(tokens[place][0], 0), len(tokens) - place)
        for size in range(most, 0, -1):
            words = " ".join(sorted(word for word, _, _ in tokens[place : place + size]))
            if (term := self.names.get(words)) is not None:
                return size, term
        return 0, None


@lru_cache(maxsize=1 << 16)
def normal(word: str) -> str:
    """A word in lower case, in American spelling and the singular."""
    low = word.lower()
    if len(word) <= 3 or (word.isupper() and len(word) <= 5):
        return low
    for british, american in _SPELLINGS:
        low = low.replace(british, american)
    if low.endswith("ies") and len(low) > 4:
        return low[:-3] + "y"
    if low.endswith("s") and not low.endswith(("ss", "us", "is")):
        low = low[:-1]
    return _SAME.get(low, low)


def tokens_of(text: str) -> list[str]:
    """The words of a text, normalised, without articles and the like."""
    words = (normal(word) for word in _TOKEN.findall(text))
    return [word for word in words if word not in _SKIPPED]


def stems(word: str) -> list[str]:
    """Patterns of how the words begin that `normal` turns into this one, and of few others."""
    words = [word, *(each for each, same in _SAME.items() if same == word)]
    return [re.escape(each[:4].rstrip("y")).replace("e", "[ao]?e") for each in words]


def key(name: str) -> str:
    """The lookup key of a name: its words, normalised and sorted, so that order is free."""
    return " ".join(sorted(tokens_of(name)))


def name_key(name: str) -> str:
    """The words of a name, normalised; in any order, unless it tells high from low and the like."""
    words = key(name)
    return " ".join(tokens_of(name)) if _ORDERED & set(words.split(" ")) else words


def type_of(numbers: Sequence[str]) -> str:
    """The type of a heading by its tree numbers: that of the first prefix in the table."""
    for prefix, kind in _TYPES:
        if any(number.startswith(prefix) for number in numbers):
            return kind
    return OTHER


@lru_cache(maxsize=4)
def _opened(vocabulary: Vocabulary) -> Matcher:
    if content_id(*vocabulary._hashes()) != vocabulary.revision:
        raise ValueError(
            f"mesh={vocabulary.folder}: its files have changed; start the command anew"
        )
    path = Path(str(vocabulary.folder)).expanduser()
    terms, names = _headings(path)
    if vocabulary.synonyms:
        for xml in sorted(path.glob("desc*.xml")):
            for mesh, entry in _entry_terms(xml):
                if mesh in terms:
                    names.setdefault(key(entry), terms[mesh])
        if (path / SYNONYMS).is_file():
            _add_synonyms(_groups(path / SYNONYMS), names)
    usable = {name: term for name, term in names.items() if _usable(name)}
    return Matcher(usable)


def _usable(name: str) -> bool:
    return name not in _PLAIN and len(name) > 2 and 0 < len(name.split(" ")) <= MAX_WORDS


def _headings(folder: Path) -> tuple[dict[str, Term], dict[str, Term]]:
    """The headings by id, and by the names they go by; a name as printed wins."""
    numbers: dict[str, list[str]] = {}
    for mesh, number in _table(folder / TREE, 2):
        numbers.setdefault(mesh, []).append(number)
    rows = [(mesh, name) for mesh, name in _table(folder / TERMS, 2)]
    terms = {mesh: Term(name, type_of(numbers.get(mesh, ())), mesh) for mesh, name in rows}
    names: dict[str, Term] = {}
    for rank in (0, 1):
        for mesh, name in rows:
            for variant in _variants(name, rank):
                names.setdefault(key(variant), terms[mesh])
    return terms, names


def _variants(name: str, rank: int) -> list[str]:
    """Ways to write a heading: as printed (rank 0), without brackets (1)."""
    return [name if rank == 0 else _BRACKETS.sub("", name)]


def _groups(path: Path) -> list[list[str]]:
    """The names and exact synonyms of each disease."""
    groups: dict[str, list[str]] = {}
    for doid, name, kind in _table(path, 3):
        if kind in ("name", "exact-synonym"):
            groups.setdefault(doid, []).append(_BRACKETS.sub("", name))
    return list(groups.values())


def _add_synonyms(groups: Iterable[Sequence[str]], names: dict[str, Term]) -> None:
    """Give the synonyms of a disease the heading that one of them has.

    A disease without a heading is left out: its name would hide the headings within it.
    """
    for group in groups:
        known = (names.get(key(name)) for name in group)
        term = next((each for each in known if each and each.type in ("Disease", "Symptom")), None)
        if term is not None:
            for name in group:
                names.setdefault(key(name), term)


def _table(path: Path, columns: int) -> Iterator[list[str]]:
    """Yield the rows below the header of a table; raises ValueError that names a damaged row."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(rows, None)
        for number, row in enumerate(rows, start=2):
            if len(row) != columns or not all(row):
                raise ValueError(
                    f"{path}:{number}: a row has {columns} columns, none of them empty"
                )
            yield row


def _entry_terms(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (id, entry term) of each descriptor in MeSH's XML."""
    from lxml import etree

    try:
        for _, node in etree.iterparse(
            str(path), tag="DescriptorRecord", resolve_entities=False, no_network=True
        ):
            mesh = node.findtext("DescriptorUI") or ""
            for term in node.iterfind(".//Term/String"):
                if term.text:
                    yield mesh, term.text
            node.clear()
    except etree.XMLSyntaxError as error:
        raise ValueError(f"{path}: not MeSH's XML ({error})") from error
