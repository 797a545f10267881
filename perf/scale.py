"""What PubMed and ten million full texts would take: `python -m perf.scale [ROOT]`.

ROOT is a finished build of abstracts (docs/scale.md says of which): the page's table of stages is
made anew from it. Rows and bytes are counted from receipts and folders; seconds are those that the
stages noted of themselves, in one process on one core. Two tables follow from that of stages (a
full text counts as as many abstracts as have its tokens) and from rates: those marked "measured"
come from docs/figures.md and the estimates of `srrag build estimate=true`, those marked "assumed"
are of hardware that was not at hand. Change them here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from srrag.extract.extract_documents import ExtractDocuments
from srrag.storage.atomic_write import read_json
from srrag.storage.store import Store

PAGE = Path("docs/scale.md")
# Measured: tokens as `engine.tokenizer=utf8` counts them, a token every four bytes.
PROMPT_FIXED = 1220
"""Tokens of an extraction prompt beside the text: instructions, schema, title and numbers."""
BLOCK_TOKENS = ExtractDocuments.block_tokens
"""The most tokens of text in a call."""
PART_DOCUMENTS, STEP_STAGES = 500, 8
LISTED_PER_S = 400_000
"""Files of a folder listed a CPU second."""
RECEIPTS_PER_S = 16_800
HOST_S_PER_CALL = 0.0006
"""Of the process through which all calls of a run go."""
JOURNAL_S_PER_CALL = 46e-6

# Assumed: an A100-80G with a model of 8B, and with MiniLM.
PREFILL_PER_S, DECODE_PER_S = 15_000, 2_500
WINDOWS_PER_GPU_S = 5_000
USD_PER_GPU_HOUR = 2.0


ABSTRACT_TOKENS = 470
"""Tokens of the text of one of the abstracts that the stages were measured on."""
CORPORA = "<!-- corpora -->", "<!-- end of corpora -->"
NODES = "<!-- nodes -->", "<!-- end of nodes -->"
ABSTRACTS = 38_000_000
"""Of PubMed."""
MARKS = "<!-- stages -->", "<!-- end of stages -->"


@dataclass(frozen=True)
class StageCost:
    """What a stage made: rows (0 where it counts none), bytes on disk, seconds."""

    name: str
    rows: int
    bytes: int
    seconds: float


def measured(root: Path, build: str = "default") -> tuple[int, list[StageCost]]:
    """The documents of a build, and the cost of each stage."""
    store = Store(root)
    costs, documents, known = [], 0, set[int]()
    for name, entry in store.read_pointer(build)["stages"].items():
        folder = store.stage_dir(name, entry["fingerprint"])
        states = [file.stat() for file in folder.rglob("*") if file.is_file()]
        size = sum(state.st_size for state in states if state.st_ino not in known)
        known.update(state.st_ino for state in states)  # a link is no new byte
        if "parts" in entry:
            receipts = store.receipts(name, entry["fingerprint"], entry["parts"])
            rows = sum(receipt.rows_out - receipt.rejected for receipt in receipts)
            seconds = sum(receipt.seconds for receipt in receipts)
            documents = rows if name == "documents" else documents
        else:
            rows, seconds = 0, read_json(folder / "manifest.json")["seconds"]
        costs.append(StageCost(name, rows, size, seconds))
    return documents, costs


def stage_table(documents: int, costs: list[StageCost]) -> str:
    """Markdown: a row a stage, for 1,000 documents and for PubMed."""
    lines = [
        "| stage | rows | MB | s | PubMed: rows | TB | CPU hours |",
        "|---|---|---|---|---|---|---|",
    ]
    whole = StageCost("all", 0, sum(c.bytes for c in costs), sum(c.seconds for c in costs))
    for cost in (*costs, whole):
        thousand, more = documents / 1000, ABSTRACTS / documents
        rows = f"{cost.rows / thousand:,.0f}" if cost.rows else ""
        many = f"{cost.rows * more / 1e6:,.0f} M" if cost.rows else ""
        lines.append(
            f"| {cost.name} | {rows} | {cost.bytes / thousand / 1e6:.2f} "
            f"| {cost.seconds / thousand:.2f} | {many} | {cost.bytes * more / 1e12:.3f} "
            f"| {cost.seconds * more / 3600:,.1f} |"
        )
    return "\n".join(lines)


def read_table(text: str) -> dict[str, StageCost]:
    """What a thousand documents make and take by stage, from a page that holds the table."""
    found = {}
    for line in text.partition(MARKS[0])[2].partition(MARKS[1])[0].splitlines():
        name, *cells = (cell.strip().replace(",", "") for cell in line.strip("| ").split("|"))
        if len(cells) == 6 and re.fullmatch(r"[\d.]+", cells[1]):
            rows, size, seconds = (float(cell or 0) for cell in cells[:3])
            found[name] = StageCost(name, int(rows), round(size * 1e6), seconds)
    return found


def replaced(text: str, marks: tuple[str, str], told: str) -> str:
    """A page with this text between two marks; raises ValueError if it lacks them."""
    before, begin, rest = text.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        raise ValueError(f"the page has no {' … '.join(marks)}")
    return f"{before}{begin}\n{told}\n{end}{after}"


@dataclass(frozen=True)
class Corpus:
    """A corpus: the number of documents, their tokens, and those a model writes a token of text."""

    name: str
    documents: float
    tokens: float
    out_per_in: float

    def rows(self, stages: Mapping[str, StageCost]) -> dict[str, str]:
        """What each stage makes and takes, if a thousand abstracts make and take `stages`."""
        text = self.documents * self.tokens
        calls = self.documents * max(1.0, self.tokens / BLOCK_TOKENS)
        out = text * self.out_per_in
        prefill = (text + PROMPT_FIXED) / PREFILL_PER_S / 3600
        uncached = (text + calls * PROMPT_FIXED) / PREFILL_PER_S / 3600
        decode = out / DECODE_PER_S / 3600
        parts = self.documents / PART_DOCUMENTS
        thousands = self.documents * self.tokens / ABSTRACT_TOKENS / 1000
        made = {name: thousands * cost.rows for name, cost in stages.items()}
        hours = {name: thousands * cost.seconds / 3600 for name, cost in stages.items()}
        held = {name: thousands * cost.bytes / 1e12 for name, cost in stages.items()}
        return {
            "documents": big(self.documents),
            "parts of a stage": big(parts),
            "tokens of text": big(text),
            "extraction calls": big(calls),
            "tokens out": big(out),
            "GPU hours, reading (prefix cached)": f"{prefill:,.0f}",
            "GPU hours, reading (not cached)": f"{uncached:,.0f}",
            "GPU hours, writing": f"{decode:,.0f}",
            "US dollars at 2 an hour": f"{(prefill + decode) * USD_PER_GPU_HOUR:,.0f}",
            "CPU hours, the same by rules": f"{hours['triples']:,.0f}",
            "windows": big(made["windows"]),
            "GPU hours, encoding": f"{made['windows'] / WINDOWS_PER_GPU_S / 3600:,.1f}",
            "dense index, TB": f"{held['dense']:.2f}",
            "vectors of tokens and windows, TB": f"{held['vectors']:.1f}",
            "facts": big(made["triples"]),
            "facts, TB": f"{held['triples']:.2f}",
            "CPU hours, merging facts": f"{hours['entities']:,.1f}",
            "CPU s, one look at what stands": f"{parts * STEP_STAGES / LISTED_PER_S:,.1f}",
            "CPU s, receipts read at the end": f"{parts * STEP_STAGES / RECEIPTS_PER_S:,.0f}",
            "CPU hours of the calls' host": f"{calls * HOST_S_PER_CALL / 3600:,.1f}",
        }


def big(number: float) -> str:
    """A number with its unit."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:,.3g} {unit}"
    return f"{number:,.0f}"


