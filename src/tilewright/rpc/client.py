"""A device from afar: upload modules, hold arrays there, call, time and fetch.

    with connect("127.0.0.1", 9090) as remote:
        model = remote.load_module(remote.upload("model.tw"))
        y = model(x)                                       # a model: arrays in, arrays out
        a = remote.array(numpy_array)
        library["matmul"](a, b, c); c.numpy()              # a library of functions works on arrays that are there
        library.time_evaluator("matmul", number=10, repeat=3)(a, b, c).mean

An error of the device is raised here as the error it was there, with the device's name in front.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import statistics
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import InputError, RpcError
from tilewright.rpc.arrays import dense, parts_of, spec_of, split
from tilewright.rpc.board.loads import ARTIFACT
from tilewright.rpc.frames import CHUNK, Channel, ConnectionLost, spelled
from tilewright.rpc.functions import decoded, encoded
from tilewright.rpc.identity import Bundle, Peer, require_loopback, secured
from tilewright.rpc.messages import VERSION, result_of
from tilewright.rpc.store import digest_of
from tilewright.runtime.memory import Array
from tilewright.runtime.profile import KernelTime
from tilewright.runtime.signature import TensorSpec, by_name, by_position
from tilewright.runtime.tensor import Tensor

#: Seconds within which a device must take a connection.
CONNECT_SECONDS = 10.0
#: The id of requests to cancel another one, which are sent while that is waited for.
_CANCELLING = 0


def connect(
    host: str,
    port: int,
    *,
    bundle: str | os.PathLike[str] | None = None,
    lease: str = "",
    device: str = "",
    seconds: float | None = None,
) -> Session:
    """A session with the server of a device.

    `bundle` is the folder of our certificate (`tilewright rpc init`); without one the server must be on this machine.
    `lease` is what the tracker gave, `device` the name that the device must have, `seconds` the longest that an answer
    may take. Raises `RpcError` where nobody is there, or it is somebody else.
    """
    connection, peer = dial(host, port, bundle, ("device",))
    if device and bundle is not None and peer.name != device:
        connection.close()
        raise RpcError(f"{spelled(host, port)} is {peer}, not device {device}")
    return Session(Channel(connection, str(peer)), lease, seconds)


def dial(host: str, port: int, bundle: str | os.PathLike[str] | None, roles: tuple[str, ...]) -> tuple[Any, Peer]:
    """A connection to somebody of one of `roles`, and who it is."""
    if bundle is None:
        require_loopback(host)
    try:
        connection = socket.create_connection((host, port), CONNECT_SECONDS)
    except OSError as error:
        raise ConnectionLost(f"no server answers at {spelled(host, port)}: {error.strerror or error}") from None
    if bundle is None:
        return connection, Peer(roles[0], spelled(host, port))
    try:
        return secured(connection, Bundle(Path(bundle)), listening=False, roles=roles)
    except Exception:
        connection.close()
        raise


class Session:
    """A connection to a device. One request at a time; threads take turns."""

    def __init__(self, channel: Channel, lease: str = "", seconds: float | None = None, name: str = "") -> None:
        """Greet the device, unless its `name` is given: then that was done at the other end of `channel`."""
        self.channel = channel
        self.lease = lease
        self.seconds = seconds
        self._lock = threading.Lock()
        self._sending = threading.Lock()  # a frame is not broken into by a request to cancel
        self._requests = 0
        self._left: list[tuple[str, int]] = []  # numbers of modules and arrays that nobody here holds any more
        self.name = name or self._greet()

    def _greet(self) -> str:
        fields = {"lease": self.lease} if self.lease else {}
        greeted = self.ask("hello", version=VERSION, **fields)
        if "name" not in greeted:
            raise RpcError(f"{self.channel.peer} is no device: it answers as a tracker does")
        return str(greeted["name"])

    def ask(self, verb: str, data: Any = b"", **fields: Any) -> dict[str, Any]:
        """Send a request and wait for its result. Raises the device's error, or `ConnectionLost`."""
        return self.exchange(verb, data, **fields)[0]

    def exchange(self, verb: str, data: Any = b"", **fields: Any) -> tuple[dict[str, Any], bytearray]:
        """As `ask`, with the bytes of the answer. `data` may be a list of buffers."""
        parts = data if isinstance(data, list) else [data]
        with self._lock:
            while self._left:
                kind, number = self._left.pop()
                self._exchange("free" if kind == "array" else "unload", [], {kind: number})
            return self._exchange(verb, parts, fields)

    def _exchange(self, verb: str, parts: list[Any], fields: Mapping[str, Any]) -> tuple[dict[str, Any], bytearray]:
        self._requests += 1
        request = {"verb": verb, "id": self._requests, **fields}
        with self._sending:
            self.channel.send_head(request, sum(len(part) for part in parts))
            for part in parts:
                for start in range(0, len(part), CHUNK):
                    self.channel.send_bytes(memoryview(part)[start : start + CHUNK])
        try:
            message, data = self._answer()
        except ConnectionLost:
            self.close()
            raise
        return result_of(message, self._requests, self.channel.peer), data

    def _answer(self) -> tuple[dict[str, Any], bytearray]:
        """The next answer but those to `cancel`: the cancelled request has an answer of its own."""
        while True:
            message, data = self.channel.receive(self.seconds)
            if message.get("id") != _CANCELLING:
                return message, data

    def describe(self) -> dict[str, Any]:
        """The device's description: architecture, features, memory, and the confinement of code there."""
        return self.ask("describe")

    def upload(self, what: Any) -> str:
        """Bring a file, or anything with `save` (a compiled model, a module), to the device; the digest to load it by.

        What the device has already is not sent again. For a board without Python something compiled is made a shared
        library, which needs a cross compiler; files and bytes go as they are.
        """
        if not isinstance(what, str | os.PathLike):
            with tempfile.TemporaryDirectory(prefix="tilewright-upload-") as folder:
                path = Path(folder) / "module.so"
                self._save(what, path)
                return self.upload(path)
        digest, size = digest_of(what), os.path.getsize(what)
        if not self.ask("have", digest=digest, bytes=size)["have"]:
            with self._lock, open(what, "rb") as file:
                self._send_file(file, digest)
        return digest

    def download(self, digest: str) -> bytearray:
        """The contents uploaded under a digest. Raises `InputError` if the device no longer has them."""
        return self.exchange("get", digest=digest)[1]

    def _save(self, what: Any, path: Path) -> None:
        if isinstance(what, bytes):
            path.write_bytes(what)
        elif self.loads == ARTIFACT:
            what.save(path)
        else:
            # it needs the compiler
            from tilewright.rpc.board.library import save_for

            save_for(what, self.loads, path)

    @cached_property
    def loads(self) -> str:
        """The kind of file that the device loads (`board/loads.py`)."""
        return str(self.describe().get("loads", ARTIFACT))

    def _send_file(self, file: Any, digest: str) -> None:
        self._requests += 1
        with self._sending:
            self.channel.send_file({"verb": "put", "id": self._requests, "digest": digest}, file)
        result_of(self._answer()[0], self._requests, self.channel.peer)

    def load_module(self, digest: str, threads: int | None = None) -> RemoteModel | RemoteLibrary:
        """An uploaded file, loaded in the session's own process on the device."""
        fields = {} if threads is None else {"threads": threads}
        found = self.ask("load", digest=digest, **fields)
        return RemoteModel(self, found) if found.get("kind") == "model" else RemoteLibrary(self, found)

    def function(self, name: str) -> RemoteFunction:
        """A function that the program which runs the server offers by name. Raises `RpcError` where it offers none."""
        return RemoteFunction(self, self.ask("function", name=name)["function"])

    def empty(self, shape: Sequence[int], dtype: str = "float32") -> RemoteArray:
        """Memory on the device, holding anything."""
        return RemoteArray(self, tuple(int(n) for n in shape), dtype)

    def array(self, values: Any) -> RemoteArray:
        """A copy of an array on the device."""
        source = values.numpy() if isinstance(values, Tensor) else np.asarray(values)
        return self.empty(source.shape, parts_of([source])[0]["dtype"]).copyfrom(source)

    def turns(self, calls: Sequence[Turn], rounds: int) -> list[list[float]]:
        """Compare calls on the device: in each of `rounds` each is made its `number` of times; seconds of one call."""
        runs = [
            {"module": call.library.number, "function": call.function, "args": _arguments(call.args),
             "number": call.number}
            for call in calls
        ]  # fmt: skip
        return [list(seconds) for seconds in self.ask("turns", runs=runs, rounds=rounds)["seconds"]]

    def forget(self, kind: str, number: int) -> None:
        """Free an array or a module with the next request."""
        self._left.append((kind, number))

    def cancel(self) -> None:
        """Stop what a call of another thread is waiting for; that call raises."""
        with contextlib.suppress(ConnectionLost), self._sending:
            self.channel.send({"verb": "cancel", "id": _CANCELLING, "request": self._requests})

    def close(self) -> None:
        """End the session: its process on the device is killed, its arrays are gone."""
        self.channel.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class RemoteArray:
    """An array in the memory of a device. It is freed there when nobody here holds it any more."""

    def __init__(self, session: Session, shape: tuple[int, ...], dtype: str, number: int | None = None) -> None:
        """Memory of its own, or the array that has a `number` there."""
        self.session, self.shape = session, shape
        self.numpy_dtype = spec_of(list(shape), dtype)[1]
        self.dtype = dtype
        self.number: int = (
            session.ask("allocate", shape=list(shape), dtype=dtype)["array"] if number is None else number
        )

    @property
    def nbytes(self) -> int:
        """Bytes that it has."""
        return math.prod(self.shape) * self.numpy_dtype.itemsize

    def copyfrom(self, source: Any) -> RemoteArray:
        """Fill it from an array here, or from one on the same device; itself."""
        if isinstance(source, RemoteArray):
            self.session.ask("copy", source=source.number, target=self.number)
            return self
        array = dense(np.asarray(source, self.numpy_dtype))
        if array.shape != self.shape:
            raise InputError(f"an array of shape {list(array.shape)} does not fit one of {list(self.shape)}")
        self.session.ask("write", _bytes_of(array), array=self.number)
        return self

    def numpy(self) -> Array:
        """A copy here."""
        _, data = self.session.exchange("read", array=self.number)
        return np.frombuffer(data, self.numpy_dtype).reshape(self.shape)

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):
            self.session.forget("array", self.number)

    def __repr__(self) -> str:
        return f"RemoteArray({self.dtype}{list(self.shape)} on {self.session.name})"


