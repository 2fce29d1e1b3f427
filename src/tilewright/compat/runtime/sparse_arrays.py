"""`tvm.contrib.sparse`: matrices as lists of their non-zero elements (CSR), as arrays and as placeholders.

a = array(dense, tvm.cpu())                                      # a.data, a.indices, a.indptr
A = placeholder(shape=(nr, nc), nonzeros=n, dtype="float32")     # A.data, A.indices, A.indptr: te tensors
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import te
from tilewright.compat.runtime import array as arrays
from tilewright.errors import InputError

csr = "csr"
itype = "int32"
float32 = "float32"


class CSRNDArray:
    """A matrix of `shape`: the elements `data` [nnz], their columns `indices`, where rows begin `indptr` [rows + 1].

    It is made of a NumPy matrix, or of the three.
    """

    stype = csr

    def __init__(self, arg1: Any, device: Any = None, shape: Sequence[int] | None = None) -> None:
        if isinstance(arg1, tuple):
            if len(arg1) != 3 or shape is None:
                raise InputError("a sparse array is made of (data, indices, indptr) and a shape, or of a matrix")
            self.data, self.indices, self.indptr = arg1
            self.shape = tuple(shape)
        elif isinstance(arg1, np.ndarray) and arg1.ndim == 2:
            rows, columns = np.nonzero(arg1)
            starts = np.searchsorted(rows, np.arange(arg1.shape[0] + 1))
            parts = (arg1[rows, columns], columns.astype(itype), starts.astype(itype))
            self.data, self.indices, self.indptr = (arrays.array(part, device) for part in parts)
            self.shape = arg1.shape
        else:
            raise InputError(f"a sparse array is made of a NumPy matrix, not of a {type(arg1).__name__}")
        self.dtype = self.data.dtype

    def numpy(self) -> np.ndarray[Any, Any]:
        """The whole matrix."""
        starts = self.indptr.numpy()
        rows = np.repeat(np.arange(self.shape[0]), np.diff(starts))
        full = np.zeros(self.shape, self.data.numpy().dtype)
        full[rows, self.indices.numpy()] = self.data.numpy()
        return full

    asnumpy = numpy


def array(source_array: Any, device: Any = None, shape: Sequence[int] | None = None, stype: str = csr) -> CSRNDArray:
    """A sparse array of a NumPy matrix or of (data, indices, indptr)."""
    _check(stype)
    return CSRNDArray(source_array, device, shape)


class SparsePlaceholderOp:
    """A sparse matrix that the caller passes in, part by part."""

    stype = ""

    def __init__(self, shape: Sequence[Any], nonzeros: Any, dtype: str, name: str) -> None:
        self.shape, self.dtype, self.name = tuple(shape), dtype, name


class CSRPlaceholderOp(SparsePlaceholderOp):
    """In CSR: `data` and `indices` of `nonzeros` elements, and `indptr`, as tensors."""

    stype = csr

    def __init__(self, shape: Sequence[Any], nonzeros: Any, dtype: str, name: str) -> None:
        super().__init__(shape, nonzeros, dtype, name)
        self.data = te.placeholder((nonzeros,), dtype, f"{name}_data")
        self.indices = te.placeholder((nonzeros,), itype, f"{name}_indices")
        self.indptr = te.placeholder((self.shape[0] + 1,), itype, f"{name}_indptr")


def placeholder(
    shape: Sequence[Any], nonzeros: Any = None, dtype: str | None = None, name: str = "placeholder",
    stype: str | None = None,
) -> CSRPlaceholderOp:  # fmt: skip
    """A sparse matrix of `nonzeros` elements (a number or a variable; default 0) that the caller passes in."""
    _check(stype or csr)
    return CSRPlaceholderOp(shape, 0 if nonzeros is None else nonzeros, dtype or float32, name)


def _check(stype: str) -> None:
    if stype != csr:
        raise InputError(f"sparse arrays are of the kind 'csr', not {stype!r}")
