"""`tvm.contrib.cblas`, `mkl`, `mkldnn`, `cublas`: products of matrices, which this package's own kernels compute."""

from __future__ import annotations

from typing import Any

from tilewright import te
from tilewright.compat.relay.nn_operators import batch_matmul as describe_batch
from tilewright.compat.relay.nn_operators import matmul as describe
from tilewright.compat.topi.through_relay import as_compute


def matmul(lhs: te.Tensor, rhs: te.Tensor, transa: bool = False, transb: bool = False, **_: Any) -> te.Tensor:
    """lhs times rhs, each transposed first on request."""
    return as_compute(describe)(lhs, rhs, transa, transb)


def batch_matmul(lhs: te.Tensor, rhs: te.Tensor, transa: bool = False, transb: bool = False, **_: Any) -> te.Tensor:
    """The products of pairs of matrices."""
    return as_compute(describe_batch)(lhs, rhs, None, None, transa, transb)
