"""OpenCL devices, through pyopencl (extra: `opencl`, which brings PoCL, OpenCL on the host's processor)."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_, InternalError
from tilewright.runtime.gpu.api import Extent3, Kernel


class OpenCLDevice:
    """The first OpenCL device of this machine, or the one that pyopencl's `PYOPENCL_CTX` names."""

    def __init__(self) -> None:
        cl = _pyopencl()
        try:
            self._context = cl.create_some_context(interactive=False)
        except Exception as error:
            raise EnvironmentError_(f"no OpenCL device can be opened ({error}); `clinfo` lists what is there") from None
        self._cl = cl
        self._queue = cl.CommandQueue(self._context)
        self.name = f"OpenCL {self._context.devices[0].name.strip()}"

    def allocate(self, nbytes: int) -> Any:
        """A buffer of device memory."""
        return self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, nbytes)

    def write(self, buffer: Any, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous array to `buffer`."""
        if array.nbytes:
            self._cl.enqueue_copy(self._queue, buffer, _bytes(array))

    def read(self, buffer: Any, array: np.ndarray[Any, Any]) -> None:
        """Fill a contiguous array from `buffer`."""
        if array.nbytes:
            self._cl.enqueue_copy(self._queue, _bytes(array), buffer)

    def compile(self, source: str, kernels: Sequence[str]) -> dict[str, Kernel]:
        """The kernels of a program."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PoCL's compiler talks of what it inlined
            try:
                program = self._cl.Program(self._context, source).build()
            except self._cl.RuntimeError as error:
                raise InternalError(f"the OpenCL compiler refused generated code:\n{str(error)[-2000:]}") from None
            return {name: _Kernel(self._cl, self._queue, self._cl.Kernel(program, name)) for name in kernels}

    def synchronize(self) -> None:
        """Wait for the queue."""
        self._queue.finish()


class _Kernel:
    def __init__(self, cl: Any, queue: Any, kernel: Any) -> None:
        self._cl, self._queue, self._kernel = cl, queue, kernel

    def launch(self, grid: Extent3, block: Extent3, args: Sequence[Any]) -> None:
        """Queue one launch."""
        self._kernel.set_args(*args)
        whole = tuple(g * b for g, b in zip(grid, block))
        self._cl.enqueue_nd_range_kernel(self._queue, self._kernel, whole, block)


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array as bytes: pyopencl knows nothing of bfloat16."""
    return array.reshape(-1).view(np.uint8)


@functools.cache
def _pyopencl() -> Any:
    try:
        import pyopencl
    except ImportError:
        raise EnvironmentError_(
            "the target 'opencl' needs pyopencl: pip install 'tilewright[opencl]' (with PoCL, for any CPU)"
        ) from None
    return pyopencl


@functools.cache
def opencl_device() -> OpenCLDevice:
    """The OpenCL device of this process. Raises `EnvironmentError_` where there is none."""
    return OpenCLDevice()