@dataclass(frozen=True)
class RemoteFunction:
    """A function of the server's own process: `f(1, "text", remote_array)`; it may return a function or an array."""

    session: Session
    number: int

    def __call__(self, *args: Any) -> Any:
        """The result of the function. Raises the error that it raises on the device."""
        fields = [self._field(arg) for arg in args]
        reply = self.session.ask("invoke", function=self.number, args=fields)
        if "function" in reply:
            return RemoteFunction(self.session, reply["function"])
        if "array" in reply:
            return RemoteArray(self.session, tuple(reply["shape"]), reply["dtype"], reply["array"])
        return decoded(reply["value"])

    @staticmethod
    def _field(arg: Any) -> Any:
        if isinstance(arg, RemoteArray):
            return {"array": arg.number}
        return {"function": arg.number} if isinstance(arg, RemoteFunction) else encoded(arg)


@dataclass(frozen=True)
class Times:
    """Seconds of each repeat of a measurement on a device."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Their mean."""
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        """Their median."""
        return statistics.median(self.results)

    @property
    def min(self) -> float:
        """The least of them."""
        return min(self.results)


@dataclass(frozen=True)
class Turn:
    """A call that is compared with others by `Session.turns`: `number` of them in a row make a turn.

    An argument may be a list of arrays of one shape, another of which is given at each call.
    """

    library: RemoteLibrary
    function: str
    args: Sequence[Any]
    number: int = 1


