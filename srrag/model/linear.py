"""Affine maps in float32, bfloat16 or int8, by a kernel that is fast on this machine.

The arithmetic belongs to an index and cannot follow the machine; the kernel that computes it can.
Which is fast no name of a library tells: oneDNN multiplies signed int8 by a reference kernel
wherever AVX-512 comes without AMX, a thousand times slower. So all are timed. Those of int8 give
the same bits, and the fastest is taken; of the others, whose last bits differ, the processor says
which, so that all processes of a machine give the same, unless another is twice as fast. `rates`
times the packaged encoder in each arithmetic.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from srrag.model.embed import load
from srrag.model.encoder import Encoder

_USUAL_TOKENS = 1024
"""Rows of a batch that orders of weights are chosen for; others are multiplied, too."""


class Linear(Protocol):
    """An affine map over the last axis of a (tokens, features) matrix."""

    def __call__(self, x: Tensor) -> Tensor:
        """Map (tokens, in) to (tokens, out)."""


Make = Callable[[Tensor, Tensor, bool], Linear]
"""Float32 weight (out, in) and bias (out,), and whether GELU follows."""

Product = Callable[[Tensor], Tensor]
"""An int8 (tokens, in) matrix times a weight's integers, each column scaled, float32."""


@dataclass(frozen=True, slots=True)
class DenseLinear:
    """An affine map in the weights' own dtype, and GELU after it where `gelu`."""

    weight: Tensor
    bias: Tensor
    gelu: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        """Map (tokens, in) to (tokens, out)."""
        found = F.linear(x, self.weight, self.bias)
        return F.gelu(found) if self.gelu else found


@dataclass(frozen=True, slots=True)
class OrderedLinear:
    """`DenseLinear` on a CPU, its weight in the order that oneDNN multiplies in.

    `F.linear` reorders the weight at every call, and writes what GELU then has to read again.
    """

    weight: Tensor  # opaque
    bias: Tensor
    gelu: bool = False

    @classmethod
    def ordered(cls, weight: Tensor, bias: Tensor, gelu: bool = False) -> OrderedLinear:
        """Reorder a float32 or bfloat16 (out, in) weight; raises RuntimeError if oneDNN cannot."""
        return cls(torch.ops.mkldnn._reorder_linear_weight(weight, _USUAL_TOKENS), bias, gelu)

    def __call__(self, x: Tensor) -> Tensor:
        """Map (tokens, in) to (tokens, out)."""
        after = "gelu" if self.gelu else "none"
        multiply = torch.ops.mkldnn._linear_pointwise
        found: Tensor = multiply(x, self.weight, self.bias, after, [], "none")
        return found


@dataclass(frozen=True, slots=True)
class WidenedLinear:
    """A map of bfloat16 numbers by a float32 product, for processors that have no other."""

    wide: Linear

    def __call__(self, x: Tensor) -> Tensor:
        """Map bfloat16 (tokens, in) to bfloat16 (tokens, out), rounded once."""
        return self.wide(x.float()).bfloat16()


@dataclass(frozen=True, slots=True)
class RowInt8Linear:
    """An affine map in int8 with one scale per output channel and per token.

    Scales of its own for every token, and exact int32 sums, make a token's result independent
    of its neighbours in the batch; the usual scale per activation tensor does not.
    Weights span -64…64 only: processors without VNNI add pairs of products in saturating int16,
    which 255 × 64 × 2 never reaches, so every processor gets the same sums.
    """

    multiply: Product
    bias: Tensor  # float32 (out,)
    gelu: bool = False

    @classmethod
    def quantise(
        cls, by: Callable[[Tensor, Tensor], Product], weight: Tensor, bias: Tensor, gelu: bool
    ) -> RowInt8Linear:
        """Round a float (out, in) weight to -64…64, one scale per output channel."""
        scale = weight.abs().amax(1).clamp_(min=1e-12).div_(64)
        rounded = (weight / scale[:, None]).round_().to(torch.int8)
        return cls(by(rounded, scale), bias, gelu)

    def __call__(self, x: Tensor) -> Tensor:
        """Map float32 (tokens, in) to float32 (tokens, out)."""
        work = x.abs()
        step = work.amax(1, keepdim=True).clamp_(min=1e-12).div_(127)
        torch.mul(x, step.reciprocal(), out=work).round_()
        product = self.multiply(work.to(torch.int8))
        torch.addcmul(self.bias, product, step, out=product)
        return F.gelu(product) if self.gelu else product


_ZERO = 128
"""Activations go to oneDNN unsigned, with this zero point: the same sums as of signed ones."""


