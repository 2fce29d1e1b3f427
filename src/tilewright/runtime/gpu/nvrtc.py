"""CUDA C++ to machine code of a GPU, by NVRTC; needs no GPU (extra: `cuda`)."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path

from tilewright.errors import EnvironmentError_, InternalError, TargetError

#: The command that installs the headers which code for tensor cores includes.
HEADERS = "pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl"


def version() -> str:
    """The version of NVRTC, such as "13.0". Raises `EnvironmentError_` without it."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    library, _ = _nvrtc()
    _check(library, library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return f"{major.value}.{minor.value}"


def headers() -> bool:
    """True where CUDA's headers are installed, which code for tensor cores includes."""
    _, include = _nvrtc()
    return bool(include) and Path(include, "mma.h").is_file()


def compile_cubin(source: str, arch: str) -> bytes:
    """The cubin of `source` for `arch`, such as "sm_90".

    Raises `InternalError` with the compiler's messages where it refuses the text, `EnvironmentError_` without NVRTC.
    """
    return _compile(source, arch, "CUBIN")


def compile_ptx(source: str, arch: str) -> bytes:
    """The PTX of `source` for `arch` and later ones, without a NUL at its end; raises as `compile_cubin` does."""
    return _compile(source, arch.replace("sm_", "compute_"), "PTX").rstrip(b"\0")


def disassembled(cubin: bytes) -> str:
    """The instructions of a cubin, by the disassembler of a CUDA toolkit. Raises `EnvironmentError_` without it."""
    tool = shutil.which("nvdisasm")
    if tool is None:
        raise EnvironmentError_("instructions of a GPU are shown by nvdisasm of a CUDA toolkit, which is not on PATH")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([tool, "-c", file.name], capture_output=True, text=True, check=True).stdout


def _compile(source: str, arch: str, form: str) -> bytes:
    library, include = _nvrtc()
    if "#include" in source and not headers():
        raise EnvironmentError_(f"compiling for tensor cores needs CUDA's headers: {HEADERS}")
    _require_arch(library, arch)
    program = ctypes.c_void_p()
    _check(library, library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None))
    try:
        options = [f"--gpu-architecture={arch}", "--std=c++17", "--restrict", *([f"-I{include}"] if include else [])]
        words = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        if library.nvrtcCompileProgram(program, len(options), words):
            raise InternalError(f"NVRTC refused generated code for {arch}:\n{_log(library, program)[-2000:]}")
        size = ctypes.c_size_t()
        _check(library, getattr(library, f"nvrtcGet{form}Size")(program, ctypes.byref(size)))
        code = ctypes.create_string_buffer(size.value)
        _check(library, getattr(library, f"nvrtcGet{form}")(program, code))
        return code.raw
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _require_arch(library: ctypes.CDLL, arch: str) -> None:
    """A `TargetError` for GPUs that this version of NVRTC makes no code for."""
    count = ctypes.c_int()
    _check(library, library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    known = (ctypes.c_int * count.value)()
    _check(library, library.nvrtcGetSupportedArchs(known))
    number = int("".join(filter(str.isdigit, arch)))
    if number not in known:
        names = ", ".join(f"sm_{one}" for one in known)
        raise TargetError(f"NVRTC {version()} makes no code for {arch}; it does for {names}")


def _log(library: ctypes.CDLL, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, text)
    return text.value.decode(errors="replace")


def _check(library: ctypes.CDLL, code: int) -> None:
    if code:
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise EnvironmentError_(f"NVRTC failed: {library.nvrtcGetErrorString(code).decode()}")


@functools.cache
def _nvrtc() -> tuple[ctypes.CDLL, str]:
    """The library, from NVIDIA's package or the system, and the folder of CUDA's headers where there is one."""
    found = importlib.util.find_spec("nvidia")
    roots = [Path(p) for p in (found.submodule_search_locations or ())] if found is not None else []
    candidates = [str(path) for root in roots for path in sorted(root.glob("*/lib/libnvrtc.so.*"))]
    for path in (path for root in roots for path in root.glob("*/lib/libnvrtc-builtins.so.*")):
        ctypes.CDLL(str(path))  # NVRTC opens it by its name alone, which the system finds once it is loaded
    for name in [*candidates, "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"]:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        headers = [str(path) for root in roots for path in root.glob("*/include") if (path / "cuda_fp16.h").is_file()]
        return library, headers[0] if headers else ""
    raise EnvironmentError_("compiling CUDA code needs NVRTC: pip install 'tilewright[cuda]'")