class _Remote:
    """An object loaded on a device."""

    def __init__(self, session: Session, info: Mapping[str, Any]) -> None:
        self.session = session
        self.number: int = info["module"]

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):
            self.session.forget("module", self.number)


class RemoteLibrary(_Remote):
    """A library of functions on a device: `lib["f"](a, b)` on remote arrays and scalars."""

    def __init__(self, session: Session, info: Mapping[str, Any]) -> None:
        super().__init__(session, info)
        self.functions: dict[str, Any] = {one["name"]: one for one in info["functions"]}

    def __contains__(self, name: str) -> bool:
        return name in self.functions

    def __getitem__(self, name: str) -> Any:
        """The function of that name. Raises `KeyError`."""
        if name not in self.functions:
            raise KeyError(f"the module has no function {name!r}; it has: {', '.join(self.functions)}")

        def call(*args: Any) -> None:
            self.session.ask("call", module=self.number, function=name, args=_arguments(args))

        return call

    def time_evaluator(self, name: str, number: int = 10, repeat: int = 1, min_repeat_ms: float = 0) -> Any:
        """A function that measures `name` on its arguments, on the device: `repeat` means over `number` calls."""
        self[name]

        def measure(*args: Any) -> Times:
            fields = {"number": number, "repeat": repeat, "min_repeat_ms": min_repeat_ms}
            found = self.session.ask("time", module=self.number, function=name, args=_arguments(args), **fields)
            return Times(tuple(found["seconds"]))

        return measure


