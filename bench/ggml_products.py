"""Products of ggml, for bench/nbits.py: weights of Q4_0, as llama.cpp holds them.

ggml is that of the package xllamacpp, or a shared library built elsewhere (`cmake -DGGML_NATIVE=ON`: its libggml.so).
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_F32, _Q4_0 = 0, 2
_CONTEXT = 1 << 20


class _Parameters(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


def packaged() -> Path | None:
    """The shared library of xllamacpp, or None where it is not installed."""
    spec = importlib.util.find_spec("xllamacpp")
    if spec is None or not spec.submodule_search_locations:
        return None
    return next(Path(spec.submodule_search_locations[0]).glob("*.so"))


def library(path: Path) -> ctypes.CDLL:
    """The ggml in a shared library."""
    lib = ctypes.CDLL(str(path))
    lib.ggml_init.argtypes = [_Parameters]
    for name in ("init", "new_tensor_2d", "mul_mat", "new_graph", "backend_cpu_init", "get_data"):
        getattr(lib, f"ggml_{name}").restype = ctypes.c_void_p
    lib.ggml_new_tensor_2d.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    lib.ggml_mul_mat.argtypes = [ctypes.c_void_p] * 3
    for name in ("new_graph", "backend_cpu_buffer_type", "get_data", "set_input", "set_output"):
        getattr(lib, f"ggml_{name}").argtypes = [ctypes.c_void_p] if name != "backend_cpu_buffer_type" else []
    lib.ggml_build_forward_expand.argtypes = [ctypes.c_void_p] * 2
    lib.ggml_backend_alloc_ctx_tensors_from_buft.argtypes = [ctypes.c_void_p] * 2
    lib.ggml_backend_alloc_ctx_tensors_from_buft.restype = ctypes.c_void_p
    lib.ggml_backend_cpu_buffer_type.restype = ctypes.c_void_p
    lib.ggml_backend_tensor_set.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
    lib.ggml_backend_cpu_set_n_threads.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.ggml_backend_graph_compute.argtypes = [ctypes.c_void_p] * 2
    return lib


def q4_0(codes: Array, scales: Array) -> bytes:
    """Blocks of 32 codes [N, blocks, 32] with scales [N, blocks] as ggml has them, the scales in float16."""
    halves = codes[..., :16] | codes[..., 16:] << 4
    return np.concatenate([scales.astype(np.float16)[..., None].view(np.uint8), halves], axis=-1).tobytes()


def products(
    lib: ctypes.CDLL, weights: list[tuple[Array, Array]], rows: int, threads: int, repacked: bool = True
) -> Callable[[Array], Array]:
    """The products of `weights` (codes and scales) one after the other, on data [rows, K].

    `repacked` weights are in the order that llama.cpp chooses for this processor when it loads a model.
    """
    held = lib.ggml_init(_Parameters(_CONTEXT, None, True))
    run = lib.ggml_init(_Parameters(_CONTEXT, None, True))
    kept = [lib.ggml_new_tensor_2d(held, _Q4_0, c.shape[1] * c.shape[2], len(c)) for c, _ in weights]
    data = lib.ggml_new_tensor_2d(run, _F32, weights[0][0].shape[1] * weights[0][0].shape[2], rows)
    plain = lib.ggml_backend_cpu_buffer_type()
    packed = lib._Z35ggml_backend_cpu_repack_buffer_typev
    packed.restype, packed.argtypes = ctypes.c_void_p, []
    lib.ggml_backend_alloc_ctx_tensors_from_buft(held, packed() if repacked else plain)
    for tensor, (codes, scales) in zip(kept, weights):
        stored = q4_0(codes, scales)
        lib.ggml_backend_tensor_set(tensor, stored, 0, len(stored))
    result = data
    for tensor in kept:
        result = lib.ggml_mul_mat(run, tensor, result)
    graph = lib.ggml_new_graph(run)
    lib.ggml_build_forward_expand(graph, result)
    lib.ggml_backend_alloc_ctx_tensors_from_buft(run, plain)
    backend = lib.ggml_backend_cpu_init()
    lib.ggml_backend_cpu_set_n_threads(backend, threads)
    size = rows * len(weights[-1][0])

    def call(x: Array) -> Array:
        ctypes.memmove(lib.ggml_get_data(data), np.ascontiguousarray(x).ctypes.data, x.nbytes)
        lib.ggml_backend_graph_compute(backend, graph)
        found = (ctypes.c_float * size).from_address(lib.ggml_get_data(result))
        return np.frombuffer(found, np.float32).reshape(rows, -1)

    return call
