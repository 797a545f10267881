"""What experts are shown, blinded, in one HTML file, and the ratings that come back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Literal

import numpy as np
from jinja2 import Environment

from srrag.core.html import policy, templates
from srrag.core.spec import content_id
from srrag.lab.review.figures import DIMENSIONS, GUIDE, KEYS, Rating, off_scale
from srrag.storage.atomic_write import read_json

Row = Mapping[str, Any]
Shown = Literal["cited", "all"]

_FIRST_HEADING = re.compile(r"\A#{1,6}[ \t]+[^\n]*\n")
_HEADING_MARK = re.compile(r"^#{1,6}[ \t]+", re.MULTILINE)
_EMPHASIS = re.compile(r"(?<![\w*])(\*\*|__|\*)(?=\S)([^\n*_]+?)(?<=\S)\1(?![\w*])")


@dataclass(frozen=True, kw_only=True)
class Item:
    """One answer to rate. `query_id`, `system` and `stratum` stand in the key alone."""

    item: str
    query_id: str
    system: str
    stratum: str
    question: str
    reference: str
    answer: str
    state: str
    evidence: tuple[Row, ...]
    """Rows of EVIDENCE with their `number` in the answer and whether they are `cited`."""
    hidden: int
    """How many pieces of evidence the answer had, but are not shown."""


@dataclass(frozen=True, kw_only=True)
class Kit:
    """The items of one review; `sample` tells sheets of this one from those of another."""

    items: tuple[Item, ...]

    @property
    def sample(self) -> str:
        """The hash of the items."""
        shown = (
            part
            for each in self.items
            for part in (each.item, each.query_id, each.system, each.reference, each.answer)
        )
        return content_id(*shown)[:16]

    @property
    def systems(self) -> tuple[str, ...]:
        """Names of the systems, in order."""
        return tuple(sorted({each.system for each in self.items}))

    def questions(self) -> list[list[Item]]:
        """The items of each question."""
        found: dict[str, list[Item]] = {}
        for each in self.items:
            found.setdefault(each.query_id, []).append(each)
        return list(found.values())

    def key(self) -> dict[str, Any]:
        """Return the key that resolves the codes; raters must not see it."""
        return {
            "sample": self.sample,
            "items": {
                each.item: {
                    "query_id": each.query_id, "system": each.system, "stratum": each.stratum
                }
                for each in self.items
            },
        }  # fmt: skip


def make_kit(
    systems: Mapping[str, Sequence[Row]],
    gold: Sequence[Row],
    *,
    questions: int = 20,
    strata: str | None = None,
    shown: Shown = "cited",
    seed: int = 0,
) -> Kit:
    """Draw questions that every system answered, and put their answers in random order.

    `systems` holds rows of ANSWERS by the system's name, `gold` rows with query_id, `text` and
    `ideal_answer`; both may carry the key `strata` that the sample is balanced by. Raises
    ValueError if fewer questions have answers, or none has the strata.
    """
    if shown not in ("cited", "all"):
        raise ValueError(f"evidence={shown}: there are cited and all")
    known = {row["query_id"]: row for row in gold}
    answers = {name: {row["query_id"]: row for row in rows} for name, rows in systems.items()}
    shared = [
        row["query_id"]
        for row in next(iter(systems.values()))
        if all(_answered(each.get(row["query_id"])) for each in answers.values())
        and (not gold or row["query_id"] in known)
    ]
    first = next(iter(answers.values()))
    grouped = {name: _stratum(strata, known.get(name), first[name]) for name in shared}
    if strata and not any(grouped.values()):
        raise ValueError(f"strata={strata}: neither answers nor gold have a value of it")
    generator = np.random.default_rng(seed)
    drawn = draw(grouped, questions, generator)
    items = []
    for number, name in enumerate(drawn, start=1):
        order = generator.permutation(len(systems))
        names = [list(systems)[place] for place in order]
        for letter, system in zip(ascii_uppercase, names, strict=False):
            code = f"Q{number:02d}" + (f"-{letter}" if len(systems) > 1 else "")
            row, reference = answers[system][name], known.get(name, {})
            items.append(_item(code, system, grouped[name], row, reference, shown))
    return Kit(items=tuple(items))


def draw(strata: Mapping[str, str], count: int, generator: np.random.Generator) -> list[str]:
    """Names in random order, from each stratum in proportion to its size.

    Places left over by rounding down go to the largest remainders. Raises ValueError if there
    are fewer names than `count`, or none is asked for.
    """
    if count < 1:
        raise ValueError(f"questions={count}: at least one is needed")
    if count > len(strata):
        raise ValueError(
            f"questions={count}: only {len(strata)} questions have an answer by every system"
        )
    members: dict[str, list[str]] = {}
    for name, stratum in strata.items():
        members.setdefault(stratum, []).append(name)
    shares = {name: count * len(each) / len(strata) for name, each in sorted(members.items())}
    places = {name: int(share) for name, share in shares.items()}
    left = count - sum(places.values())
    for name in sorted(shares, key=lambda name: (places[name] - shares[name], name))[:left]:
        places[name] += 1
    drawn = [
        members[name][place]
        for name, size in places.items()
        for place in generator.permutation(len(members[name]))[:size]
    ]
    return [drawn[place] for place in generator.permutation(len(drawn))]


def _answered(row: Row | None) -> bool:
    return row is not None and row["reject"] is None and bool(row["answer"].strip())


def _stratum(strata: str | None, gold: Row | None, answer: Row) -> str:
    if not strata:
        return ""
    return str((gold or {}).get("strata", {}).get(strata) or answer.get(strata) or "")


def _item(code: str, system: str, stratum: str, row: Row, gold: Row, shown: Shown) -> Item:
    cited = {name for sentence in row["sentences"] for name in sentence["evidence_ids"]}
    evidence = [
        {**piece, "number": number, "cited": piece["evidence_id"] in cited}
        for number, piece in enumerate(row["evidence"], start=1)
    ]
    kept = tuple(piece for piece in evidence if shown == "all" or piece["cited"])
    return Item(
        item=code,
        query_id=row["query_id"],
        system=system,
        stratum=stratum,
        question=row["text"] or gold.get("text", ""),
        reference=gold.get("ideal_answer", ""),
        answer=row["answer"].strip(),
        state=row["state"],
        evidence=kept,
        hidden=len(evidence) - len(kept),
    )


def passage(piece: Row) -> str:
    """The text of a row of EVIDENCE without Markdown; its first heading is shown as its section."""
    text = _HEADING_MARK.sub("", _FIRST_HEADING.sub("", piece["text"]))
    return _EMPHASIS.sub(r"\2", text).replace("`", "").strip()


LAYOUT = 1
"""Of the JSON that the page saves and `read_json_sheet` reads."""

_ASSETS = Path(__file__).parent / "sheet"
_MARKER = re.compile(r"\[(\d+(?:\s*,\s*\d+)*)\]")


@dataclass(frozen=True)
class Piece:
    """A stretch of an answer; `number` is set where it is a citation of shown evidence."""

    text: str
    number: int | None = None


def write_page(kit: Kit, path: Path) -> None:
    """Write the page."""
    path.write_text(render(kit), "utf-8")


def render(kit: Kit) -> str:
    """The page. Texts are escaped, and no script but its own runs; it asks the network nothing."""
    script, style = ((_ASSETS / name).read_text("utf-8") for name in ("sheet.js", "sheet.css"))
    return _environment().get_template("sheet.html").render(
        kit=kit,
        guide=GUIDE,
        dimensions=DIMENSIONS,
        policy=policy(script, style),
        # The package's own script, not text of a document: a script element must not be escaped.
        script=script,
        style=style,
        rules=_rules(kit),
        blinded=len(kit.systems) > 1,
    )  # fmt: skip


def paragraphs(item: Item) -> list[list[Piece]]:
    """The paragraphs of an answer, with its citations apart from the text."""
    shown = {piece["number"] for piece in item.evidence}
    return [list(_pieces(text, shown)) for text in item.answer.split("\n") if text.strip()]


def _pieces(text: str, shown: set[Any]) -> Iterator[Piece]:
    end = 0
    for marker in _MARKER.finditer(text):
        numbers = [int(number) for number in marker[1].split(",")]
        if not shown.issuperset(numbers):
            continue
        yield Piece(text[end : marker.start()])
        for number in numbers:
            yield Piece(f"[{number}]", number)
        end = marker.end()
    yield Piece(text[end:])


def _rules(kit: Kit) -> str:
    """Return the settings of the page's script as JSON for an attribute."""
    return json.dumps(
        {
            "layout": LAYOUT,
            "sample": kit.sample,
        }
    )


