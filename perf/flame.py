"""`python -m perf.flame ROOT QUERIES OUT.svg`: where the processor time of a question goes.

ROOT is a finished build, QUERIES a file of questions; `pipeline=…`, `questions=N` (60) and other
settings as for `perf.ask`. Questions are asked one by one, once all is loaded. A timer of processor
time looks at the stack each millisecond and gives it all that was used since the look before, so
other work on the machine hardly counts; compiled code counts for the function that called it, or
for the one that goes on behind it. OUT.svg is a flame graph: a function's width is
its share, what it called stands on it. Prints one JSON object: CPU milliseconds (p50) of a question
as a whole, of its encoding alone, of what is beyond it in ranking, and the largest functions.
"""

from __future__ import annotations

import html
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from srrag.config import factory
from srrag.config.compose import configure
from srrag.formats import read_queries
from srrag.model.embed import load
from srrag.retrieve.questions import question_table

LOOK_S = 0.001
WIDTH, ROW = 1200, 18
LEAST = 0.004
"""A function below this share of the whole is not drawn."""
OURS = Path(factory.__file__).parents[1]
Stacks = Counter[tuple[str, ...]]


@contextmanager
def sampled(stacks: Stacks) -> Iterator[None]:
    """Count the processor time of each stack of our functions while the block runs."""
    before = [time.process_time()]

    def look(_: int, frame: FrameType | None) -> None:
        now = time.process_time()
        stacks[_stack(frame)] += now - before[0]  # type: ignore[assignment]
        before[0] = now

    former = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, LOOK_S, LOOK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)


def _stack(frame: FrameType | None) -> tuple[str, ...]:
    """Our functions from the outermost; what another package does in one counts for it."""
    found: list[str] = []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(OURS):
            name = frame.f_code.co_qualname.replace(".<locals>", "")
            found.append(f"{path.relative_to(OURS).with_suffix('')}: {name}")
        frame = frame.f_back
    return tuple(reversed(found))


def drawn(stacks: Stacks) -> str:
    """The stacks as an SVG."""
    whole = sum(stacks.values())
    sums: Counter[tuple[str, ...]] = Counter()
    for stack, seconds in stacks.items():
        for depth in range(1, len(stack) + 1):
            sums[stack[:depth]] += seconds
    boxes, ends = [], {(): 0.0}
    for stack in sorted(sums, key=lambda each: (len(each), each)):
        left = ends.setdefault(stack[:-1], 0.0)
        ends[stack[:-1]], ends[stack] = left + sums[stack], left
        if sums[stack] >= LEAST * whole:
            boxes.append((stack[-1], len(stack) - 1, left / whole, sums[stack] / whole))
    height = ROW * (1 + max(depth for _, depth, _, _ in boxes))
    shapes = [_box(name, height - ROW * (depth + 1), left, share)
              for name, depth, left, share in boxes]  # fmt: skip
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
    return f'{head} font-family="sans-serif" font-size="11">\n' + "\n".join(shapes) + "\n</svg>\n"


def _box(name: str, top: int, left: float, share: float) -> str:
    """One function: its name as far as there is room, all of it as a tooltip."""
    room = int(WIDTH * share / 6.2)
    short = name.rpartition(": ")[2]
    shown = short if len(short) <= room else short[: max(0, room - 1)] + "…" * (room > 2)
    x, width = WIDTH * left, WIDTH * share
    hue = 20 + sum(map(ord, name)) % 35
    return (
        f"<g><title>{html.escape(name)}, {100 * share:.1f} %</title>"
        f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{ROW - 1}" '
        f'fill="hsl({hue} 75% 70%)"/>'
        f'<text x="{x + 3:.1f}" y="{top + 13}">{html.escape(shown)}</text></g>'
    )


def timed(ask: Callable[[Any], Any], items: Sequence[Any]) -> np.ndarray:
    """CPU milliseconds of each call, the smaller of two."""
    found = np.full(len(items), np.inf)
    for _ in range(2):
        for place, item in enumerate(items):
            started = time.process_time()
            ask(item)
            found[place] = min(found[place], 1000 * (time.process_time() - started))
    return found


def main(argv: Sequence[str]) -> None:
    """Measure, draw and print."""
    options = dict(item.split("=", 1) for item in argv[3:])
    name, most = options.pop("pipeline", "hybrid_maxsim"), int(options.pop("questions", 60))
    settings = [f"{key}={value}" for key, value in {"profile.threads": 1, **options}.items()]
    config = configure("ask", [f"root={argv[0]}", f"pipeline={name}", "question=x", *settings])
    pipeline = factory.make(config["pipeline"], "pipeline")
    at = factory.pipeline_run(config, pipeline).place(factory.place(config))
    encoder = load(factory.make(config["embedder"], "embedder"), at.device, at.threads)
    encoder.encode_tokens(["imports torch"] * 32)
    answer, rank = pipeline.open(at), pipeline.ranking().open(at)
    tables = [question_table([row]) for row in read_queries(Path(argv[1]))][:most]
    texts = [table["text"].to_pylist() for table in tables]
    timed(answer, tables[:3])
    encoding = timed(lambda text: encoder.encode_tokens(text, "query"), texts)
    ranked, whole = timed(rank, tables), timed(answer, tables)
    stacks: Stacks = Counter()
    with sampled(stacks):
        for table in tables:
            answer(table)
    Path(argv[2]).write_text(drawn(stacks), "utf-8")
    own: Counter[str] = Counter()
    for stack, seconds in stacks.items():
        own[stack[-1] if stack else "outside"] += seconds  # type: ignore[assignment]
    total = sum(own.values())
    print(json.dumps({
        "pipeline": name, "questions": len(tables), "encoding_ms": _p50(encoding),
        "ranking_beyond_encoding_ms": _p50(ranked - encoding), "whole_ms": _p50(whole),
        "whole_over_encoding": round(float(np.median(whole / encoding)), 2),
        "own_share": {key: round(value / total, 3) for key, value in own.most_common(15)},
    }))  # fmt: skip


def _p50(values: np.ndarray) -> float:
    return round(float(np.median(values)), 2)


if __name__ == "__main__":
    main(sys.argv[1:])
