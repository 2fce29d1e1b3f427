"""Models whose tensors no memory holds are one error before anything is allocated."""

from __future__ import annotations

import resource

import numpy as np
import pytest
from onnx import parser

import tilewright as tw
from tilewright.errors import EnvironmentError_
from tilewright.support import memory_limit
from tilewright.support.memory_limit import machine_bytes, require_memory, require_memory_for

SIDE = 1 << 20
CONSTANT = f"(float[1] x) => (float[a, b] y) <int64[2] s = {{{SIDE}, {SIDE}}}>"
MONSTERS = {
    "Resize": f"(float[1,1,2,2] x) => (float[a,b,c,d] y) <int64[4] s = {{1,1,{SIDE},{SIDE}}}> "
    '{ y = Resize(x, "", "", s) }',
    "ConstantOfShape": f"{CONSTANT} {{ z = ConstantOfShape(s) y = Add(z, x) }}",
    "EyeLike": f"{CONSTANT} {{ z = ConstantOfShape(s) e = EyeLike(z) y = Add(e, x) }}",
    "Expand": f"{CONSTANT} {{ y = Expand(x, s) }}",
    "RandomNormal": "(float[1] x) => (float[a, b] y) "
    f"{{ z = RandomNormal <shape = [{SIDE}, {SIDE}]>() y = Add(z, x) }}",
    "Tile": f"(float[2,2] x) => (float[a, b] y) <int64[2] s = {{{SIDE}, {SIDE}}}> {{ y = Tile(x, s) }}",
    "Pad": f"(float[2,2] x) => (float[a, b] y) <int64[4] s = {{0, 0, {SIDE}, {SIDE}}}> {{ y = Pad(x, s) }}",
    "HannWindow": f"(float[1] x) => (float[a] y) <int64 n = {{{1 << 40}}}> {{ w = HannWindow(n) y = Add(w, x) }}",
    "DFT": f"(float[1,4,1] x) => (float[a,b,c] y) <int64 n = {{{1 << 37}}}> {{ y = DFT(x, n) }}",
    "OneHot": f"(int64[4] x) => (float[a,b] y) <int64 n = {{{1 << 38}}}, float[2] v = {{0, 1}}> "
    "{ y = OneHot(x, n, v) }",
    "MatMul": f"(float[{SIDE},1] x) => (float[a,b] y) {{ t = Transpose(x) y = MatMul(x, t) }}",
    "Conv": "(float[1,1,2,2] x, float[1,1,1,1] w) => (float[a,b,c,d] y) "
    f"{{ y = Conv <pads = [{SIDE},{SIDE},0,0]>(x, w) }}",
    "an input": f"(float[{SIDE},{SIDE}] x) => (float[a,b] y) {{ y = Relu(x) }}",
    "Concat": "(float[1048576] x0) => (float[a] x24) { "
    + " ".join(f"x{i + 1} = Concat <axis = 0>(x{i}, x{i})" for i in range(24))
    + " }",
}


@pytest.mark.parametrize("text", MONSTERS.values(), ids=MONSTERS)
def test_a_tensor_that_no_memory_holds(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "machine_bytes", lambda: 1 << 33)
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}')
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(
        EnvironmentError_, match=r"takes [\d.e+]+ .iB of memory, and this machine has 8 GiB: choose smaller "
    ):
        tw.compile(model, cache=False)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # kilobytes


def test_what_fits_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that only a kernel counts through take no memory: a sum over more elements than memory has is fine."""
    monkeypatch.setattr(memory_limit, "machine_bytes", lambda: 1 << 16)
    text = "g (float[1] x) => (float y) <int64[2] s = {256, 256}> { e = Expand(x, s) y = ReduceSum <keepdims = 0>(e) }"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    assert tw.compile(model, cache=False)(np.ones(1, "float32")) == 1 << 16


def test_the_limit_of_the_process_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine_bytes() > 1 << 28
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 20, resource.RLIM_INFINITY))
    require_memory(1 << 20, "a part")
    with pytest.raises(EnvironmentError_, match="a part takes 2 MiB of memory, and this machine has 1 MiB"):
        require_memory(1 << 21, "a part")
    with pytest.raises(EnvironmentError_, match=r"the model \(its outputs: 768 KiB\) takes 1\.25 MiB"):
        require_memory_for([("its inputs", 1 << 19), ("its outputs", 3 << 18)], "the model")
