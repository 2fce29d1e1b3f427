"""Messages of the protocol: the closed list of verbs, the fields of each, and the form of answers and errors.

A request is `{"verb": V, "id": N, …}`. Its answer has the same id and either `"ok"` with what was requested, or
`"error"` with the kind of error and its text. A verb or a field that is not listed here is refused, and so is a field
of another type: no request reaches a function by a name that a peer chose, but for those that the program which runs
the server offers by name (`functions.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright import errors
from tilewright.errors import RpcError, UserError

VERSION = 1

#: The longest text of a field: names, paths, keys.
_MOST_CHARACTERS = 4096


class Refused(RpcError):
    """The peer understood the request and does not do it."""


#: How a worker process ended with the request that it was at.
CRASHED, LATE, CANCELLED, ENDED = "crashed", "late", "cancelled", "ended"


class WorkerLost(Refused):
    """The process that did the request is gone, and the session's modules and arrays with it.

    `how` is `CRASHED`, `LATE` (it took longer than it may), `CANCELLED`, or `ENDED` with the lease of the session.
    """

    def __init__(self, message: str, how: str) -> None:
        super().__init__(message)
        self.how = how


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MOST_CHARACTERS


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _seconds(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1e9


def _number(value: Any) -> bool:
    return type(value) in (int, float)


def _list(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= 1 << 16


def _object(value: Any) -> bool:
    return isinstance(value, dict) and len(value) <= 1 << 12


#: Verbs of a session with a device, and what the fields of each must be. A `?` marks one that may be left out.
DEVICE_VERBS: dict[str, dict[str, Any]] = {
    "hello": {"version": _count, "lease?": _text, "seconds?": _seconds},
    "describe": {},
    "have": {"digest": _text, "bytes": _count},
    "put": {"digest": _text},
    "get": {"digest": _text},
    "load": {"digest": _text, "threads?": _count},
    "unload": {"module": _count},
    "allocate": {"shape": _list, "dtype": _text},
    "write": {"array": _count},
    "read": {"array": _count},
    "copy": {"source": _count, "target": _count},
    "free": {"array": _count},
    "call": {"module": _count, "function": _text, "args": _list},
    "time": {"module": _count, "function": _text, "args": _list, "number": _count, "repeat": _count,
             "min_repeat_ms": _number},
    "turns": {"runs": _list, "rounds": _count},
    "run": {"module": _count, "inputs": _list},
    "time_model": {"module": _count, "inputs": _list, "repeat": _count, "warmup": _count},
    "profile": {"module": _count, "inputs": _list, "repeat": _count},
    "function": {"name": _text},
    "invoke": {"function": _count, "args": _list},
    "cancel": {"request?": _count},
    "bye": {},
}  # fmt: skip

#: Those of them that the worker process does; the server passes them on.
WORKER_VERBS = frozenset(
    {
        "load",
        "unload",
        "allocate",
        "write",
        "read",
        "copy",
        "free",
        "call",
        "time",
        "turns",
        "run",
        "time_model",
        "profile",
    }
)

#: Verbs that a tracker knows: of devices, of users, and of both.
TRACKER_VERBS: dict[str, dict[str, Any]] = {
    "hello": {"version": _count, "user?": _text},
    "register": {"name": _text, "address": _list, "capability": _object, "busy": _list},
    "heartbeat": {},
    "ended": {"lease": _text, "fault?": _text, "late?": lambda value: type(value) is bool},
    "request": {"job": _text, "need": _object, "priority": _count, "wait": _seconds, "seconds": _seconds},
    "renew": {"lease": _text},
    "release": {"lease": _text, "fault?": _text, "reason?": _text},
    "failures": {},
    "status": {},
    "drain": {"device": _text, "on": lambda value: type(value) is bool},
    "bye": {},
}


def check_request(message: Mapping[str, Any], verbs: Mapping[str, Mapping[str, Any]]) -> str:
    """The verb of a request whose fields are those listed. Raises `Refused` for anything else."""
    verb = message.get("verb")
    if not isinstance(verb, str) or verb not in verbs:
        raise Refused(f"there is no verb {verb!r:.80}; there are: {', '.join(verbs)}")
    if not _count(message.get("id")):
        raise Refused(f"a request of {verb!r} has no id")
    fields = verbs[verb]
    for name, fits in fields.items():
        key = name.rstrip("?")
        if key not in message and not name.endswith("?"):
            raise Refused(f"a request of {verb!r} needs {key!r}")
        if key in message and not fits(message[key]):
            raise Refused(f"{key!r} of a request of {verb!r} cannot be {message[key]!r:.80}")
    unknown = [key for key in message if key not in ("verb", "id") and key not in fields and f"{key}?" not in fields]
    if unknown:
        raise Refused(f"a request of {verb!r} has no {unknown[0]!r:.80}")
    return verb


def answer(request: Mapping[str, Any], result: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The answer to `request` that says it is done."""
    return {"id": request.get("id"), "ok": dict(result or {})}


def failure(request: Mapping[str, Any], error: Exception) -> dict[str, Any]:
    """The error answer to `request`; an error that is no `UserError` is sent with its type's name."""
    kind = type(error).__name__ if isinstance(error, UserError) else "RpcError"
    text = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    fault = {"kind": kind, "text": text[:_MOST_CHARACTERS]}
    if isinstance(error, WorkerLost):
        fault["how"] = error.how
    return {"id": request.get("id"), "error": fault}


def result_of(message: Mapping[str, Any], request_id: int, peer: str) -> dict[str, Any]:
    """The result in an answer. Raises the error that it carries: of the same class, where we have one of that name."""
    if message.get("id") != request_id:
        raise RpcError(f"{peer} answered request {message.get('id')!r} while {request_id} was waited for")
    if "error" in message:
        fault = message["error"] if isinstance(message["error"], dict) else {}
        text = f"{peer}: {fault.get('text', 'it does not say what is wrong')}"
        if fault.get("kind") == WorkerLost.__name__:
            raise WorkerLost(text, str(fault.get("how", CRASHED)))
        kind = getattr(errors, str(fault.get("kind")), Refused)
        known = kind if isinstance(kind, type) and issubclass(kind, UserError) else Refused
        raise known(text)
    found = message.get("ok")
    if not isinstance(found, dict):
        raise RpcError(f"{peer} answered neither with a result nor with an error")
    return found