@cache
def _environment() -> Environment:
    found = templates(_ASSETS)
    found.globals |= {"paragraphs": paragraphs, "passage": passage}
    return found


@dataclass(frozen=True)
class Sheet:
    """A filled sheet before it is checked; `rows` have their place in the file."""

    path: Path
    rater: str
    sample: str
    rows: Sequence[tuple[str, Mapping[str, Any]]]


def read_sheets(paths: Iterable[Path], sample: str, items: Iterable[str]) -> list[Rating]:
    """Read the sheets of one sample; items that a rater left out have only empty ratings.

    Raises ValueError that names file, row and column: an item that the sample lacks, a rating off
    its scale, the same rater twice on one item, a sheet without a rating or of another sample.
    """
    known = tuple(items)
    ratings: list[Rating] = []
    first: dict[tuple[str, str], str] = {}
    for path in paths:
        sheet = _read(path)
        _check_sheet(sheet, sample)
        found = [_rating(sheet, place, row, known) for place, row in sheet.rows]
        if not any(value is not None for each in found for value in each.values.values()):
            raise ValueError(f"{path}: no item is rated")
        left = [name for name in known if name not in {each.item for each in found}]
        blank = dict.fromkeys(KEYS)
        found += [Rating(sheet.rater, name, blank, "", str(path)) for name in left]
        for each in found:
            key = (each.rater.casefold(), each.item)
            if key in first:
                raise ValueError(
                    f"{each.place}, column 'item': rater {each.rater!r} rated {each.item} already "
                    f"in {first[key]}"
                )
            first[key] = each.place
        ratings += found
    return ratings


