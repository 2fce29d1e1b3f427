"""`tvm.testing.auto_scheduler`: workloads to try searches with."""

from __future__ import annotations

from typing import Any

from tilewright import te, topi
from tilewright.compat.auto_scheduler.dag import ComputeDAG
from tilewright.compat.auto_scheduler.workload import register_workload

Tensors = list[Any]


def _product(a: te.Tensor, b: te.Tensor, name: str) -> te.Tensor:
    (n, depth), (_, m) = a.shape, b.shape
    k = te.reduce_axis((0, depth), "k")
    made: te.Tensor = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]), name=name)
    return made


@register_workload
def matmul_auto_scheduler_test(N: int, M: int, K: int) -> Tensors:
    """A product of matrices."""
    a, b = te.placeholder((N, K), name="A"), te.placeholder((K, M), name="B")
    return [a, b, _product(a, b, "C")]


register_workload("matmul_auto_scheduler_test_rename_1", matmul_auto_scheduler_test)


@register_workload
def double_matmul_auto_scheduler_test(N: int) -> Tensors:
    """A product of three matrices."""
    a, b, c = (te.placeholder((N, N), name=name) for name in "ABC")
    return [a, b, c, _product(_product(a, b, "D"), c, "E")]


@register_workload
def parallel_matmul_auto_scheduler_test(N: int) -> Tensors:
    """Two products that share a matrix."""
    a, b, c = (te.placeholder((N, N), name=name) for name in "ABC")
    return [a, b, c, _product(a, b, "D"), _product(a, c, "E")]


@register_workload
def conv2d_nchw_bn_relu_auto_scheduler_test(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    kernel_size: int,
    strides: int,
    padding: int,
    dilation: int = 1,
) -> Tensors:
    """A convolution with a bias, a scale and a shift of each channel, and ReLU."""
    data = te.placeholder((N, CI, H, W), name="Data")
    kernel = te.placeholder((CO, CI, kernel_size, kernel_size), name="Kernel")
    bias, scale, shift = (te.placeholder((CO, 1, 1), name=name) for name in ("Bias", "Bn_scale", "Bn_offset"))
    conv = topi.nn.conv2d_nchw(data, kernel, (strides,) * 2, (padding,) * 4, (dilation,) * 2)
    shape = tuple(conv.shape)
    biased = te.compute(shape, lambda i, j, k, l: conv[i, j, k, l] + bias[j, 0, 0], name="Bias_add")
    scaled = te.compute(shape, lambda i, j, k, l: biased[i, j, k, l] * scale[j, 0, 0], name="Bn_mul")
    shifted = te.compute(shape, lambda i, j, k, l: scaled[i, j, k, l] + shift[j, 0, 0], name="Bn_add")
    return [data, kernel, bias, shift, scale, topi.nn.relu(shifted)]


@register_workload
def max_pool2d_auto_scheduler_test(N: int, H: int, W: int, CI: int, padding: int) -> Tensors:
    """The largest of 2x2 windows."""
    data = te.placeholder((N, CI, H, W), name="Data")
    return [data, topi.nn.pool2d(data, "max", (2, 2), (1, 1), (padding,) * 4)]


@register_workload
def min_nm_auto_scheduler_test(N: int, M: int) -> Tensors:
    """The smallest of each row."""
    a = te.placeholder((N, M), name="A")
    return [a, topi.min(a, axis=-1)]


@register_workload
def softmax_nm_auto_scheduler_test(N: int, M: int) -> Tensors:
    """Softmax of rows."""
    a = te.placeholder((N, M), name="A")
    return [a, topi.nn.softmax(a, axis=1)]


@register_workload
def softmax_abcd_auto_scheduler_test(a: int, b: int, c: int, d: int) -> Tensors:
    """Softmax over the last of four axes."""
    data = te.placeholder((a, b, c, d), name="A")
    return [data, topi.nn.softmax(data, axis=-1)]


@register_workload
def zero_rank_reduce_auto_scheduler_test(N: int) -> Tensors:
    """The sum of all elements, without axes."""
    a = te.placeholder((N,), name="A")
    k = te.reduce_axis((0, N), "k")
    return [a, te.compute((), lambda: te.sum(a[k], axis=k), name="B")]


@register_workload
def zero_rank_compute_auto_scheduler_test(N: int) -> Tensors:
    """One element, moved."""
    a = te.placeholder((N,), name="A")
    b = te.compute((), lambda: a[0], name="B")
    return [a, te.compute((), lambda: b() + 1.0, name="C")]


@register_workload
def invalid_compute_definition() -> Tensors:
    """Two loops over the same elements, one of which is only named otherwise."""
    a = te.placeholder((10, 10), name="A")
    r = te.reduce_axis((0, 10), "r")
    return [a, te.compute((10,), lambda i: te.sum(a[i, r], axis=[r]), name="B")]


def get_tiled_matmul() -> tuple[ComputeDAG, Any]:
    """A product of 512x512 matrices, tiled by hand."""
    a, b, c = matmul_auto_scheduler_test(512, 512, 512)
    dag = ComputeDAG([a, b, c])
    state = dag.get_init_state()
    i, j, k = state[c].iters
    i0, i1, i2, i3, i4 = _levels(state, c, i, [4, 8, 8])
    j0, j1, j2, j3, j4 = _levels(state, c, j, [4, 4, 4])
    k0, k1, k2 = state.split(c, k, [8, 8])
    state.reorder(c, [i0, j0, i1, j1, k0, i2, j2, k1, i3, j3, k2, i4, j4])
    return dag, state


def _levels(state: Any, tensor: te.Tensor, axis: Any, lengths: list[int]) -> list[Any]:
    """Five levels of a loop, the innermost of one iteration."""
    made: list[Any] = state.split(tensor, axis, [*lengths, 1])
    return made
