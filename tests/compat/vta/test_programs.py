"""Programs against the classic `vta`: environments, builds, sessions and counters, on the simulators."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tilewright.compat
from tilewright.errors import UnsupportedError, UserError


@pytest.fixture(autouse=True)
def classic():
    tilewright.compat.install()
    yield
    tilewright.compat.uninstall()


def relu_schedule(env, te, tvm, n=12):
    """max(x, 0) on the vector unit."""
    shape = (n, env.BATCH, env.BLOCK_OUT)
    x = te.placeholder(shape, name="x", dtype=env.acc_dtype)
    loaded = te.compute(shape, lambda *i: x(*i), name="loaded")
    made = te.compute(shape, lambda *i: tvm.te.max(loaded(*i), tvm.tir.const(0, env.acc_dtype)), name="made")
    out = te.compute(shape, lambda *i: made(*i).astype(env.out_dtype), name="out")
    s = te.create_schedule(out.op)
    for tensor in (loaded, made):
        s[tensor].set_scope(env.acc_scope)
    s[loaded].pragma(loaded.op.axis[0], env.dma_copy)
    s[made].pragma(made.op.axis[0], env.alu)
    s[out].pragma(out.op.axis[0], env.dma_copy)
    return s, [x, out]


def test_the_environment_is_the_default_configuration():
    import tvm
    import vta

    env = vta.get_env()
    assert env.TARGET == "sim"
    figures = {"BATCH": 1, "BLOCK_IN": 16, "BLOCK_OUT": 16, "INP_WIDTH": 8, "ACC_WIDTH": 32, "WGT_BUFF_SIZE": 1 << 18}
    figures |= {"WGT_ELEM_BYTES": 256, "OUT_BUFF_SIZE": 1 << 15, "inp_dtype": "int8", "acc_dtype": "int32"}
    figures |= {"BITSTREAM": "1x16_i8w8a32_15_15_18_17", "MODEL": "sim_1x16_i8w8a32_15_15_18_17"}
    assert {name: getattr(env, name) for name in figures} == figures
    assert env.dev.get_task_qid(env.dev.QID_STORE_OUT) == 3
    assert env.dev.MEM_ID_ACC_8BIT == 5
    assert "vta" in env.target.keys
    assert env.target.model == figures["MODEL"]
    assert tvm.target.Target(env.target, host=env.target_host).host.kind == "llvm"
    assert "arm_cpu" in env.target_vta_cpu.keys


def test_another_environment_for_a_while():
    import vta

    env = vta.get_env()
    with vta.Environment({**env.cfg_dict, "LOG_BATCH": 1, "LOG_BLOCK": 4, "TARGET": "tsim"}) as other:
        assert vta.get_env() is other and other.BATCH == 2 and other.OUT_ELEM_BYTES == 32
    assert vta.get_env() is env
    mock = env.mock
    assert (mock.alu, mock.dma_copy, mock.mock) == ("skip_alu", "skip_dma_copy", mock) and env.alu == "alu"
    with pytest.raises(UserError, match="square"):
        vta.Environment({"LOG_BLOCK_IN": 4, "LOG_BLOCK_OUT": 5})


@pytest.mark.parametrize("kind", ["sim", "tsim"])
def test_a_schedule_is_built_sent_and_run(kind, tmp_path):
    import tvm
    import vta
    from tvm import rpc, te
    from vta.testing import simulator

    with vta.Environment({"TARGET": kind}) as env:
        s, args = relu_schedule(env, te, tvm)
        assert "vta.load" in str(vta.lower(s, args, simple_mode=True))
        with vta.build_config():
            module = vta.build(s, args, tvm.target.Target("ext_dev", host=env.target_host), name="relu")
        assert "ALU op=MAX" in module.get_source() or "ALU" in module.get_source()
        module.save(str(tmp_path / "relu.o"))
        remote = rpc.LocalSession()
        remote.upload(str(tmp_path / "relu.o"))
        f = remote.load_module("relu.o")
        dev = remote.ext_dev(0)
        values = np.random.default_rng(0).integers(-9, 9, (12, env.BATCH, env.BLOCK_OUT)).astype("int32")
        x, y = tvm.nd.array(values, dev), tvm.nd.array(np.zeros(values.shape, "int8"), dev)
        simulator.clear_stats()
        f(x, y)
        np.testing.assert_array_equal(y.numpy(), np.maximum(values, 0))
        stats = simulator.stats()
        assert stats == json.loads(
            tvm.get_global_func(f"vta.{'simulator' if kind == 'sim' else kind}.profiler_status")()
        )
        if kind == "sim":
            assert (stats["acc_load_nbytes"], stats["out_store_nbytes"], stats["alu_counter"]) == (768, 192, 12)
        else:
            assert stats["cycle_count"] > 12
        assert f.time_evaluator("relu", dev, number=2)(x, y).mean > 0


def test_a_convolution_of_the_operator_library():
    import tvm
    import vta
    import vta.testing
    from tvm import te, topi

    def program(env, remote):
        shape, kernel_shape = (1, 2, 9, 8, 1, 16), (4, 2, 3, 3, 16, 16)
        data = te.placeholder(shape, name="data", dtype=env.inp_dtype)
        kernel = te.placeholder(kernel_shape, name="kernel", dtype=env.wgt_dtype)
        bias = te.placeholder((1, 4, 1, 1, 1, 16), name="bias", dtype=env.acc_dtype)
        with env.target:
            sums = vta.top.conv2d_packed(data, kernel, (2, 1), (1, 1, 1, 1), (1, 1), "NCHW1n16c", env.acc_dtype)
            result = topi.cast(topi.add(topi.right_shift(sums, 8), bias), env.out_dtype)
            s = vta.top.schedule_conv2d_packed([result])
        f = vta.build(s, [data, kernel, bias, result], env.target, name="conv")
        rng = np.random.default_rng(0)
        d, k = (rng.integers(-128, 128, size).astype("int8") for size in (shape, kernel_shape))
        b = rng.integers(-9, 9, (1, 4, 1, 1, 1, 16)).astype("int32")
        out = tvm.nd.array(np.zeros((1, 4, 5, 8, 1, 16), "int8"), remote.ext_dev(0))
        f(tvm.nd.array(d), tvm.nd.array(k), tvm.nd.array(b), out)
        image = np.pad(d[:, :, :, :, 0].astype(int), ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(2, 3))[:, :, ::2]
        expected = (np.einsum("nchwbyx,ocyxpb->nohwp", windows, k.astype(int)) >> 8)[:, :, :, :, None] + b
        np.testing.assert_array_equal(out.numpy(), expected.astype("int8"))

    vta.testing.run(program)


def test_what_needs_a_board_is_refused():
    import vta
    from vta.testing import simulator

    vta.program_fpga(None, bitstream=None)
    vta.reconfig_runtime(None)
    assert simulator.enabled()
    with vta.Environment({"TARGET": "pynq"}) as env:
        assert "armv7" in env.target_host
        with pytest.raises(UnsupportedError, match="no driver of a board"):
            vta.program_fpga(None)
    with pytest.raises(UnsupportedError, match="8 bits"):
        vta.top.graph_pack(None, 1, 16, 4)
