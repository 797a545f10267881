"""Output tokens a second of a vLLM session with all calls in flight, against bare LLM.generate.

    python -m bench.vllm_rate MODEL_FOLDER --device cpu --calls 256

Both get the same prompts, schema, seeds and engine settings, one after the other in one process.
The best round counts, as other work on the machine can only slow one down; the first warms up.
The last line on stdout is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from dataclasses import asdict, dataclass
from typing import Any

from srrag.completion import Prompt
from srrag.corpus.grade_documents import GradeAnswer
from srrag.engine.call import Call, key_of
from srrag.engine.vllm import VllmEngine
from srrag.engine.vllm_session import sampling


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


def calls_of(engine: VllmEngine, number: int, max_tokens: int, draw: int) -> list[Call]:
    """Calls of one schema that share their first half."""
    system = "You grade clinical studies by their design. " * 8
    prompts = [
        Prompt(i, "x", system, f"Study {i}: a trial of {i % 7} weeks. " * 8, GradeAnswer, 1.0,
               max_tokens, draw)
        for i in range(number)
    ]  # fmt: skip
    return [Call(key_of(engine, prompt), prompt) for prompt in prompts]


async def ours(engine: VllmEngine, rounds: list[list[Call]], best: Best) -> None:
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


def bare(engine: VllmEngine, rounds: list[list[Call]], best: Best) -> None:
    """The offline class of vLLM, told the same."""
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
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--calls", type=int, default=256)
    parser.add_argument("--max-tokens", type=int, default=128)
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
    rounds = [
        calls_of(engine, options.calls, options.max_tokens, draw) for draw in range(options.rounds)
    ]
    session, offline = Best(), Best()
    asyncio.run(ours(engine, rounds, session))
    bare(engine, rounds, offline)
    assert session.rate is not None and offline.rate is not None
    ratio = session.rate.tokens_per_s / offline.rate.tokens_per_s
    systems = {"session": asdict(session.rate), "LLM.chat": asdict(offline.rate)}
    print(json.dumps({"ratio": round(ratio, 2), "systems": systems}))


if __name__ == "__main__":
    main()
