"""Functions of a server's own process, which sessions call by name where the program that runs the server offers them.

    Server(Settings(folder, functions={"add": add}.get))        # a server that offers one
    session.function("add")(1, remote_array)                    # and a session that calls it

A server offers none by default: uploaded code runs in a process of its own, these functions run in the server's.
Numbers, text, bytes, arrays of the device and functions go both ways; arrays that a function got are written back.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.rpc.arrays import dense, parts_of, spec_of
from tilewright.rpc.frames import Channel
from tilewright.rpc.messages import Refused, result_of
from tilewright.runtime.memory import Array

#: Finds an offered function; None where there is none of that name.
Offered = Callable[[str], Callable[..., Any] | None]


def encoded(value: Any) -> Any:
    """A number, text, bytes or None as a field of a message. Raises `InputError` for anything else."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return {"text": str(value)}
    if isinstance(value, bytes | bytearray):
        return {"bytes": base64.b64encode(value).decode()}
    raise InputError(
        f"functions of a server take and return numbers, text, bytes and arrays, not {type(value).__name__}"
    )


def decoded(field: Any) -> Any:
    """The value that `encoded` made a field of. Raises `InputError` for a field of another form."""
    if not isinstance(field, dict):
        return field
    if isinstance(field.get("text"), str):
        return field["text"]
    if isinstance(field.get("bytes"), str):
        return base64.b64decode(field["bytes"])
    raise InputError(f"{field!r:.80} is no value")


class Functions:
    """The functions that one session has got from the server, by number."""

    def __init__(self, offered: Offered | None) -> None:
        self._offered = offered
        self._held: list[Callable[..., Any]] = []

    def find(self, name: str) -> dict[str, Any]:
        """The number of the registered function `name`. Raises `Refused` if there is none."""
        if self._offered is None:
            raise Refused(f"no function {name!r}: this device runs uploaded modules and registers no functions")
        found = self._offered(name)
        if found is None:
            raise Refused(f"this device offers no function {name!r}")
        return self._keep(found)

    def call(self, number: int, args: list[Any], worker: Channel | None) -> dict[str, Any]:
        """Call a function; `worker` holds the session's arrays. Its errors are the session's."""
        if not number < len(self._held):
            raise InputError(f"this session has no function number {number}")
        arrays = {arg["array"]: _read(worker, arg["array"]) for arg in args if _is_array(arg)}
        values = [arrays[arg["array"]] if _is_array(arg) else self._value(arg) for arg in args]
        result = self._held[number](*values)
        for name, array in arrays.items():
            _ask(worker, "write", dense(array), array=name)
        if callable(result):
            return self._keep(result)
        if hasattr(result, "__array__") and not isinstance(result, np.generic):
            return self._sent(np.asarray(result), worker)
        return {"value": encoded(result)}

    def _value(self, arg: Any) -> Any:
        if isinstance(arg, dict) and type(arg.get("function")) is int and arg["function"] < len(self._held):
            return self._held[arg["function"]]
        return decoded(arg)

    def _keep(self, function: Callable[..., Any]) -> dict[str, Any]:
        self._held.append(function)
        return {"function": len(self._held) - 1}

    def _sent(self, array: Array, worker: Channel | None) -> dict[str, Any]:
        """An array of the result, brought to where the session's arrays are."""
        array = dense(array)
        spec = parts_of([array])[0]
        number = _ask(worker, "allocate", **spec)[0]["array"]
        _ask(worker, "write", array, array=number)
        return {"array": number, **spec}


def _is_array(arg: Any) -> bool:
    return isinstance(arg, dict) and type(arg.get("array")) is int


def _read(worker: Channel | None, number: int) -> Array:
    found, data = _ask(worker, "read", array=number)
    shape, dtype = spec_of(found["shape"], found["dtype"])
    return np.frombuffer(data, dtype).reshape(shape)


def _ask(
    worker: Channel | None, verb: str, data: Array | None = None, **fields: Any
) -> tuple[dict[str, Any], bytearray]:
    """The worker's answer to a request of the server's own, which has the number 0."""
    assert worker is not None
    worker.send_head({"verb": verb, "id": 0, **fields}, 0 if data is None else data.nbytes)
    if data is not None and data.nbytes:
        worker.send_bytes(data.reshape(-1).view(np.uint8).data)
    message, received = worker.receive()
    return result_of(message, 0, "the session's process"), received
