"""What PubMed and ten million full texts would take: `python -m perf.scale [docs/scale.md]`.

Writes two tables into the page, of what its table of stages says (measured by `perf.scale_stages`
on abstracts; a full text counts as as many abstracts as have its tokens) and of rates: those
marked "measured" come from docs/figures.md and the estimates of `srrag build estimate=true`,
those marked "assumed" are of hardware that was not at hand. Change them here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perf.scale_stages import StageCost, read_table, replaced

# Measured: tokens as `engine.tokenizer=utf8` counts them, a token every four bytes.
PROMPT_FIXED = 1187
"""Tokens of an extraction prompt that are the same in each: instructions and schema."""
OUT_PER_IN = 3.5
"""Tokens of the answer a token of the passage; 2.9 on bioasq, 4.2 on rehab (rules' answers)."""
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


ABSTRACT_TOKENS = 375
"""Tokens of the text of one of the abstracts that the stages were measured on."""
CORPORA = "<!-- corpora -->", "<!-- end of corpora -->"
NODES = "<!-- nodes -->", "<!-- end of nodes -->"


@dataclass(frozen=True)
class Corpus:
    """A corpus: the number of documents, their tokens, and the most tokens of a chunk."""

    name: str
    documents: float
    tokens: float
    chunk_tokens: float

    def rows(self, stages: Mapping[str, StageCost]) -> dict[str, str]:
        """What each stage makes and takes, if a thousand abstracts make and take `stages`."""
        text = self.documents * self.tokens
        calls = self.documents * max(1.0, self.tokens / self.chunk_tokens)
        out = text * OUT_PER_IN
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
    calls_tokens = corpus.tokens if corpus.tokens < corpus.chunk_tokens else corpus.chunk_tokens
    per_gpu = 1 / (calls_tokens * OUT_PER_IN / DECODE_PER_S + calls_tokens / PREFILL_PER_S)
    wanted = per_gpu * gpus * count
    host = 1 / HOST_S_PER_CALL
    parts_per_s = wanted / PART_DOCUMENTS
    hours = corpus.documents * max(1.0, corpus.tokens / corpus.chunk_tokens) / wanted / 3600
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


PUBMED = Corpus("PubMed, 38 million abstracts", 38e6, ABSTRACT_TOKENS, 1000)
FULL_TEXTS = Corpus("10 million full texts", 10e6, 7500, 1000)


def page_of(text: str) -> str:
    """The page with the two tables that follow from its table of stages."""
    stages = read_table(text)
    told = table({corpus.name: corpus.rows(stages) for corpus in (PUBMED, FULL_TEXTS)})
    text = replaced(text, CORPORA, told)
    many = {f"{count:,} nodes": nodes(PUBMED, count) for count in (1, 10, 100, 1000)}
    return replaced(text, NODES, table(many))


def main() -> None:
    """Write both tables into the page."""
    page = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/scale.md")
    page.write_text(page_of(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
