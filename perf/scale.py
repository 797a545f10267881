"""What PubMed and ten million full texts would take: `python -m perf.scale`, arithmetic alone.

Figures marked "measured" come from docs/measurements.md and the estimates of `srrag build
estimate=true`; those marked "assumed" are rates of hardware that was not at hand. Change them here.
"""

from __future__ import annotations

from dataclasses import dataclass

# Measured: tokens as `engine.tokenizer=utf8` counts them, a token every four bytes.
PROMPT_FIXED = 1187
"""Tokens of an extraction prompt that are the same in each: instructions and schema."""
OUT_PER_IN = 3.5
"""Tokens of the answer a token of the passage; 2.9 on bioasq, 4.2 on rehab (rules' answers)."""
VECTOR_BYTES, TOKEN_BYTES = 4 * 384, 386
"""A window's vector (float32), and a token's (int8 with its scale)."""
FACTS_PER_TOKEN = 0.05
"""Facts a token of text: 10,822 of 1,117 rehab passages of 129 tokens are 0.075, bioasq 0.045."""
BYTES_PER_FACT = 110
PART_DOCUMENTS, STEP_STAGES = 500, 8
INGEST_PER_S = 18_800
"""Documents a CPU second, read and cut into parts."""
RULES_PER_S = 2_680
"""Passages a CPU second that the rules extract from."""
LISTED_PER_S = 400_000
"""Files of a folder listed a CPU second."""
RECEIPTS_PER_S = 16_800
HOST_S_PER_CALL = 0.0006
"""Of the process through which all calls of a run go."""
JOURNAL_S_PER_CALL = 46e-6
MERGE_FACTS_PER_S = 64_000

# Assumed: an A100-80G with a model of 8B, and with MiniLM.
PREFILL_PER_S, DECODE_PER_S = 15_000, 2_500
WINDOWS_PER_GPU_S = 5_000
WINDOW_TOKENS = 200
USD_PER_GPU_HOUR = 2.0


@dataclass(frozen=True)
class Corpus:
    """A corpus: the number of documents, their tokens, and the most tokens of a chunk."""

    name: str
    documents: float
    tokens: float
    chunk_tokens: float

    def rows(self) -> dict[str, str]:
        """What each stage makes and takes."""
        text = self.documents * self.tokens
        calls = self.documents * max(1.0, self.tokens / self.chunk_tokens)
        out = text * OUT_PER_IN
        windows = text / WINDOW_TOKENS
        facts = text * FACTS_PER_TOKEN
        prefill = (text + PROMPT_FIXED) / PREFILL_PER_S / 3600
        uncached = (text + calls * PROMPT_FIXED) / PREFILL_PER_S / 3600
        decode = out / DECODE_PER_S / 3600
        parts = self.documents / PART_DOCUMENTS
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
            "CPU hours, the same by rules": f"{calls / RULES_PER_S / 3600:,.1f}",
            "windows": big(windows),
            "GPU hours, encoding": f"{windows / WINDOWS_PER_GPU_S / 3600:,.1f}",
            "vectors, TB": f"{windows * VECTOR_BYTES / 1e12:.2f}",
            "token vectors, TB": f"{text * TOKEN_BYTES / 1e12:.1f}",
            "facts": big(facts),
            "facts, TB": f"{facts * BYTES_PER_FACT / 1e12:.2f}",
            "CPU hours, merging facts": f"{facts / MERGE_FACTS_PER_S / 3600:,.1f}",
            "CPU hours, ingesting (one process)": f"{self.documents / INGEST_PER_S / 3600:,.1f}",
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


PUBMED = Corpus("PubMed, 38 million abstracts", 38e6, 375, 1000)
FULL_TEXTS = Corpus("10 million full texts", 10e6, 7500, 1000)


def main() -> None:
    """Print both tables."""
    print(table({corpus.name: corpus.rows() for corpus in (PUBMED, FULL_TEXTS)}))
    print()
    print(table({f"{count:,} nodes": nodes(PUBMED, count) for count in (1, 10, 100, 1000)}))


if __name__ == "__main__":
    main()
