"""Speed of the packaged encoder on this machine in each arithmetic."""

from __future__ import annotations

import time
from collections.abc import Mapping

from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.model.linear import fastest

_BACKENDS = {"float32": "torch", "bfloat16": "torch-bf16", "int8": "torch-int8"}
"""float32 and bfloat16 rank alike to the third digit (docs/figures.md), so speed decides
between them. int8 moves vectors a hundred times as far: it is priced, and taken where named."""

_WORTH = 1.2
"""bfloat16 is chosen if its rate is more than this multiple of float32's."""

_SENTENCE = "Early weight bearing after an acute ankle sprain shortened the return to work. "
_TEXTS = [_SENTENCE * 3] * 8
_ROUNDS = 3


def rates() -> dict[str, float]:
    """Texts a CPU second, on one thread of this machine, in each arithmetic.

    The best of a few alternating rounds; they take about a second.
    """
    models = {name: load(Encoder(backend=each), "cpu", 1) for name, each in _BACKENDS.items()}
    best = dict.fromkeys(models, 0.0)
    for _ in range(_ROUNDS + 1):  # the first warms up, and is too slow to count
        for name, model in models.items():
            started = time.process_time()
            model.encode(_TEXTS)
            best[name] = max(best[name], len(_TEXTS) / (time.process_time() - started))
    return {name: round(rate, 1) for name, rate in best.items()}


def chosen(measured: Mapping[str, float]) -> str:
    """bfloat16 where it is clearly the faster, else float32."""
    return "bfloat16" if measured["bfloat16"] > _WORTH * measured["float32"] else "float32"


def priced(measured: Mapping[str, float]) -> str:
    """The speed of each on this machine, in a line."""
    plain = measured["float32"]
    others = [
        f"{rate:g} in {name} ({rate / plain:.2g} ×)"
        for name, rate in measured.items()
        if name != "float32"
    ]
    return f"{plain:g} texts a CPU second in float32, {', '.join(others)}"


def kernels() -> str:
    """What multiplies in each arithmetic on this machine, in a line."""
    return ", ".join(f"{name} by {fastest(backend)}" for name, backend in _BACKENDS.items())
