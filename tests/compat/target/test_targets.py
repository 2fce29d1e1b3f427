"""`tvm.target.Target`: spellings, options and attributes, and code for other processors to read."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from tilewright.errors import TargetError, UnsupportedError

pytestmark = pytest.mark.usefixtures("classic")


def test_what_a_target_tells() -> None:
    from tvm.target import Target

    target = Target("llvm -mcpu=core-avx2 -libs=mkl,dnnl --system-lib -device=arm_cpu -mattr=+fma --host=llvm")
    assert target.kind.name == "llvm" and target.kind == "llvm" and target.mcpu == "core-avx2"
    assert target.keys == ["arm_cpu", "cpu"] and target.libs == ["mkl", "dnnl"] and target.device_name == "arm_cpu"
    assert target.attrs["system-lib"] is True and target.attrs.get("supports_float16", False) is False
    assert target.mattr == ["+fma"] and target.host.kind.name == "llvm" and target.model == "unknown"
    assert target.export()["kind"] == "llvm" and "host" not in target.attrs
    assert Target("llvm").mcpu == "" and Target("llvm").keys == ["cpu"] and Target("llvm").host is None
    gpu = Target("cuda -max_num_threads 512", host="llvm -mcpu=haswell")
    assert gpu.keys == ["cuda", "gpu"] and gpu.max_num_threads == 512 and gpu.host.mcpu == "haswell"
    for twin in (copy.deepcopy(target), pickle.loads(pickle.dumps(target)), Target(target)):
        assert twin == target and twin.keys == target.keys and twin.attrs == target.attrs


def test_targets_by_their_attributes() -> None:
    from tvm.target import Target

    made = Target({"kind": "llvm", "mcpu": "znver4", "libs": ["mkl"], "host": {"kind": "llvm", "mcpu": "haswell"}})
    assert made.mcpu == "znver4" and made.libs == ["mkl"] and made.host.mcpu == "haswell"
    assert made == Target('{"kind": "llvm", "mcpu": "znver4"}') == Target("llvm -mcpu=znver4")
    with pytest.raises(TargetError, match="unknown option '-mspeed=9'"):
        Target("llvm -mspeed=9")
    with pytest.raises(TargetError, match="a mapping with a 'kind'"):
        Target({"mcpu": "znver4"})


def test_the_current_target() -> None:
    from tvm.target import Target

    assert Target.current() is None
    with Target("llvm -mcpu=haswell") as outer:
        with Target("cuda"):
            assert Target.current().kind.name == "cuda"
        assert Target.current() is outer
    with pytest.raises(TargetError, match="there is no current target"):
        Target.current(allow_none=False)


def test_code_for_another_processor() -> None:
    import tvm
    from tvm import te

    n = 64
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="b")
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[0], 16)[1])
    wide = tvm.build(s, [a, b], "llvm -mcpu=skylake-avx512")
    narrow = tvm.build(s, [a, b], "llvm -mcpu=corei7")
    assert "zmm" in wide.get_source("asm") and "ymm" not in narrow.get_source("asm") + narrow.get_source("s")
    assert "<16 x float>" in wide.get_source("ll")
    with pytest.raises(UnsupportedError, match="no assembly of code for 'c'"):
        tvm.build(s, [a, b], "c").get_source("asm")
    with tvm.target.Target("llvm"):
        x, out = tvm.nd.array(np.arange(n, dtype="float32")), tvm.nd.empty((n,))
        tvm.build(s, [a, b])(x, out)
    np.testing.assert_array_equal(out.numpy(), x.numpy() * 2)


def test_models_for_another_processor() -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(4, 64))
    func = relay.Function([x], relay.nn.dense(x, relay.const(np.ones((32, 64), "float32"))))
    wide = relay.build(tvm.IRModule.from_expr(func), "llvm -mcpu=skylake-avx512")
    assert "zmm" in wide.get_source("asm") and "x float>" in wide.get_source()
    _, lib, _ = relay.build(tvm.IRModule.from_expr(func), "llvm -mcpu=corei7")
    assert "xmm" in lib.get_source("asm") and "ymm" not in lib.get_source("asm")
    foreign = relay.build(tvm.IRModule.from_expr(func), "llvm -mtriple=aarch64-linux-gnu")
    assert "fmla" in foreign.get_source("asm")
    with pytest.raises(TargetError, match=r"cannot run code for llvm -mtriple=aarch64.*look at get_source"):
        foreign["default"](tvm.cpu())
    with pytest.raises(UnsupportedError, match="the formats of a model are ll and asm"):
        wide.get_source("cl")
