"""What the watch for loops saves when a small model extracts, with and without it.

    srrag build root=R                     # by rules: its chunks are what is asked about
    python -m perf.loops MODEL_FOLDER --root R --device cpu --dtype bfloat16

The whole extraction stage runs twice on the same chunks, with its second tries and a log of its
own. Tokens after the first copy of what an answer's end repeats are wasted: its share of the tokens
is that of its characters. The last line on stdout is JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from perf.vllm_rate import batches
from srrag.config.compose import configure
from srrag.engine.log.completion_log import CompletionLog
from srrag.engine.vllm import session
from srrag.engine.vllm.engine import VllmEngine
from srrag.extract.triples import ExtractTriples
from srrag.llm.completion import tallied
from srrag.llm.loops import LoopWatch, ended, repeated
from srrag.runner.engines import engines_here
from srrag.spec import build
from srrag.step import Place


class _NoWatch(LoopWatch):
    """Sees nothing."""

    def loops(self, piece: str) -> bool:
        """Return False."""
        return False


@contextmanager
def written(watched: bool) -> Iterator[dict[str, str]]:
    """Return the whole text of each answer by what is kept of it; unwatched, loops run on."""
    whole: dict[str, str] = {}

    def noted(text: str, finish: str) -> tuple[str, str]:
        kept, end = ended(text, finish) if watched else (text, finish)
        whole[kept] = text
        return kept, end

    watch = LoopWatch if watched else _NoWatch
    with patch.object(session, "LoopWatch", watch), patch.object(session, "ended", noted):
        yield whole


def extract(step: ExtractTriples, chunks: pa.Table, folder: Path, watched: bool) -> dict[str, Any]:
    """Run the stage; return calls, faults, facts, and what became of the tokens."""
    at = Place(root=folder)
    assert isinstance(step.engine, VllmEngine)
    with (
        written(watched) as whole,
        engines_here([step.engine], at) as engines,
        tallied() as usage,
    ):
        facts = step.open(replace(at, clients=engines.clients))(chunks)
    CompletionLog(folder / "completions").recover()
    rows = [r for p in folder.rglob("*.parquet") for r in pq.read_table(p).to_pylist()]
    cut = [row for row in rows if not _whole(row["text"])]
    wasted = [_wasted(whole[row["text"]]) * row["tokens_out"] for row in cut]
    lost = facts.filter(facts["reject"].is_valid())
    return {
        "calls": usage.calls,
        "tokens_out": usage.tokens_out,
        "cut_off": len(cut),
        "of_these_in_a_loop": sum(each > 0 for each in wasted),
        "tokens_wasted_in_loops": round(sum(wasted)),
        "wasted_share": round(sum(wasted) / usage.tokens_out, 3),
        "faults": dict(usage.faults),
        "facts": facts.num_rows - lost.num_rows,
        "chunks_with_rejects": len({*lost["unit_id"].to_pylist()}),
    }


def _wasted(text: str) -> float:
    """The share of a text after the first copy of what its end repeats."""
    start = repeated(text)
    return 0.0 if start is None else 1 - start / len(text)


def _whole(text: str) -> bool:
    try:
        json.loads(text, strict=False)
    except ValueError:
        return False
    return True


def main() -> None:
    """Run both and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="folder of a model")
    parser.add_argument("--root", type=Path, required=True, help="a build by rules")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--calls", type=int, default=24, help="chunks")
    parser.add_argument("--max-tokens", type=int, default=1000)
    options = parser.parse_args()
    engine = VllmEngine(
        model=options.model, device=options.device, dtype=options.dtype, enforce_eager=True,
        max_num_seqs=8, kv_cache_gb=1, max_model_len=6000,
    )  # fmt: skip
    ontology = build(configure("build", ["root=."])["schema"])
    step = ExtractTriples(ontology=ontology, engine=engine, max_tokens=options.max_tokens)
    (chunks,) = batches(options.root, options.calls, 1)
    told = {}
    with tempfile.TemporaryDirectory() as folder:
        for watched in (True, False):
            name = "watched" if watched else "unwatched"
            told[name] = extract(step, chunks, Path(folder, name), watched)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