def _unsigned(weight: Tensor, scale: Tensor) -> Product:
    ordered = torch.ops.onednn.qlinear_prepack(weight, None)
    no_zeros = torch.zeros(len(scale), dtype=torch.int32)

    def product(x: Tensor) -> Tensor:
        found: Tensor = torch.ops.onednn.qlinear_pointwise(
            x.view(torch.uint8) ^ _ZERO,
            1.0,
            _ZERO,
            ordered,
            scale,
            no_zeros,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        return found

    return product


def _int_mm(weight: Tensor, scale: Tensor) -> Product:
    return lambda x: torch._int_mm(x, weight.t()).to(torch.float32).mul_(scale)


def _whole_floats(weight: Tensor, scale: Tensor) -> Product:
    """Integers below 2²⁴ are exact in float32, whatever the order of their sum."""
    if weight.shape[1] * 127 * 64 >= 2**24:
        return _int_mm(weight, scale)
    wide = KERNELS["torch"][fastest("torch")](weight.float(), torch.zeros_like(scale), False)
    return lambda x: wide(x.float()).mul_(scale)


def _int8(by: Callable[[Tensor, Tensor], Product]) -> Make:
    return lambda weight, bias, gelu: RowInt8Linear.quantise(by, weight, bias, gelu)


def _bfloat16(make: Make) -> Make:
    return lambda weight, bias, gelu: make(weight.bfloat16(), bias.bfloat16(), gelu)


def _widened(weight: Tensor, bias: Tensor, gelu: bool) -> Linear:
    rounded = weight.bfloat16().float(), bias.bfloat16().float()
    return WidenedLinear(KERNELS["torch"][fastest("torch")](*rounded, gelu))


KERNELS: Mapping[str, Mapping[str, Make]] = {
    "torch": {"oneDNN": OrderedLinear.ordered, "F.linear": DenseLinear},
    "torch-bf16": {
        "oneDNN": _bfloat16(OrderedLinear.ordered),
        "F.linear": _bfloat16(DenseLinear),
        "float32": _widened,
    },
    "torch-int8": {
        "oneDNN": _int8(_unsigned),
        "_int_mm": _int8(_int_mm),
        "float32": _int8(_whole_floats),
    },
}
"""By the backend of an encoder, what computes its affine maps on a CPU. The integer ones give the
same bits; the others differ in the last ones, as they do between processors."""

_SHAPE = (1536, 384)
_ROWS = 16
_ROUNDS = 20
_BUDGET_S = 0.1
_FAR = 0.05
"""A kernel whose result differs by more of the float32 product's norm is wrong here; rounding to
int8 differs by .01."""

_CLEARLY = {"torch": 0.5, "torch-bf16": 0.5, "torch-int8": 0.9}
"""Of kernels whose times are within this of the best, the first is taken: else noise would decide,
and two processes would differ in the last bits."""


def make_linear(backend: str, device: torch.device) -> Make:
    """What makes the affine maps of a backend on a device."""
    if device.type != "cpu":
        return _bfloat16(DenseLinear) if backend == "torch-bf16" else DenseLinear
    return KERNELS[backend][fastest(backend)]


@cache
def fastest(backend: str) -> str:
    """The kernel of a backend that is taken here, by 16 tokens of one thread.

    Left out are those that this build of torch or this processor does not have, and those that
    are wrong on it. It takes some .05 s.
    """
    draw = torch.Generator().manual_seed(0)
    weight, x = (torch.randn(size, generator=draw) for size in (_SHAPE, (_ROWS, _SHAPE[1])))
    x = x.bfloat16() if backend == "torch-bf16" else x
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            return _fastest(_in_order(backend), _CLEARLY[backend], weight, x)
    finally:
        torch.set_num_threads(threads)


def _in_order(backend: str) -> Mapping[str, Make]:
    """The kernels of a backend, first the one that its processor is made for."""
    kernels = KERNELS[backend]
    if backend != "torch-bf16" or _multiplies_bfloat16():
        return kernels
    return {"float32": kernels["float32"], **kernels}


def _multiplies_bfloat16() -> bool:
    if platform.machine().lower() in ("x86_64", "amd64"):
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _fastest(kernels: Mapping[str, Make], clearly: float, weight: Tensor, x: Tensor) -> str:
    plain = F.linear(x.float(), weight)
    runs: dict[str, Linear] = {}
    for name, make in kernels.items():
        try:
            made = make(weight, torch.zeros(len(weight)), False)
            found = made(x)
        except (RuntimeError, AttributeError):  # an operator that is not there
            continue
        if (found.float() - plain).norm() < _FAR * plain.norm():
            runs[name] = made
    best = dict.fromkeys(runs, float("inf"))
    ends = time.thread_time() + _BUDGET_S
    for _ in range(_ROUNDS):
        for name, run in runs.items():
            started = time.thread_time()
            run(x)
            best[name] = min(best[name], time.thread_time() - started)
        if time.thread_time() > ends:
            break
    return next(name for name in best if best[name] * clearly <= min(best.values()))


_BACKENDS = {"float32": "torch", "bfloat16": "torch-bf16", "int8": "torch-int8"}
"""float32 and bfloat16 rank alike to the third digit (docs/figures.md), so speed decides
between them. int8 moves vectors a hundred times as far: it is priced, and taken where named."""

_WORTH = 1.2
"""bfloat16 is chosen if its rate is more than this multiple of float32's."""

_SENTENCE = "Early weight bearing after an acute ankle sprain shortened the return to work. "
_TEXTS = [_SENTENCE * 3] * 8
_MEASURED_ROUNDS = 3


def rates() -> dict[str, float]:
    """Texts a CPU second, on one thread of this machine, in each arithmetic.

    The best of a few alternating rounds; they take about a second.
    """
    models = {name: load(Encoder(backend=each), "cpu", 1) for name, each in _BACKENDS.items()}
    best = dict.fromkeys(models, 0.0)
    for _ in range(_MEASURED_ROUNDS + 1):  # the first warms up, and is too slow to count
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
