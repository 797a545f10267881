"""Output tokens a second of the extraction stage under vLLM, against bare LLM.chat.

    srrag build root=R                     # by rules: its documents are what is asked about
    python -m perf.vllm_rate MODEL_FOLDER --root R --device cpu

Three systems answer the same prompts, with the same schema, seeds and engine settings, one after
the other in one process: vLLM's offline class, our session alone, and the whole stage (prompts,
client, log, host, judgement, journal, parsing). The best round counts, as other work on the machine
can only slow one down; the first warms up. The last line on stdout is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.config.compose import configure
from srrag.core.spec import build
from srrag.core.step import Place
from srrag.engine.base import Call, key_of
from srrag.engine.vllm.engine import VllmEngine
from srrag.engine.vllm.session import sampling
from srrag.extract.extract_documents import ExtractDocuments
from srrag.llm.completion import tallied
from srrag.runner.engines import engines_here
from srrag.storage.store import Store


@dataclass(frozen=True)
class Rate:
    """What one system did."""

    calls: int
    tokens_out: int
    seconds: float
    cpu_s: float
    """Of this process alone: what feeding the engine costs."""
    tokens_per_s: float


class Best:
    """Times rounds, and keeps the fastest."""

    def __init__(self) -> None:
        """No round yet."""
        self.rate: Rate | None = None

    def start(self) -> None:
        """Begin a round."""
        self._began = time.perf_counter(), time.process_time()

    def stop(self, calls: int, tokens: int) -> None:
        """End a round."""
        seconds, cpu_s = time.perf_counter() - self._began[0], time.process_time() - self._began[1]
        rate = Rate(calls, tokens, round(seconds, 2), round(cpu_s, 2), round(tokens / seconds))
        if self.rate is None or rate.tokens_per_s > self.rate.tokens_per_s:
            self.rate = rate


def batches(root: Path, number: int, rounds: int) -> list[pa.Table]:
    """Different documents of a build for each round."""
    store = Store(root)
    entry = store.read_pointer("default")["stages"]["documents"]
    parts = [store.read_part("documents", entry["fingerprint"], part) for part in entry["parts"]]
    table = pa.concat_tables(parts)
    if table.num_rows < number * rounds:
        raise SystemExit(f"{root} holds {table.num_rows} documents; {number * rounds} are needed")
    return [table.slice(round_ * number, number) for round_ in range(rounds)]


async def alone(engine: VllmEngine, rounds: list[list[Call]], best: Best) -> None:
    """The session."""
    session = await engine.open()
    try:
        for calls in rounds:
            best.start()
            replies = await asyncio.gather(*map(session.complete, calls))
            best.stop(len(calls), sum(reply.tokens_out for reply in replies))
            assert all(reply.fault is None for reply in replies)
    finally:
        await session.close()


def stage(step: ExtractDocuments, rounds: list[pa.Table], best: Best) -> None:
    """The extraction stage, with all that stands between a chunk and its facts."""
    with tempfile.TemporaryDirectory() as folder:
        at = Place(root=Path(folder))
        assert isinstance(step.engine, VllmEngine)
        with engines_here([step.engine], at) as engines:
            function = step.open(replace(at, clients=engines.clients))
            function(rounds[0].slice(0, 1))  # starts the engine
            for table in rounds:
                with tallied() as usage:
                    best.start()
                    function(table)
                best.stop(usage.calls, usage.tokens_out - usage.cached_tokens_out)


def bare(engine: VllmEngine, rounds: list[list[Call]], best: Best) -> None:
    """Time vLLM's offline class on the same prompts and settings."""
    from vllm import LLM

    llm = LLM(**engine.arguments())
    for calls in rounds:
        messages: Any = [call.messages() for call in calls]
        best.start()
        outputs = llm.chat(messages, [sampling(call) for call in calls], use_tqdm=False)
        best.stop(len(calls), sum(len(output.outputs[0].token_ids) for output in outputs))


def main() -> None:
    """Run both and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="folder of a model")
    parser.add_argument("--root", type=Path, required=True, help="a build by rules")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--calls", type=int, default=40, help="documents a round")
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--max-num-seqs", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--kv-cache-gb", type=float)
    options = parser.parse_args()
    engine = VllmEngine(
        model=options.model, device=options.device, dtype=options.dtype,
        max_num_seqs=options.max_num_seqs, enforce_eager=options.eager,
        kv_cache_gb=options.kv_cache_gb,
    )  # fmt: skip
    ontology = build(configure("build", ["root=."])["schema"])
    step = ExtractDocuments(
        ontology=ontology, engine=engine, max_tokens=options.max_tokens, again=0
    )
    tables = batches(options.root, options.calls, options.rounds)
    rounds = [[Call(key_of(engine, p), p) for p in step.prompts(table)] for table in tables]
    whole, session, offline = Best(), Best(), Best()
    stage(step, tables, whole)
    asyncio.run(alone(engine, rounds, session))
    bare(engine, rounds, offline)
    found = {"stage": whole.rate, "session": session.rate, "LLM.chat": offline.rate}
    rates = {name: rate for name, rate in found.items() if rate is not None}
    ratios = {
        name: round(rate.tokens_per_s / rates["LLM.chat"].tokens_per_s, 2)
        for name, rate in rates.items()
    }
    systems = {name: asdict(rate) for name, rate in rates.items()}
    print(json.dumps({"against LLM.chat": ratios, "systems": systems}))


if __name__ == "__main__":
    main()
