"""Read a book in CNXML: a collection file and its modules, as OpenStax publishes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lxml import etree

from srrag.core.spec import place_field
from srrag.corpus.parse_cnxml import DROPPED, count_numbered, title_of
from srrag.corpus.parsed import Unparsable
from srrag.corpus.record import RawRecord, refusal, resolve, unique
from srrag.corpus.safe_xml import local_name, xml_root

_FORMAT = "cnxml"


@dataclass(frozen=True)
class _Chapter:
    """Modules of a chapter in order; the number is that of the chapter in the book, from 1."""

    number: int
    title: str
    modules: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ReadCnxml:
    """One document for each module of a collection (`collections/NAME.collection.xml`).

    A chapter is a subcollection that holds modules itself, numbered through the book. Modules lie
    in `modules/ID/index.cnxml` beside the folder of the collection. `drop` lists classes or titles
    of sections that are left out, so that no question about the text is indexed. A module that is
    missing or broken becomes a refusal; modules outside chapters (a preface) are left out.
    """

    path: str = place_field()
    title: str = place_field("field")
    drop: tuple[str, ...] = DROPPED
    modules: str = place_field("")
    """Folder of the modules; "" for `../modules`."""
    max_file_bytes: int = 50_000_000

    def __post_init__(self) -> None:
        """Raise ValueError if `drop` is one text instead of a list."""
        if isinstance(self.drop, str):
            raise ValueError("drop: a list of classes is wanted, as in drop: [review]")

    def scan(self) -> Iterator[RawRecord]:
        """Read the collection now, then yield a record for each module."""
        found = resolve(self.path)
        if found.is_dir():
            listed = sorted(found.glob("*.collection.xml"))
            if len(listed) != 1:
                raise ValueError(f"{self.path}: {len(listed)} collections; name the one to read")
            found = listed[0]
        try:
            root = xml_root(found.read_bytes())
        except (Unparsable, OSError) as error:
            raise ValueError(f"{self.path}: {error}") from error
        chapters = list(_chapters(root))
        if not chapters:
            raise ValueError(f"{self.path}: the collection has no chapter (subcollection)")
        folder = resolve(self.modules) if self.modules else found.parent.parent / "modules"
        return unique(self._records(title_of(root), found.name.split(".")[0], chapters, folder))

    def _records(
        self, book: str, slug: str, chapters: list[_Chapter], folder: Path
    ) -> Iterator[RawRecord]:
        for chapter in chapters:
            before = {"figure": 0, "table": 0}
            order = 0
            for module in chapter.modules:
                name = f"{module}/index.cnxml"
                path = folder / module / "index.cnxml"
                try:
                    if path.stat().st_size > self.max_file_bytes:
                        detail = f"{name}: the cap is {self.max_file_bytes} bytes"
                        yield refusal(name, _FORMAT, "too_large", detail)
                        continue
                    text = path.read_bytes().decode("utf-8", "replace")
                    root = xml_root(text.encode())
                except OSError as error:
                    yield refusal(name, _FORMAT, "unreadable", f"{name}: {error.strerror}")
                    continue
                except Unparsable as error:
                    yield refusal(name, _FORMAT, error.reason, f"{name}: {error.detail}")
                    continue
                opening = "introduction" in (root.get("class") or "").split()
                order += 0 if opening else 1
                title = title_of(root)
                numbered = (
                    f"{chapter.number} {chapter.title}: {title}"
                    if opening
                    else f"{chapter.number}.{order} {title}"
                )
                body = {
                    "cnxml": text,
                    "title": numbered,
                    "book": book,
                    "chapter": str(chapter.number),
                    "chapter_title": chapter.title,
                    "order": str(0 if opening else order),
                    "numbered_before": before,
                    "drop": list(self.drop),
                }
                source_id = f"{slug}-{chapter.number:02d}-{0 if opening else order:02d}"
                packed = json.dumps(body, sort_keys=True).encode("ascii")
                yield RawRecord(name, source_id, _FORMAT, packed)
                counted = count_numbered(root)
                before = {kind: before[kind] + counted[kind] for kind in before}


def _chapters(root: etree._Element) -> Iterator[_Chapter]:
    number = 0
    for node in root.iter("{*}subcollection"):
        content = node.find("./{*}content")
        held = [] if content is None else [each for each in content if local_name(each) == "module"]
        if held:
            number += 1
            modules = tuple(str(each.get("document") or "") for each in held)
            yield _Chapter(number, title_of(node), modules)
