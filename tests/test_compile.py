"""`compile`: the forms of a model it takes, the cache behind it, the report, and bits that do not depend on threads."""

from __future__ import annotations

import multiprocessing
import struct
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.onnx_models import convolution, make_model, perceptron, saved
from tilewright import relay
from tilewright.driver.model import cache_entry
from tilewright.driver.optimize import optimize_stages
from tilewright.errors import ModelError, TargetError, UnsupportedError
from tilewright.relay.ir.attributes import ABSENT
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.manager.instrument import PassTiming
from tilewright.relay.transform.manager.pass_manager import PassContext
from tilewright.relay.transform.passes import PIPELINE, REQUIRED
from tilewright.support import trace
from tilewright.support.cache import SUBDIRECTORY, DiskCache
from tilewright.target import Target


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test begins with an empty cache."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return saved(perceptron(), tmp_path / "perceptron.onnx")


def random_like(executable: Any, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(executable.inputs[0].shape, dtype=np.float32)


def compile_and_say_whether_cached(*args: Any, **options: Any) -> tuple[Any, bool]:
    """The executable, and whether it came from the cache."""
    with trace.collect() as report:
        executable = tw.compile(*args, **options)
    stages = {row.name for row in report.rows()}
    assert ("load from cache" in stages) != ("compile kernels" in stages)
    return executable, "load from cache" in stages


def test_every_form_of_a_model_gives_the_same_bits(model: Path) -> None:
    forms = [str(model), model, model.read_bytes(), onnx.load(model)]
    executables = [tw.compile(form, cache=False) for form in forms]
    x = random_like(executables[0])
    first, *others = [executable(x) for executable in executables]
    assert first.shape == (1, 4) and np.any(first)
    for other in others:
        np.testing.assert_array_equal(other, first)


def test_a_relay_module() -> None:
    x = relay.Var("x", relay.TensorType((2, 3), "float32"))
    body = relay.tanh(relay.add(x, relay.Constant(np.float32(1.0))))
    executable = tw.compile(relay.IRModule({relay.GlobalVar("main"): relay.Function((x,), body)}))
    value = random_like(executable)
    np.testing.assert_allclose(executable(value), np.tanh(value + 1), rtol=1e-5, atol=1e-6)


def test_what_is_no_model() -> None:
    with pytest.raises(UnsupportedError, match="cannot compile a list; pass the path or bytes"):
        tw.compile([1, 2])
    with pytest.raises(ModelError, match="there is no such file"):
        tw.compile("absent.onnx")
    with pytest.raises(TargetError, match="abacus"):
        tw.compile(perceptron(), target="abacus")


def test_the_second_compile_is_a_load_of_the_same_bits(model: Path) -> None:
    first, cached_at_first = compile_and_say_whether_cached(model)
    second, cached_then = compile_and_say_whether_cached(model)
    assert (cached_at_first, cached_then) == (False, True)
    assert second.object_code == first.object_code and second.manifest.kernels == first.manifest.kernels
    x = random_like(first)
    np.testing.assert_array_equal(second(x), first(x))


def test_a_copy_elsewhere_and_the_same_bytes_hit_the_cache(model: Path, tmp_path: Path) -> None:
    tw.compile(model)
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(model.read_bytes())
    assert compile_and_say_whether_cached(copy)[1]
    tw.compile(model.read_bytes())
    assert compile_and_say_whether_cached(model.read_bytes())[1]


def test_the_key_follows_weights_shapes_and_target(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    host = tw.Target("cpu")
    variants: list[tuple[onnx.ModelProto, dict[str, Any]]] = [
        (perceptron(), {}),
        (perceptron(seed=1), {}),
        (perceptron("n"), {"input_shapes": {"x": (2, 8)}}),
        (perceptron("n"), {"input_shapes": {"x": (3, 8)}}),
        (perceptron(), {"target": f"llvm -mtriple={host.triple} -mcpu=x86-64-v3"}),
    ]
    if "x86_64" not in host.triple:
        variants.pop()
    for proto, options in variants:
        assert not compile_and_say_whether_cached(saved(proto, path), **options)[1]
    for proto, options in variants:
        assert compile_and_say_whether_cached(saved(proto, path), **options)[1]


def test_a_change_of_external_data_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(perceptron(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    executable, _ = compile_and_say_whether_cached(path)
    x = random_like(executable)
    before = executable(x)
    assert compile_and_say_whether_cached(path)[1]
    data = bytearray((tmp_path / "weights.bin").read_bytes())
    data[3] ^= 0x80  # the sign of the first weight
    (tmp_path / "weights.bin").write_bytes(bytes(data))
    changed, cached = compile_and_say_whether_cached(path)
    assert not cached and not np.array_equal(changed(x), before)


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: data[:300] + b"\0" * 8 + data[308:]])
def test_a_damaged_cache_entry_is_compiled_again(damage: Any, model: Path, own_cache: Path) -> None:
    x = random_like(tw.compile(model))
    expected = tw.compile(model)(x)
    (entry,) = (own_cache / SUBDIRECTORY / "artifact").iterdir()
    entry.write_bytes(damage(entry.read_bytes()))
    np.testing.assert_array_equal(tw.compile(model)(x), expected)
    assert compile_and_say_whether_cached(model)[1]


@pytest.mark.parametrize("part", ["manifest", "code", "weights", "trailer"])
def test_one_flipped_bit_in_a_cache_entry_is_found(part: str, model: Path, own_cache: Path) -> None:
    x = random_like(tw.compile(model))
    expected = tw.compile(model)(x)
    (entry,) = (own_cache / SUBDIRECTORY / "artifact").iterdir()
    data = bytearray(entry.read_bytes())
    offsets = struct.unpack_from("<6Q", data, 24)
    where = {"manifest": offsets[0] + 9, "code": offsets[2] + 90, "weights": offsets[4] + 3, "trailer": len(data) - 1}
    data[where[part]] ^= 0x40
    entry.write_bytes(data)
    with trace.collect() as report:
        again = tw.compile(model)
    assert "compile kernels" in {row.name for row in report.rows()}
    np.testing.assert_array_equal(again(x), expected)
    assert compile_and_say_whether_cached(model)[1]


def test_large_weights_are_mapped_from_the_cache(model: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_entry, "WORTH_MAPPING", 1)
    plain = tw.compile(model, cache=False)
    with trace.collect() as report:
        mapped = tw.compile(model)
    assert [row.name for row in report.rows() if len(row.path) == 1][-2:] == ["write to cache", "link"]
    assert plain._weights.flags.writeable and not mapped._weights.flags.writeable
    assert DiskCache(own_cache).clear("artifact") == 1
    np.testing.assert_array_equal(mapped(random_like(mapped)), plain(random_like(plain)))


def test_large_weights_are_kept_in_memory_where_the_cache_has_no_room(
    model: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_entry, "WORTH_MAPPING", 1)
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", "100")
    executable = tw.compile(model)
    assert executable._weights.flags.writeable and executable(random_like(executable)) is not None


def test_a_daemonic_process_compiles(model: Path) -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        made = pool.apply_async(compiled_apart, (model,)).get(120)
    executable = tw.compile(model, cache=False)
    np.testing.assert_array_equal(made, executable(random_like(executable)))


def compiled_apart(model: Path) -> np.ndarray:
    executable = tw.compile(model, cache=False)
    return executable(random_like(executable))


def test_no_cache_writes_nothing(model: Path, own_cache: Path) -> None:
    tw.compile(model, cache=False)
    assert not own_cache.exists()


def test_the_report_has_every_stage_and_adds_up(model: Path) -> None:
    with trace.collect() as report:
        tw.compile(model)
    top = [row.name for row in report.rows() if len(row.path) == 1]
    passes = [one.name for one in PIPELINE if one.level < REQUIRED]
    assert top == ["frontend", *passes, "plan memory", "compile kernels", "run loop", "link", "write to cache"]
    accounted = sum(row.seconds for row in report.rows() if len(row.path) == 1)
    assert accounted <= report.seconds
    assert report.counters["kernels"] == report.counters["kernel calls"] == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["perceptron", "convolution", "large"])
def test_threads_do_not_change_a_bit(name: str) -> None:
    proto = {"perceptron": perceptron, "convolution": convolution, "large": wide_network}[name]()
    executables = [tw.compile(proto, threads=threads, cache=False) for threads in (1, 2, 3)]
    x = random_like(executables[0], seed=4)
    first, *others = [executable(x) for executable in executables for _ in range(3)]
    for other in others:
        np.testing.assert_array_equal(other, first)


def wide_network() -> onnx.ModelProto:
    """Large enough to be shared out among threads: two convolutions of 64 channels, a softmax over all of them."""
    generator = np.random.default_rng(0)
    weights = {
        "w0": generator.standard_normal((64, 3, 3, 3), dtype=np.float32),
        "w1": generator.standard_normal((64, 64, 3, 3), dtype=np.float32) / 24,
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Softmax", ["c"], ["y"], axis=1),
    ]
    inputs, outputs = {"x": (TensorProto.FLOAT, (1, 3, 40, 40))}, {"y": (TensorProto.FLOAT, (1, 64, 40, 40))}
    return make_model(nodes, inputs, outputs, weights)


def test_compiling_twice_gives_the_same_code(model: Path) -> None:
    first, second = (tw.compile(model, cache=False) for _ in range(2))
    assert first.object_code == second.object_code and first.manifest == second.manifest


def test_two_executables_take_turns_in_one_process() -> None:
    left, right = tw.compile(perceptron()), tw.compile(wide_network(), threads=2)
    inputs = random_like(left), random_like(right)
    alone = left(inputs[0]), right(inputs[1])
    for _ in range(20):
        np.testing.assert_array_equal(left(inputs[0]), alone[0])
        np.testing.assert_array_equal(right(inputs[1]), alone[1])


def test_outputs_are_fresh_arrays() -> None:
    executable = tw.compile(perceptron())
    first = executable(random_like(executable, 1))
    kept = first.copy()
    executable(random_like(executable, 2))
    np.testing.assert_array_equal(first, kept)


def test_an_open_pass_context_switches_passes_off_and_watches_them() -> None:
    x = relay.var("x", shape=(1, 16, 8, 8))
    weight = relay.const(np.random.default_rng(0).standard_normal((16, 16, 3, 3)).astype("float32"))
    mod = relay.IRModule.from_expr(relay.nn.relu(relay.nn.conv2d(x, weight, padding=1)))
    names = [name for name, _ in optimize_stages(mod, Target("cpu"))]
    with PassContext(opt_level=2, required_pass=["fold_scale_axis"], disabled_pass=["pack_dense"]):
        fewer = [name for name, _ in optimize_stages(mod, Target("cpu"))]
    assert {"alter_layout", "pack_dense", "fold_scale_axis", "fuse_ops"} <= set(names)
    assert {"fold_scale_axis", "fuse_ops"} <= set(fewer)
    assert not {"alter_layout", "pack_dense"} & set(fewer)
    value = np.ones((1, 16, 8, 8), "float32")
    plain = tw.compile(mod)(value)
    with PassContext(opt_level=0, instruments=[timing := PassTiming()]):
        slow = tw.compile(mod)(value)
        assert "fuse_ops" in [name for _, name, _ in timing.rows]
    np.testing.assert_allclose(slow, plain, rtol=1e-4, atol=1e-4)


def _small_network() -> relay.IRModule:
    """A function that many passes change: batch norm, padding, attention, equal calls, constants to fold."""
    generator = np.random.default_rng(3)

    def weights(*shape: int) -> relay.Constant:
        return relay.const(generator.standard_normal(shape, np.float32) / np.float32(np.sqrt(shape[-1] * 9)))

    x = relay.var("x", shape=(2, 3, 12, 12))
    y = relay.nn.conv2d(relay.nn.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)]), weights(16, 3, 3, 3))
    ones = relay.const(np.ones(16, "float32"))
    y = relay.nn.relu(relay.nn.batch_norm(y, ones, weights(16), weights(16), ones)[0])
    y = relay.nn.conv2d(y, weights(16, 16, 3, 3), padding=1) + relay.nn.dropout(y)
    rows = relay.reshape(relay.transpose(y, (0, 2, 3, 1)), (2, 144, 16))
    scores = relay.nn.softmax(relay.nn.batch_matmul(rows, rows) * relay.const(0.25))
    mixed = relay.nn.batch_matmul(scores, rows, transpose_b=False)
    out = relay.nn.dense(relay.reshape(mixed, (288, 16)), weights(7, 16))
    return relay.IRModule.from_expr(relay.tanh(out) + relay.tanh(out))


