"""`python -m perf.pdf_pairs FOLDER`: PDF files against the JATS of the same paper beside them.

Of the 6-grams within paragraphs of the XML's abstract and body (letters alone; no references,
captions, tables, lists) it counts those that stand within a paragraph of the PDF's text. Prints
the mean over papers with its bootstrap interval, the papers that keep .97, right title, year, DOI.
"""

from __future__ import annotations

import difflib
import re
import sys
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from lxml import etree

from srrag.corpus.clean import tidy_document, tidy_inline
from srrag.corpus.paper_ids import doi_of
from srrag.corpus.parse_jats import parse_jats
from srrag.corpus.parse_pdf import parse_pdf
from srrag.corpus.safe_xml import local_name, xml_root

SIDE = frozenset(
    [
        "table-wrap",
        "fig",
        "fig-group",
        "table-wrap-group",
        "boxed-text",
        "disp-formula",
        "supplementary-material",
        "tex-math",
        "inline-formula",
        "list",
        "def-list",
        "fn",
        "graphic",
        "media",
        "ref-list",
        "code",
        "disp-quote",
        "math",
    ]
)
FEWEST_WORDS = 800


def words(text: str) -> list[str]:
    """Words of letters; a hyphen within a word joins it, as a line's end may."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("\u00ad", "")
    return re.findall(r"[^\W\d_]+", re.sub(r"(?<=\w)[-\u2010-\u2015](?=\w)", "", plain))


def grams(paragraphs: list[str]) -> list[tuple[str, ...]]:
    """The 6-grams within each paragraph."""
    lists = [words(each) for each in paragraphs]
    return [tuple(each[i : i + 6]) for each in lists for i in range(len(each) - 5)]


def running(node: etree._Element) -> Iterator[str]:
    """The text of a paragraph; form feeds where something stands in it, no citation numbers."""
    yield node.text or ""
    for child in node:
        name = local_name(child)
        said = "".join(map(str, child.itertext()))
        if name in SIDE:
            yield "\f"
        elif not (name == "xref" and child.get("ref-type") == "bibr") or re.search(
            r"[^\W\d_]{2}", said
        ):
            yield from running(child)
        yield child.tail or ""


def paragraphs(body: bytes) -> list[str]:
    """The paragraphs of abstract and body."""
    root = xml_root(body)
    parts = [*root.iterfind(".//{*}front/{*}article-meta/{*}abstract"), *root.iterfind("./{*}body")]
    found = []
    for part in parts:
        for node in part.iter("{*}p"):
            above = {local_name(each) for each in node.iterancestors()}
            if not part.get("abstract-type") and not above & (SIDE | {"p"}):
                text = re.sub(r"[\[(][\s,;\u2013-]*[\])]", " ", "".join(running(node)))
                found += text.split("\f")
    return found


def main(folder: Path) -> None:
    """Measure every pair of a folder."""
    shares, right, seconds = [], [0, 0, 0], []
    for pdf in sorted(folder.glob("*.pdf")):
        body = pdf.with_suffix(".xml").read_bytes()
        wanted = paragraphs(body)
        if sum(len(words(each)) for each in wanted) < FEWEST_WORDS:
            continue
        start = time.perf_counter()
        parsed, told = parse_pdf(pdf.read_bytes()), parse_jats(body)
        seconds.append(time.perf_counter() - start)
        have = set(grams(re.split(r"\n\s*\n", tidy_document(parsed.text))))
        needed = grams(wanted)
        shares.append(sum(each in have for each in needed) / len(needed))
        titles = ["".join(words(each)) for each in (told.title, tidy_inline(parsed.title))]
        right[0] += difflib.SequenceMatcher(None, *titles).ratio() > 0.9
        right[1] += parsed.metadata.get("year") == told.metadata.get("year")
        right[2] += parsed.metadata.get("doi") == doi_of(told.metadata.get("doi", ""))
        print(f"{pdf.stem} {shares[-1]:.3f} {seconds[-1]:.1f} s", flush=True)
    drawn = np.random.default_rng(0).choice(shares, (10_000, len(shares))).mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    kept = sum(each >= 0.97 for each in shares)
    print(f"{np.mean(shares):.4f} [{low:.4f}, {high:.4f}] of {len(shares)}; .97 kept by {kept}; ")
    print(f"right title, year, DOI: {right}; median seconds {np.median(seconds):.1f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