def nodes(corpus: Corpus, count: int, gpus: int = 8) -> dict[str, str]:
    """Describe how `count` nodes share the extraction, and the load on a single process."""
    calls_tokens = min(corpus.tokens, BLOCK_TOKENS)
    per_gpu = 1 / (calls_tokens * corpus.out_per_in / DECODE_PER_S + calls_tokens / PREFILL_PER_S)
    wanted = per_gpu * gpus * count
    host = 1 / HOST_S_PER_CALL
    parts_per_s = wanted / PART_DOCUMENTS
    hours = corpus.documents * max(1.0, corpus.tokens / BLOCK_TOKENS) / wanted / 3600
    return {
        "GPUs": f"{gpus * count:,}",
        "calls a second": f"{wanted:,.0f}",
        "hosts needed": f"{wanted / host:.1f}",
        "journals' share of a core": f"{wanted * JOURNAL_S_PER_CALL:.2f}",
        "part tasks a second": f"{parts_per_s * STEP_STAGES:.1f}",
        "hours of extraction": f"{hours:,.2f}",
    }


def table(columns: dict[str, dict[str, str]]) -> str:
    """Markdown: a row a key."""
    names = list(columns)
    lines = ["| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    keys = next(iter(columns.values()))
    lines += [
        f"| {key} | " + " | ".join(columns[name][key] for name in names) + " |" for key in keys
    ]
    return "\n".join(lines)


# A model wrote so much of abstracts and of full texts: results/extraction-model.json.
PUBMED = Corpus("PubMed, 38 million abstracts", 38e6, ABSTRACT_TOKENS, 1.03)
FULL_TEXTS = Corpus("10 million full texts", 10e6, 20 * ABSTRACT_TOKENS, 0.32)


def page_of(text: str) -> str:
    """The page with the two tables that follow from its table of stages."""
    stages = read_table(text)
    told = table({corpus.name: corpus.rows(stages) for corpus in (PUBMED, FULL_TEXTS)})
    text = replaced(text, CORPORA, told)
    many = {f"{count:,} nodes": nodes(PUBMED, count) for count in (1, 10, 100, 1000)}
    return replaced(text, NODES, table(many))


def main() -> None:
    """Write the tables into the page, that of stages only for a root."""
    text = PAGE.read_text("utf-8")
    if len(sys.argv) > 1:
        text = replaced(text, MARKS, stage_table(*measured(Path(sys.argv[1]))))
    PAGE.write_text(page_of(text), "utf-8")


if __name__ == "__main__":
    main()