def test_all_levels_compute_the_same() -> None:
    mod = _small_network()
    value = np.random.default_rng(5).standard_normal((2, 3, 12, 12)).astype("float32")
    (wanted,) = relay.interpreter.interpreter.interpret(mod["main"], {"x": value})
    for level in range(5):
        with PassContext(opt_level=level):
            got = tw.compile(mod, cache=False)(value)
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-4, err_msg=f"opt_level={level}")


def test_level_0_optimizes_nothing() -> None:
    mod = _small_network()
    with PassContext(opt_level=0):
        stages = dict(optimize_stages(mod, Target("cpu")))
    assert list(stages) == ["relay", "infer_type", "expand_operators", "fold_empty", "simplify_inference", "fuse_ops"]
    kernels = [call.op for call in calls(stages["fuse_ops"]["main"].body)]
    assert kernels and all(isinstance(kernel, relay.Function) and len(calls(kernel.body)) == 1 for kernel in kernels)
    before = [call.op for call in calls(stages["simplify_inference"]["main"].body)]
    assert len(kernels) == len(before)


def test_what_executors_need_is_not_switched_off() -> None:
    mod = _small_network()
    with PassContext(disabled_pass=["fuse_ops", "infer_type"]):
        *_, (_, last) = optimize_stages(mod, Target("cpu"))
    kernels = [call.op for call in calls(last["main"].body)]
    assert kernels and all(isinstance(kernel, relay.Function) and len(calls(kernel.body)) == 1 for kernel in kernels)


def test_every_call_has_the_attributes_that_its_operator_declares() -> None:
    """Passes write calls by hand; what is left out there is a missing key in a kernel or a reference."""
    for stage, mod in optimize_stages(_small_network(), Target("cpu")):
        bodies = [mod["main"].body, *[c.op.body for c in calls(mod["main"].body) if isinstance(c.op, relay.Function)]]
        for call in calls(*bodies):
            if isinstance(call.op, Op) and call.op.attributes is not None:
                always = {name for name, one in call.op.attributes.items() if one.default is not ABSENT}
                assert always <= set(call.attrs) <= set(call.op.attributes), f"{stage}: {call.op}"