class RemoteModel(_Remote):
    """A compiled model on a device, used like one that is here."""

    def __init__(self, session: Session, info: Mapping[str, Any]) -> None:
        super().__init__(session, info)
        self.inputs = [TensorSpec.from_json(spec) for spec in info["inputs"]]
        self.outputs = [TensorSpec.from_json(spec) for spec in info["outputs"]]
        self.target, self.threads = str(info.get("target", "")), int(info.get("threads", 1))

    def __call__(self, *values: Any) -> Any:
        """Run on positional inputs; the output, or a list of several."""
        results = self._run(by_position(values, self.inputs))
        return results[0] if len(results) == 1 else results

    def run(self, inputs: Mapping[str, Any]) -> list[Array]:
        """Run on named inputs; the outputs in the model's order."""
        return self._run(by_name(inputs, self.inputs))

    def _run(self, arrays: Sequence[Any]) -> list[Array]:
        found, data = self.exchange("run", arrays)
        return split(data, found["outputs"])

    def time(self, inputs: Mapping[str, Any], repeat: int = 10, warmup: int = 1) -> list[float]:
        """Seconds of each of `repeat` runs on the device, the way there and back not counted."""
        found, _ = self.exchange("time_model", by_name(inputs, self.inputs), repeat=repeat, warmup=warmup)
        return list(found["seconds"])

    def profile(self, inputs: Mapping[str, Any], repeat: int = 1) -> list[KernelTime]:
        """Each kernel call on the device: its name, the nodes that it computes, seconds."""
        found, _ = self.exchange("profile", by_name(inputs, self.inputs), repeat=repeat)
        return [KernelTime(name, source, seconds) for name, source, seconds in found["kernels"]]

    def exchange(self, verb: str, arrays: Sequence[Any], **fields: Any) -> tuple[dict[str, Any], bytearray]:
        """The answer to a verb of the model on these inputs, in their order, with its bytes."""
        sent = [dense(array) for array in arrays]
        specs = [{"name": spec.name, **part} for spec, part in zip(self.inputs, parts_of(sent), strict=True)]
        parts = [_bytes_of(array) for array in sent]
        return self.session.exchange(verb, parts, module=self.number, inputs=specs, **fields)


def _bytes_of(array: Array) -> Any:
    return array.reshape(-1).view(np.uint8).data if array.nbytes else b""


def _arguments(args: Sequence[Any]) -> list[Any]:
    """Arguments of a call: arrays that are on the device by their numbers, scalars as they are."""
    made: list[Any] = []
    for arg in args:
        if isinstance(arg, RemoteArray):
            made.append({"array": arg.number})
        elif isinstance(arg, list) and arg and all(isinstance(one, RemoteArray) for one in arg):
            made.append({"arrays": [one.number for one in arg]})
        elif isinstance(arg, bool | int | float | np.number):
            made.append(arg.item() if isinstance(arg, np.number) else arg)
        else:
            raise InputError(f"an argument on a device is a remote array or a number, not {type(arg).__name__}")
    return made
