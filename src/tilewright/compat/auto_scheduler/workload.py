"""Workloads: functions that programs register, which make the arguments of a computation.

@register_workload
def matmul(n, m): ... return [A, B, C]

key = make_workload_key(matmul, (64, 64))      # '["matmul", 64, 64]'
workload_key_to_tensors(key)
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing.pool
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te
from tilewright.errors import InputError
from tilewright.tir.expr import Expr
from tilewright.tir.op import as_const

#: The functions by name.
WORKLOAD_FUNC_REGISTRY: dict[str, Any] = {}


def get_func_name(func: Callable[..., Any]) -> str:
    """The default name under which a function is registered."""
    return str(getattr(func, "func_name", None) or getattr(func, "__qualname__", func.__class__.__name__))


def register_workload(func_name: Any, f: Any = None, override: bool = False) -> Any:
    """Register a function, as a decorator with or without a name. Raises `InputError` where the name is taken."""
    if callable(func_name):
        f, func_name = func_name, get_func_name(func_name)

    def register(function: Any) -> Any:
        if func_name in WORKLOAD_FUNC_REGISTRY and not override:
            raise InputError(f"a workload {func_name!r} is registered already; pass override=True to replace it")
        WORKLOAD_FUNC_REGISTRY[func_name] = function
        return function

    return register if f is None else register(f)


def register_workload_tensors(workload_key: str, tensors: Sequence[te.Tensor], override: bool = True) -> str:
    """Register the arguments of a computation under a key of their own."""
    register_workload(workload_key, list(tensors), override)
    return workload_key


def make_workload_key(func: Any, args: Sequence[Any]) -> str:
    """The key of a registered function, or its name, with arguments."""
    name = get_func_name(func) if callable(func) else func
    if name not in WORKLOAD_FUNC_REGISTRY:
        known = ", ".join(map(repr, WORKLOAD_FUNC_REGISTRY)) or "none yet"
        raise InputError(f"{name!r} is no registered workload; there are: {known} (@auto_scheduler.register_workload)")
    return json.dumps([name, *_plain(args)])


def decode_workload_key(workload_key: str) -> tuple[Any, Any]:
    """The name and the arguments of a key; the key itself and None where it is none."""
    try:
        fields = json.loads(workload_key)
    except (TypeError, json.JSONDecodeError):
        return workload_key, None
    return (fields[0], _tuples(fields[1:])) if isinstance(fields, list) and fields else (workload_key, None)


def workload_key_to_tensors(workload_key: str) -> list[te.Tensor]:
    """The arguments of the computation that a key stands for. Raises `InputError` where it is not registered."""
    name, args = (workload_key, None) if workload_key in WORKLOAD_FUNC_REGISTRY else decode_workload_key(workload_key)
    if name not in WORKLOAD_FUNC_REGISTRY:
        raise InputError(
            f"the workload {name!r} is not registered here: import the module that has its function, or register it by "
            "@auto_scheduler.register_workload"
        )
    value = WORKLOAD_FUNC_REGISTRY[name]
    return list(value(*(args or ()))) if callable(value) else list(value)


def dag_key(tensors: Sequence[te.Tensor]) -> str:
    """A key for a computation that has no function: a hash of what it computes, and the shapes of its arguments."""
    outputs = [tensor.op for tensor in tensors if not isinstance(tensor.op, te.PlaceholderOp)]
    text = str(te.lower(te.create_schedule(outputs), list(tensors), "main"))
    shapes = [[as_const(extent) for extent in tensor.shape] for tensor in tensors]
    return json.dumps([hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), *shapes])


def serialize_workload_registry_entry(workload_key: str) -> bytes:
    """A registered function or computation as bytes, by Python's pickle; functions by their name."""
    name = workload_key if workload_key in WORKLOAD_FUNC_REGISTRY else decode_workload_key(workload_key)[0]
    return pickle.dumps((name, WORKLOAD_FUNC_REGISTRY.get(name)))


def deserialize_workload_registry_entry(data: bytes) -> None:
    """Register what `serialize_workload_registry_entry` of this or another process of this program gave."""
    name, value = pickle.loads(data)
    if name not in WORKLOAD_FUNC_REGISTRY and value is not None:
        WORKLOAD_FUNC_REGISTRY[name] = value


def calc_workload_dis_factor(target_workload_pair: Any, workload_pair: Any) -> float:
    """The ratio of the sizes of two workloads of one function, the first over the second; infinite for others.

    Infinite too where a size is no multiple, or where the first is smaller.
    """
    (name, args), (other, sizes) = target_workload_pair, workload_pair
    mine, theirs = _flat(args), _flat(sizes)
    if name != other or len(mine) != len(theirs):
        return float("inf")
    factor = 1.0
    for large, small in zip(mine, theirs):
        if isinstance(large, str) or isinstance(small, str) or not small:
            if large != small:
                return float("inf")
        elif not large or large % small:
            return float("inf")
        else:
            factor *= large / small
    return factor


def call_func_with_timeout(
    worker_timeout: float, func: Callable[..., Any], args: Sequence[Any] = (), kwargs: Any = None
) -> Any:
    """The return value of a function; a `TimeoutError` where it takes longer, the exception where it raises one.

    It runs in a thread, which goes on where it is late.
    """
    pool = multiprocessing.pool.ThreadPool(1)
    try:
        return pool.apply_async(func, tuple(args), kwargs or {}).get(worker_timeout)
    except multiprocessing.TimeoutError:
        return TimeoutError()
    except Exception as error:
        return error
    finally:
        pool.close()


def _flat(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in _flat(item)] if isinstance(value, list | tuple) else [value]


def _plain(args: Sequence[Any]) -> list[Any]:
    return [_plain_value(value) for value in args]


def _plain_value(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return _plain(value)
    if isinstance(value, te.Tensor):
        return ["TENSOR", _plain(value.shape), str(value.dtype)]
    if value is None or isinstance(value, str | int | float):
        return value
    number = as_const(value) if isinstance(value, Expr) else None
    if number is None:
        raise InputError(f"a workload takes numbers, texts and lists of these, not a {type(value).__name__}")
    return number


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
