"""Attention is rounded where functions ask for it and the processor gains by it, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import module
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.errors import TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.quantize.bfloat16_products import PRECISION
from tilewright.relay.transform.quantize.narrow_attention import narrow_attention
from tilewright.relay.transform.simplify.make import is_call
from tilewright.target import Target
from tilewright.topi.reference import nn as ref

RNG = np.random.default_rng(7)
AMX, PAIRS = Target("llvm -mcpu=sapphirerapids"), Target("llvm -mcpu=znver4")
NEON = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1")
PLAIN = [Target("llvm -mcpu=skylake-avx512"), Target("llvm -mcpu=haswell"), Target("c")]


def _attention(rows: int, width: int = 64, precision: str = "bfloat16", dtype: str = "float32") -> IRModule:
    sizes = (1, 12, rows, 64), (1, 12, rows, 64), (1, 12, rows, width)
    inputs = [relay.var(name, shape=size, dtype=dtype) for name, size in zip("qkv", sizes, strict=True)]
    mod = module(op.nn.attention(*inputs, scale=0.125))
    return mod.map_functions(lambda func: func.with_attr(PRECISION, precision)) if precision else mod


def _operands(mod: IRModule, target: Target) -> str:
    after = narrow_attention(mod, backend_of(target))
    (found,) = [node for node in calls(after["main"].body) if is_call(node, "nn.attention")]
    return str(found.attrs["operands"])


def test_processors_that_gain() -> None:
    for target in (AMX, PAIRS):
        assert _operands(_attention(128), target) == "bfloat16"
    for target in (AMX, NEON):
        assert _operands(_attention(197, precision="float16"), target) == "float16"


@pytest.mark.parametrize("target", PLAIN, ids=lambda target: f"{target.kind} {target.cpu}")
def test_other_processors_keep_float32(target: Target) -> None:
    for precision in ("bfloat16", "float16"):
        assert _operands(_attention(128, precision=precision), target) == ""


def test_what_stays_in_float32() -> None:
    assert _operands(_attention(128, precision=""), AMX) == ""
    assert _operands(_attention(8), AMX) == ""  # fewer rows than a block
    assert _operands(_attention(128, width=40), AMX) == ""  # no whole registers
    assert _operands(_attention(128, precision="bfloat16x3"), AMX) == ""
    assert _operands(_attention(128, precision="float16"), PAIRS) == ""
    assert _operands(_attention(128, dtype="float16"), AMX) == ""


def test_sizes_that_have_no_kernel_are_an_error() -> None:
    query, value = (relay.var("x", shape=(1, 1, rows, 24), dtype="float32") for rows in (16, 20))
    with pytest.raises(TypeMismatchError, match="values of a multiple of 16"):
        infer_type(module(op.nn.attention(query, value, value, operands="bfloat16")))
    with pytest.raises(TypeMismatchError, match="bfloat16 and float16"):
        infer_type(module(op.nn.attention(query, value, value, operands="int8")))


@pytest.mark.parametrize(("precision", "error"), [("bf16", 1e-2), ("f16", 4e-3)])
def test_models_are_compiled_so(precision: str, error: float) -> None:
    needed = "amx-bf16" if precision == "bf16" else "avx512fp16"
    if not Target("cpu").supports(needed):
        pytest.skip(f"this processor has no {needed}")
    mod = _attention(128, precision="")
    inputs = [RNG.standard_normal((1, 12, 128, 64)).astype("float32") for _ in range(3)]
    compiled = tw.compile(mod, precision=precision, cache=False)
    expected = ref.attention(*(x.astype("f8") for x in inputs), scale=0.125)
    found = np.asarray(compiled(*inputs))
    assert 1e-5 < np.abs(found - expected).max() / np.abs(expected).max() < error
