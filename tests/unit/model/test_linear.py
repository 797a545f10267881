"""Every kernel computes its arithmetic, a wrong one is never taken, and none is slow anywhere."""

import os
import subprocess
import sys
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from srrag.model import linear
from srrag.model.encoder import BACKENDS
from srrag.model.linear import KERNELS, fastest
from tests.conftest import REPOSITORY

ISAS = ("AVX2", "AVX512_CORE", "AVX512_CORE_VNNI")
"""Instructions that oneDNN may use, where the processor has them: those of today's servers."""

EACH = [(backend, name) for backend, kernels in KERNELS.items() for name in kernels]


@pytest.fixture
def parts():
    """A weight, a bias and the tokens of a text, of sizes that no kernel's block divides."""
    draw = torch.Generator().manual_seed(0)
    sizes = (40, 24), (40,), (7, 24)
    return [torch.randn(size, generator=draw) for size in sizes]


def made(backend, name, weight, bias, gelu=False):
    try:
        return KERNELS[backend][name](weight, bias, gelu)
    except RuntimeError as error:
        pytest.skip(f"{name} is not for this processor: {error}")


@pytest.mark.parametrize("gelu", [False, True])
@pytest.mark.parametrize(("backend", "name"), EACH)
def test_every_kernel_gives_the_product(parts, backend, name, gelu):
    weight, bias, x = parts
    plain = F.linear(x, weight, bias)
    wanted = F.gelu(plain) if gelu else plain
    given = x.bfloat16() if backend == "torch-bf16" else x
    found = made(backend, name, weight, bias, gelu)(given).float()
    assert (found - wanted).norm() < {"torch": 1e-6}.get(backend, 0.02) * wanted.norm()


@pytest.mark.parametrize("name", list(KERNELS["torch-int8"]))
def test_int8_has_the_same_bits_by_each_kernel_and_for_any_neighbours(parts, name):
    weight, bias, x = parts
    run = made("torch-int8", name, weight, bias)
    found = run(x)
    assert torch.equal(found[:1], run(x[:1]))
    assert torch.equal(found, KERNELS["torch-int8"]["_int_mm"](weight, bias, False)(x))
    step, scale = x.abs().amax(1, keepdim=True) / 127, weight.abs().amax(1) / 64
    of_x, of_weight = weight.abs().sum(1) * step / 2, x.abs().sum(1, keepdim=True) * scale / 2
    bound = of_x + of_weight + x.shape[1] * step * scale / 4
    assert ((found - F.linear(x, weight, bias)).abs() <= bound).all()


def test_sums_too_long_for_float32_stay_whole_numbers():
    weight, x = torch.ones(1, 2**12), torch.ones(1, 2**12)
    x[0, 0] = -1
    wide, whole = (KERNELS["torch-int8"][name] for name in ("float32", "_int_mm"))
    assert torch.equal(
        wide(weight, torch.zeros(1), False)(x), whole(weight, torch.zeros(1), False)(x)
    )


@pytest.fixture
def choose(monkeypatch):
    """What is taken of kernels that need so many milliseconds each, by a clock of their own."""
    clock = [0.0]
    plain = linear.DenseLinear

    def taking(ms, weight, bias, gelu):
        run = plain(weight, bias, gelu)

        def product(x):
            clock[0] += ms / 1000
            return run(x.float())

        return product

    def chosen(makes=(), backend="torch", **ms):
        kernels = {name: partial(taking, each) for name, each in ms.items()} | dict(makes)
        monkeypatch.setitem(linear.KERNELS, backend, kernels)
        fastest.cache_clear()
        return fastest(backend)

    monkeypatch.setattr(linear.time, "thread_time", lambda: clock[0])
    yield chosen
    fastest.cache_clear()


def test_of_those_with_the_same_bits_the_fastest_is_taken(choose):
    assert choose(backend="torch-int8", a=3.0, b=1.0, c=2.0) == "b"
    assert choose(backend="torch-int8", a=1.05, b=1.0) == "a"
    assert choose(backend="torch-int8", a=3.0, b=1.05, c=1.0) == "b"
    assert choose(backend="torch-int8", a=200.0, b=199.0) == "a", "a slow one is not timed for long"


def test_of_the_others_noise_does_not_choose_and_no_crawling_one_is_taken(choose):
    assert choose(a=1.8, b=1.0) == choose(a=1.0, b=1.8) == "a"
    assert choose(a=2.2, b=1.0) == "b"


@pytest.mark.parametrize("multiplies", [True, False])
def test_bfloat16_is_widened_where_the_processor_does_not_multiply_it(
    choose, monkeypatch, multiplies
):
    monkeypatch.setattr(linear, "_multiplies_bfloat16", lambda: multiplies)
    found = choose(backend="torch-bf16", oneDNN=1.0, float32=1.3)
    assert found == ("oneDNN" if multiplies else "float32")
    assert choose(backend="torch-bf16", oneDNN=9.0, float32=1.3) == "float32"


def test_a_kernel_that_is_wrong_or_not_there_is_not_taken(choose):
    def wrong(weight, bias, gelu):
        return linear.DenseLinear(weight.flip(0), bias, gelu)

    def absent(weight, bias, gelu):
        raise RuntimeError("not for this processor")

    assert choose({"wrong": wrong, "absent": absent}, slow=9.0) == "slow"


SCRIPT = """
from tests.unit.model.test_linear import assert_none_is_slow
assert_none_is_slow()
"""


def assert_none_is_slow():
    """Tried three times: a busy neighbour is no slow kernel."""
    for _ in range(3):
        rates = linear.rates()
        assert len(rates) == len(BACKENDS)
        if min(rates.values()) > rates["float32"] / 2:
            return
    raise AssertionError(rates)


def test_no_arithmetic_is_slower_than_half_of_float32_here():
    assert_none_is_slow()


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
def test_no_arithmetic_is_slower_than_half_of_float32_on_any_processor(isa):
    given = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(  # in a process of its own, as oneDNN reads the limit once
        [sys.executable, "-c", SCRIPT], env=given, capture_output=True, text=True, cwd=REPOSITORY
    )
    assert ran.returncode == 0, ran.stderr
