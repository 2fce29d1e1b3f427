"""NVIDIA's driver library by ctypes: the functions used with their types, and error codes as exceptions.

Names and types are those of the CUDA Driver API 13; all functions are in drivers from CUDA 12.0 on.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from tilewright.errors import EnvironmentError_, InternalError

_INT, _UINT, _SIZE, _POINTER = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p
_ADDRESS, _FLAGS64, _TEXT = ctypes.c_uint64, ctypes.c_ulonglong, ctypes.c_char_p  # an address is a CUdeviceptr

#: The parameters of each function. Handles are pointers; what is returned through a pointer is passed by `byref`.
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_UINT,),
    "cuDriverGetVersion": (_POINTER,),
    "cuDeviceGetCount": (_POINTER,),
    "cuDeviceGet": (_POINTER, _INT),
    "cuDeviceGetName": (_POINTER, _INT, _INT),
    "cuDeviceGetAttribute": (_POINTER, _INT, _INT),
    "cuDeviceTotalMem_v2": (_POINTER, _INT),
    "cuDevicePrimaryCtxRetain": (_POINTER, _INT),
    "cuDevicePrimaryCtxRelease_v2": (_INT,),
    "cuCtxGetCurrent": (_POINTER,),
    "cuCtxSetCurrent": (_POINTER,),
    "cuMemGetInfo_v2": (_POINTER, _POINTER),
    "cuMemAlloc_v2": (_POINTER, _SIZE),
    "cuMemFree_v2": (_ADDRESS,),
    "cuMemHostAlloc": (_POINTER, _SIZE, _UINT),
    "cuMemFreeHost": (_POINTER,),
    "cuMemcpyHtoDAsync_v2": (_ADDRESS, _POINTER, _SIZE, _POINTER),
    "cuMemcpyDtoHAsync_v2": (_POINTER, _ADDRESS, _SIZE, _POINTER),
    "cuMemcpyDtoDAsync_v2": (_ADDRESS, _ADDRESS, _SIZE, _POINTER),
    "cuStreamCreate": (_POINTER, _UINT),
    "cuStreamDestroy_v2": (_POINTER,),
    "cuStreamQuery": (_POINTER,),
    "cuStreamWaitEvent": (_POINTER, _POINTER, _UINT),
    "cuStreamBeginCapture_v2": (_POINTER, _INT),
    "cuStreamEndCapture": (_POINTER, _POINTER),
    "cuEventCreate": (_POINTER, _UINT),
    "cuEventDestroy_v2": (_POINTER,),
    "cuEventRecord": (_POINTER, _POINTER),
    "cuEventRecordWithFlags": (_POINTER, _POINTER, _UINT),
    "cuEventQuery": (_POINTER,),
    "cuEventElapsedTime": (_POINTER, _POINTER, _POINTER),
    "cuGraphInstantiateWithFlags": (_POINTER, _POINTER, _FLAGS64),
    "cuGraphExecUpdate_v2": (_POINTER, _POINTER, _POINTER),
    "cuGraphLaunch": (_POINTER, _POINTER),
    "cuGraphDestroy": (_POINTER,),
    "cuGraphExecDestroy": (_POINTER,),
    "cuModuleLoadData": (_POINTER, _POINTER),
    "cuModuleUnload": (_POINTER,),
    "cuModuleGetFunction": (_POINTER, _POINTER, _TEXT),
    "cuFuncSetAttribute": (_POINTER, _INT, _INT),
    "cuFuncGetAttribute": (_POINTER, _INT, _POINTER),
    "cuLaunchKernel": (_POINTER, *(_UINT,) * 7, _POINTER, _POINTER, _POINTER),
    "cuGetErrorName": (_INT, _POINTER),
    "cuGetErrorString": (_INT, _POINTER),
}

OUT_OF_MEMORY, NO_DEVICE = 2, 100
NOT_READY = 600
#: Codes after which a context takes no more work: illegal address or instruction, assert, a failed launch, and so on
#: (CUresult: "this leaves the process in an inconsistent state").
STICKY = frozenset([700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721])
#: Codes of calls that say no more than that the driver is older than what is asked of it.
_OLD_DRIVER = {
    35: "is older than the CUDA library in use",
    803: "does not fit the installed libraries of the driver",
    804: "is older than CUDA's forward compatibility allows on this GPU",
}


class DriverError(EnvironmentError_):
    """A call that the driver refused; `code` is its CUresult."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Driver:
    """The functions of `SIGNATURES`; `library` has them as attributes that return a CUresult."""

    def __init__(self, library: Any) -> None:
        self._functions: dict[str, Callable[..., int]] = {}
        for name, types in SIGNATURES.items():
            function = getattr(library, name, None)
            if function is None:
                raise EnvironmentError_(
                    f"the NVIDIA driver is too old: it has no {name}; install a driver of CUDA 12.0 or newer"
                )
            function.argtypes, function.restype = list(types), ctypes.c_int
            self._functions[name] = function

    def try_call(self, name: str, *args: Any) -> int:
        """Call a function; its CUresult, 0 for success."""
        return self._functions[name](*args)

    def call(self, name: str, *args: Any) -> None:
        """Call a function. Raises `DriverError` for every code but success."""
        code = self._functions[name](*args)
        if code:
            raise self.error(name, code)

    def made(self, name: str, kind: Any, *args: Any) -> Any:
        """Call a function whose first parameter returns a value of a ctypes kind; the value."""
        value = kind()
        self.call(name, ctypes.byref(value), *args)
        return value.value

    def error(self, name: str, code: int) -> DriverError:
        """The exception for a code that the function returned."""
        if code in _OLD_DRIVER:
            return DriverError(f"the NVIDIA driver {_OLD_DRIVER[code]} ({name}: {code}); install a newer one", code)
        if code == NO_DEVICE:
            return DriverError("the NVIDIA driver finds no GPU; `nvidia-smi` lists those that it knows", code)
        return DriverError(f"the CUDA driver refused {name}: {self._text(code)}", code)

    def _text(self, code: int) -> str:
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        self._functions["cuGetErrorName"](code, ctypes.byref(name))
        self._functions["cuGetErrorString"](code, ctypes.byref(text))
        return f"{(text.value or b'unknown error').decode()} ({(name.value or b'CUDA_ERROR').decode()}, {code})"


def handle(value: int | None) -> int:
    """A handle that the driver made. Raises `InternalError` for none."""
    if not value:
        raise InternalError("the CUDA driver made an empty handle")
    return value


@functools.cache
def driver() -> Driver:
    """The driver of this machine. Raises `EnvironmentError_` where there is none or no GPU."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise EnvironmentError_(
            "the target 'cuda' needs an NVIDIA GPU and its driver (libcuda.so.1 was not found); 'cuda -emulate=1' runs "
            "the same code on this processor, slowly, to check its results"
        ) from None
    made = Driver(library)
    made.call("cuInit", 0)
    return made
