"""Classic programs of the operator library, with its references in NumPy tried against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import ArtifactError, InputError, UnsupportedError

pytestmark = pytest.mark.usefixtures("classic")


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def _windows(x: np.ndarray, size: int, stride: int) -> np.ndarray:
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))[:, :, ::stride, ::stride]


def _run(outs: object, args: list, arrays: list, target: str = "llvm") -> np.ndarray:
    """The last of `args`, computed from `arrays` with the library's own schedule."""
    import tvm

    with tvm.target.Target(target):
        s = tvm.topi.generic.schedule_injective(outs)
    out = tvm.nd.empty(tvm.topi.utils.get_const_tuple(args[-1].shape), str(args[-1].dtype))
    tvm.build(s, args, target)(*map(tvm.nd.array, arrays), out)
    return out.numpy()


@pytest.mark.parametrize(("stride", "padding"), [(1, 1), (2, "SAME"), ((1, 1), (1, 1)), (1, "VALID")])
def test_convolutions_of_both_layouts(stride: object, padding: object) -> None:
    import tvm
    from tvm import te, topi

    x, w = _random(1, 4, 9, 9), _random(6, 4, 3, 3, seed=1)
    before = 0 if padding == "VALID" else 1
    padded = np.pad(x, ((0, 0), (0, 0), (before, before), (before, before)))
    step = stride if isinstance(stride, int) else stride[0]
    expected = np.einsum("nchwij,ocij->nohw", _windows(padded, 3, step), w)
    tvm.testing.assert_allclose(topi.testing.conv2d_nchw_python(x, w, stride, padding), expected, 1e-4, 1e-4)
    a, b = te.placeholder(x.shape, name="A"), te.placeholder(w.shape, name="W")
    c = topi.nn.conv2d(a, b, stride, padding, 1, layout="NCHW")
    tvm.testing.assert_allclose(_run([c], [a, b, c], [x, w]), expected, 1e-4, 1e-4)
    last, kernel = x.transpose(0, 2, 3, 1).copy(), w.transpose(2, 3, 1, 0).copy()
    tvm.testing.assert_allclose(
        topi.testing.conv2d_nhwc_python(last, kernel, stride, padding), expected.transpose(0, 2, 3, 1), 1e-4, 1e-4
    )
    a, b = te.placeholder(last.shape, name="A"), te.placeholder(kernel.shape, name="W")
    c = topi.nn.conv2d(a, b, stride, padding, 1, layout="NHWC")
    tvm.testing.assert_allclose(_run([c], [a, b, c], [last, kernel]), expected.transpose(0, 2, 3, 1), 1e-4, 1e-4)


def test_layouts_and_padding_that_are_not_there_say_so() -> None:
    from tvm import te, topi

    a, b = te.placeholder((1, 4, 9, 9)), te.placeholder((6, 4, 3, 3))
    with pytest.raises(UnsupportedError, match="the layouts are NCHW and NHWC, not HWCN"):
        topi.nn.conv2d(a, b, 1, 1, 1, layout="HWCN")
    with pytest.raises(InputError, match='"VALID" or "SAME"; got \'SOME\''):
        topi.nn.utils.get_pad_tuple("SOME", (3, 3))
    with pytest.raises(InputError, match="n is no constant"):
        topi.utils.get_const_int(te.var("n"))