def sheet_files(given: Sequence[Path]) -> list[Path]:
    """List the files, and the .json files of folders; ValueError names any other path."""
    found: list[Path] = []
    for path in given:
        if not path.exists():
            raise ValueError(f"import={path} does not exist")
        inside = sorted(path.glob("*.json")) if path.is_dir() else []
        if path.is_dir() and not inside:
            raise ValueError(f"import={path}: the folder holds no .json file")
        found += inside or [path]
    return found


def _read(path: Path) -> Sheet:
    content = read_json(path)
    if not isinstance(content, dict) or content.get("kind") != "srrag review":
        raise ValueError(f"{path}: not a filled review sheet")
    if content.get("layout") != LAYOUT:
        raise ValueError(f"{path}: layout {content.get('layout')!r}; this version reads {LAYOUT}")
    rows = content.get("ratings")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path}: 'ratings' is not a list of ratings")
    head = {key: str(content.get(key) or "") for key in ("rater", "sample")}
    named = [(f"{path}: row {number}", row) for number, row in enumerate(rows, start=1)]
    return Sheet(path, **head, rows=named)


def _check_sheet(sheet: Sheet, sample: str) -> None:
    if sheet.sample != sample:
        raise ValueError(
            f"{sheet.path}: a sheet of sample {sheet.sample!r}; the key's is {sample!r}"
        )
    if not sheet.rater.strip():
        raise ValueError(f"{sheet.path}: the rater's name is missing")


def _rating(sheet: Sheet, place: str, row: Mapping[str, Any], known: Sequence[str]) -> Rating:
    item = row.get("item")
    if item not in known:
        raise ValueError(f"{place}, column 'item': {item!r} is not in this sample")
    values = {key: _value(row.get(key), f"{place}, column {key!r}") for key in KEYS}
    if fault := off_scale(values):
        raise ValueError(f"{place}, column {fault[0]!r}: {fault[1]}")
    comment = row.get("comment")
    return Rating(sheet.rater.strip(), str(item), values, str(comment or "").strip(), place)


def _value(value: Any, place: str) -> int | None:
    """A rating as a whole number."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise ValueError(f"{place}: {value!r} is not a whole number")
    return value