def test_depthwise_and_transposed_convolution_pooling_and_dense() -> None:
    import tvm
    from tvm import te, topi

    x, w = _random(1, 4, 8, 8), _random(4, 2, 3, 3, seed=1)
    a, b = te.placeholder(x.shape, name="A"), te.placeholder(w.shape, name="W")
    c = topi.nn.depthwise_conv2d_nchw(a, b, 1, 0, 1)
    expected = np.einsum("nchwij,cmij->ncmhw", _windows(x, 3, 1), w).reshape(1, 8, 6, 6)
    tvm.testing.assert_allclose(_run([c], [a, b, c], [x, w]), expected, 1e-4, 1e-4)
    tvm.testing.assert_allclose(topi.testing.depthwise_conv2d_python_nchw(x, w, 1, 0), expected, 1e-4, 1e-4)

    c = topi.nn.conv2d_transpose_nchw(a, b, (2, 2), (1, 1), "float32", (0, 0))
    spread = topi.testing.dilate_python(x, (1, 1, 2, 2))
    expected = np.einsum(
        "nchwij,coij->nohw", _windows(np.pad(spread, ((0, 0), (0, 0), (1, 1), (1, 1))), 3, 1), w[..., ::-1, ::-1]
    )
    tvm.testing.assert_allclose(_run([c], [a, b, c], [x, w]), expected, 1e-4, 1e-4)
    tvm.testing.assert_allclose(topi.testing.conv2d_transpose_nchw_python(x, w, 2, (1, 1)), expected, 1e-4, 1e-4)

    c = topi.nn.pool2d(a, [2, 2], [2, 2], [1, 1], [0, 0, 0, 0], "max")
    tvm.testing.assert_allclose(_run([c], [a, c], [x]), _windows(x, 2, 2).max(axis=(4, 5)))

    data, weight, bias = _random(3, 5), _random(7, 5, seed=1), _random(7, seed=2)
    positions = [te.placeholder(array.shape, name=f"p{i}") for i, array in enumerate((data, weight, bias))]
    c = topi.nn.dense(*positions)
    tvm.testing.assert_allclose(_run([c], [*positions, c], [data, weight, bias]), data @ weight.T + bias, 1e-4, 1e-4)
    tvm.testing.assert_allclose(
        topi.testing.dense(data, weight, bias, True, True), np.maximum(data @ weight.T + bias, 0), 1e-4
    )


def test_softmax_with_the_schedule_of_its_target() -> None:
    import tvm
    from tvm import te, topi

    a = te.placeholder((4, 10), name="A")
    b = topi.nn.softmax(a, axis=1)
    s = topi.testing.get_softmax_schedule("llvm")(b)
    x, out = _random(4, 10), tvm.nd.empty((4, 10))
    tvm.build(s, [a, b], "llvm")(tvm.nd.array(x), out)
    expected = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    tvm.testing.assert_allclose(out.numpy(), expected, 1e-5, 1e-6)
    tvm.testing.assert_allclose(topi.testing.softmax_python(x), expected, 1e-5, 1e-6)
    tvm.testing.assert_allclose(np.exp(topi.testing.log_softmax_python(x)), expected, 1e-5, 1e-6)


def test_an_injective_schedule_for_devices() -> None:
    import tvm
    from tvm import te, topi

    a = te.placeholder((5, 30), name="A")
    b = topi.flip(topi.tanh(a), 1)
    x = _random(5, 30)
    tvm.testing.assert_allclose(_run([b], [a, b], [x], "cuda -emulate=1"), np.tanh(x)[:, ::-1].copy(), 1e-5, 1e-6)


def test_dispatch_takes_the_target_s_entry_or_the_generic_one() -> None:
    from tvm import topi

    table = {"generic": "g", "cpu": "c"}
    assert topi.testing.dispatch("llvm", table) == "c"
    assert topi.testing.dispatch("cuda", table) == "g"
    assert topi.testing.dispatch("opencl", {"gpu": "device"}) == "device"
    with pytest.raises(InputError, match="nothing for the target llvm; there are entries for: cuda"):
        topi.testing.dispatch("llvm", {"cuda": 1})


def test_inlining_up_to_an_output() -> None:
    import tvm
    from tvm import te, topi

    a = te.placeholder((6,), name="A")
    b = topi.exp(a)
    c = topi.negative(b)
    s = te.create_schedule(c.op)
    met = []
    topi.utils.traverse_inline(s, c.op, lambda op: met.append(op))
    assert met == [b.op, c.op]
    loops = str(tvm.lower(s, [a, c], simple_mode=True)).count("for ")
    assert loops == 1
    assert topi.utils.prod((2, 3)) == 6 and topi.utils.prod(()) == 1
    n = te.var("n")
    assert topi.utils.get_const_tuple((tvm.tir.const(2), n)) == (2, n)


def test_references_of_other_operators() -> None:
    from tvm.topi import testing

    x = _random(2, 3, 6)
    w = _random(4, 3, 3, seed=1)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1))), 3, axis=2)
    np.testing.assert_allclose(
        testing.conv1d_ncw_python(x, w, 1, 1), np.einsum("ncwk,ock->now", windows, w), rtol=1e-4, atol=1e-5
    )
    volume, kernel = _random(1, 2, 4, 5, 6), _random(3, 2, 3, 3, 3, seed=1)
    blocks = np.lib.stride_tricks.sliding_window_view(volume, (3, 3, 3), axis=(2, 3, 4))
    expected = np.einsum("ncdhwijk,ocijk->nodhw", blocks, kernel)
    np.testing.assert_allclose(testing.conv3d_ncdhw_python(volume, kernel, 1, 0), expected, rtol=1e-4, atol=1e-5)
    last = testing.conv3d_ndhwc_python(volume.transpose(0, 2, 3, 4, 1), kernel.transpose(2, 3, 4, 1, 0), 1, "VALID")
    np.testing.assert_allclose(last, expected.transpose(0, 2, 3, 4, 1), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(testing.one_hot(np.array([2, 0]), 5, 1, 3, 0, "int32"), [[1, 5], [1, 1], [5, 1]])
    np.testing.assert_array_equal(testing.strided_slice_python(x, (0, 1), (2, 3), (1, 1)), x[0:2, 1:3])
    np.testing.assert_array_equal(testing.strided_slice_python(x, (1, 0), (-1, 2), slice_mode="size"), x[1:, 0:2])
    np.testing.assert_allclose(
        testing.l2_normalize_python(x, 1e-9, [2]), x / np.linalg.norm(x, axis=2, keepdims=True), rtol=1e-5
    )
    image = _random(1, 1, 3, 3)
    doubled = testing.resize2d_python(image, (2, 2), "NCHW", "nearest_neighbor", "asymmetric")
    np.testing.assert_array_equal(doubled, image.repeat(2, axis=2).repeat(2, axis=3))
    smooth = testing.resize2d_python(image, (5 / 3, 5 / 3), method="bilinear")
    np.testing.assert_allclose(smooth[0, 0, ::2, ::2], image[0, 0], rtol=1e-5)
    np.testing.assert_allclose(smooth[0, 0, 0, 1], image[0, 0, 0, :2].mean(), rtol=1e-5)


def test_what_describes_a_convolution() -> None:
    import tvm
    from tvm import autotvm, te
    from tvm.topi.nn.conv2d import _get_workload
    from tvm.topi.x86.conv2d_avx_common import _fallback_schedule

    data, kernel = te.placeholder((1, 12, 30, 28)), te.placeholder((20, 12, 3, 5))
    workload = _get_workload(data, kernel, (2, 1), (1, 2), 2, "float32")
    assert (workload.in_filter, workload.out_filter, workload.kernel_w, workload.groups) == (12, 20, 5, 1)
    assert (workload.padt, workload.padl, workload.stride_h, workload.dilation_w) == (1, 2, 2, 2)
    channels_last = _get_workload(
        te.placeholder((1, 30, 28, 12)), te.placeholder((3, 5, 12, 20)), (2, 1), (1, 2), 2, "float32", "NHWC"
    )
    assert channels_last == workload
    config = autotvm.get_config()
    with tvm.target.Target("llvm -mcpu=haswell"), autotvm.FallbackContext(), autotvm.tophub.context("llvm"):
        _fallback_schedule(config, workload)
    columns = 28 + 4 - (4 * 2 + 1) + 1
    assert np.prod(config["tile_ow"].size) == columns and config["tile_oc"].size == [4, 5]
    with pytest.raises(ArtifactError, match=r"records\.log: this log cannot be read"):
        autotvm.tophub.context("llvm", extra_files=["records.log"])


def test_same_padding_of_a_dilated_convolution() -> None:
    from tvm import te, topi

    data = te.placeholder((1, 3, 9, 8))
    x, w = _random(1, 3, 9, 8), _random(4, 3, 3, 2)
    for function, weight in ((topi.nn.conv2d_nchw, w), (topi.nn.depthwise_conv2d_nchw, w[:3, :1])):
        filters = te.placeholder(weight.shape)
        out = function(data, filters, 1, "SAME", 2, "float32")
        assert topi.utils.get_const_tuple(out.shape)[2:] == (9, 8)
        wide = np.zeros((*weight.shape[:2], 5, 3), "float32")
        wide[:, :, ::2, ::2] = weight
        padded = np.pad(x, ((0, 0), (0, 0), (2, 2), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 3), (2, 3))
        grouped = "nchwij,cfij->nchw" if function is topi.nn.depthwise_conv2d_nchw else "nchwij,ocij->nohw"
        np.testing.assert_allclose(
            _run([out], [data, filters, out], [x, weight]), np.einsum(grouped, windows, wide), rtol=1e-4, atol=1e-4
        )


def test_shapes_and_positions_by_their_classic_parameters() -> None:
    from tvm import te, topi

    a, b = te.placeholder((3, 4), name="a"), te.placeholder((2, 4), name="b")
    positions = te.placeholder((3,), "int32", name="places")
    x, y, i = _random(3, 4), _random(2, 4, seed=1), np.array([-2, 9, 1], "int32")
    programs = (
        (topi.concatenate(a_tuple=(a, b), axis=0), [a, b], [x, y], np.concatenate([x, y])),
        (topi.take(a=a, indices=positions, axis=1, mode="clip"), [a, positions], [x, i], x[:, [0, 3, 1]]),
        (topi.take(a, positions), [a, positions], [x, i], x.ravel()[[0, 9, 1]]),
        (topi.take(a, positions, axis=0, mode="wrap"), [a, positions], [x, i], x[[1, 0, 1]]),
        (topi.arange(1, 20, 1.5), [], [], np.arange(1, 20, 1.5, "float32")),
        (topi.arange(5, dtype="int32"), [], [], np.arange(5, dtype="int32")),
        (topi.arange(20, 1, -3, "int32"), [], [], np.arange(20, 1, -3, "int32")),
        (topi.one_hot(positions, 5, 2, 4, 0, "int32"), [positions], [np.array([0, 3, 1], "int32")],
         np.where(np.eye(4)[:, [0, 3, 1]] == 1, 5, 2)),
        (topi.where(topi.cast(a > 0, "float32"), a, -a), [a], [x], np.abs(x)),
    )  # fmt: skip
    for out, inputs, values, expected in programs:
        np.testing.assert_array_equal(_run([out], [*inputs, out], values), expected)


def test_schedules_of_pooling_are_told_the_layout() -> None:
    import tvm
    from tvm import te, topi

    a = te.placeholder((1, 2, 8, 8), name="a")
    out = topi.nn.pool2d(a, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max", layout="NCHW")
    x, result = _random(1, 2, 8, 8), tvm.nd.empty((1, 2, 4, 4))
    tvm.build(topi.generic.schedule_pool([out], "NCHW"), [a, out], "llvm")(tvm.nd.array(x), result)
    np.testing.assert_array_equal(result.numpy(), _windows(x, 2, 2).max(axis=(4, 5)))


@pytest.mark.parametrize(
    ("begin", "end", "strides"),
    [([0, 1], [4, 6], [1, 2]), ([-1, -2], [-9, 0], [-1, -1]), ([3, 1], [1, 9], [-1, 3]), ([1, -4], [9, -1], None)],
)
def test_slices_by_tensors(begin: list[int], end: list[int], strides: list[int] | None) -> None:
    """Begin, end and strides are known when the code runs only; slices are read and replaced."""
    import tvm
    from tvm import te, topi

    x = _random(5, 7)
    at = tuple(slice(b, e, s) for b, e, s in zip(begin, end, strides or [1, 1], strict=True))
    a = te.placeholder(x.shape, name="a")
    given = [te.placeholder((2,), "int64", name) for name in ("begin", "end", "strides")[: 3 if strides else 2]]
    numbers = [np.array(v, "int64") for v in (begin, end, strides) if v is not None]
    want = x[at]

    out = topi.strided_slice(a, *given)
    made = tvm.nd.array(np.zeros_like(want))
    built = tvm.build(te.create_schedule(out.op), [a, *given, out], "llvm")
    built(tvm.nd.array(x), *map(tvm.nd.array, numbers), made)
    np.testing.assert_array_equal(made.numpy(), want)

    v = te.placeholder(want.shape, name="v")
    values, expected = _random(*want.shape, seed=1), x.copy()
    expected[at] = values
    changed = topi.strided_set(a, v, *given)
    got = _run(changed, [a, v, *given, changed], [x, values, *numbers])
    np.testing.assert_array_equal(got, expected)


def test_slices_by_numbers_and_none() -> None:
    from tvm import te, topi

    x = _random(5, 7)
    a = te.placeholder(x.shape, name="a")
    for options, want in [
        (((0, 0), (None, None)), x),
        (((None, 2), (3, None), (2, 1)), x[:3:2, 2:]),
        (((None, None), (None, 1), (-1, -2)), x[::-1, :1:-2]),
        (((1, -3), (2, 3), None, None, "size"), x[1:3, -3:]),
        (((1, 2), (-1, 4), None, None, "size"), x[1:, 2:6]),
    ]:
        out = topi.strided_slice(a, *options)
        np.testing.assert_array_equal(_run(out, [a, out], [x]), want)


def test_slices_say_what_they_take() -> None:
    from tvm import te, topi

    a = te.placeholder((5, 7), name="a")
    with pytest.raises(InputError, match='slice_mode is "end" or "size"; got \'start\''):
        topi.strided_slice(a, (0,), (1,), slice_mode="start")
    with pytest.raises(InputError, match="tensors of one dimension of known size, not"):
        topi.strided_slice(a, te.placeholder((2, 2), "int32"), (1, 1))


def test_one_stride_is_that_of_all_axes_of_a_replaced_slice() -> None:
    from tvm import te, topi

    x, values = _random(5, 7), _random(2, 4, seed=1)
    a, v = te.placeholder(x.shape, name="a"), te.placeholder(values.shape, name="v")
    out = topi.strided_set(a, v, (1, 0), (5, 7), (2,))
    expected = x.copy()
    expected[1:5:2, 0:7:2] = values
    np.testing.assert_array_equal(_run(out, [a, v, out], [x, values]), expected)
    np.testing.assert_array_equal(topi.testing.strided_set_python(x, values, (1, 0), (5, 7), (2,)), expected)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_windows_of_the_ceil_mode_that_begin_in_the_padding_count(kind: str) -> None:
    """31 rows with 2 before and 2 behind under windows of 3 that move by 3: the classic library makes 12 of them."""
    from tvm import te, topi

    x = np.abs(_random(1, 2, 31, 31)) + 1
    a = te.placeholder(x.shape, name="a")
    out = topi.nn.pool2d(a, [3, 3], [3, 3], [1, 1], [2, 1, 2, 1], kind, True, "NCHW", True)
    assert topi.utils.get_const_tuple(out.shape) == (1, 2, 12, 11)
    filled = np.full((1, 2, 36, 33), -np.inf if kind == "max" else 0, "float32")
    filled[:, :, 2:33, 1:32] = x
    windows = _windows(filled, 3, 3)
    want = windows.max((4, 5)) if kind == "max" else windows.mean((4, 5))
    np.testing.assert_allclose(_run(out, [a, out], [x]), want, rtol=1e-5)
    around = (x, [3, 3], [3, 3], [1, 1], [2, 1], [2, 1], kind, True, True)
    np.testing.assert_allclose(topi.testing.poolnd_python(*around), np.maximum(want, 0), rtol=1e-5)
    grads = te.placeholder(want.shape, name="grads")
    back = topi.nn.pool_grad(grads, a, [3, 3], [3, 3], [2, 1, 2, 1], kind, True)
    given = _random(*want.shape, seed=2)
    got = _run(back, [grads, a, back], [given, x])
    inside = given[:, :, :11].sum() if kind == "max" else None
    if inside is not None:
        np.testing.assert_allclose(got.sum(), inside, rtol=1e-3, atol=1e-3)
    want_grad = topi.testing.pool_grad_nchw(x, given, [3, 3], [3, 3], [2, 1, 2, 1], kind, True)
    np.testing.assert_allclose(got, want_grad, rtol=1e-4, atol=1e-5)


def test_adaptive_pooling_of_volumes_by_its_reference() -> None:
    from tvm import topi

    x = _random(1, 2, 4, 6, 8)
    want = x.reshape(1, 2, 2, 2, 3, 2, 4, 2).max((3, 5, 7))
    np.testing.assert_array_equal(topi.testing.adaptive_pool(x, (2, 3, 4), "max", "NCDHW"), want)


def test_empty_takes_shapes_as_arrays() -> None:
    import tvm

    assert tvm.nd.empty(np.array([2, 3]), "int8").shape == (2, 3)
    assert tvm.nd.empty(4).shape == (4,)
