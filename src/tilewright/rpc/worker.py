"""The process in which a session's uploaded code runs: `python -m tilewright.rpc.worker FD FOLDER SETTINGS`.

It confines itself (`sandbox.py`), says so in its first frame, and then does one request after another that the server
passes on. It holds the session's modules and arrays under numbers; the first number is in the settings, so that those
of a worker that died are never taken for those of the next. It ends with its connection, and with its server.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import ArtifactError, EnvironmentError_, InputError, UnsupportedError, UserError
from tilewright.load import load
from tilewright.rpc.arrays import dense, describe, parts_of, spec_of
from tilewright.rpc.frames import Channel, ConnectionLost
from tilewright.rpc.messages import answer, failure
from tilewright.rpc.replies import Reply, answer_requests
from tilewright.rpc.sandbox import Limits, confine, unconfined
from tilewright.runtime.container import container_format
from tilewright.runtime.gpu.module import DeviceModule, is_device_module
from tilewright.runtime.gpu.prepared import DevicePrepared
from tilewright.runtime.memory import Array, aligned_empty
from tilewright.runtime.model import Model
from tilewright.runtime.module import FORMAT, Module, Prepared
from tilewright.support.dtype import DType

#: Seconds between two looks at whether the server is there.
_LOOK_SECONDS = 0.5


class Worker:
    """A session's modules and arrays, with a method for each verb of the protocol."""

    def __init__(self, channel: Channel, store: Path, first: int) -> None:
        self._channel = channel
        self._store = store
        self._next = first
        self._modules: dict[int, Module | DeviceModule | Model] = {}
        self._arrays: dict[int, Array] = {}

    def serve(self) -> None:
        """Answer requests until the connection ends."""
        answer_requests(self._channel, self._answer)

    def _answer(self, request: Mapping[str, Any]) -> Reply:
        """Do one request; what it did not read of its bytes is dropped, so that the next frame can be read."""
        try:
            verb: Callable[[Mapping[str, Any]], Reply] = getattr(self, f"_{request['verb']}")
            result, arrays = verb(request)
            reply = answer(request, result), arrays
        except (UserError, MemoryError, LookupError, TypeError, ValueError, OverflowError) as error:
            known = EnvironmentError_("the device has no memory for this") if isinstance(error, MemoryError) else error
            reply = failure(request, known), []
        self._channel.drop()
        return reply

    def _take(self, array: Array) -> None:
        """Fill an array from the bytes of the frame at hand."""
        if array.nbytes > self._channel.left:
            raise InputError(f"{array.nbytes} bytes are needed, {self._channel.left} were sent")
        if array.nbytes:
            self._channel.receive_into(array.reshape(-1).view(np.uint8).data)

    def _load(self, request: Mapping[str, Any]) -> Reply:
        path, threads = self._store / request["digest"], request.get("threads")
        try:
            made = _loaded(path, threads)
        except ArtifactError as error:
            raise ArtifactError(str(error).replace(str(path), "the upload")) from None
        number = self._number()
        self._modules[number] = made
        return {"module": number, **describe(made)}, []

    def _unload(self, request: Mapping[str, Any]) -> Reply:
        self._modules.pop(request["module"], None)
        return {}, []

    def _allocate(self, request: Mapping[str, Any]) -> Reply:
        shape, dtype = spec_of(request["shape"], request["dtype"])
        number = self._number()
        self._arrays[number] = aligned_empty(shape, dtype)
        return {"array": number}, []

    def _write(self, request: Mapping[str, Any]) -> Reply:
        array = self._array(request["array"])
        if array.nbytes != self._channel.left:
            raise InputError(f"the array has {array.nbytes} bytes, {self._channel.left} were sent")
        self._take(array)
        return {}, []

    def _read(self, request: Mapping[str, Any]) -> Reply:
        array = self._array(request["array"])
        return parts_of([array])[0], [array]

    def _copy(self, request: Mapping[str, Any]) -> Reply:
        np.copyto(self._array(request["target"]), self._array(request["source"]), casting="no")
        return {}, []

    def _free(self, request: Mapping[str, Any]) -> Reply:
        self._arrays.pop(request["array"], None)
        return {}, []

    def _call(self, request: Mapping[str, Any]) -> Reply:
        self._function(request)(*self._arguments(request["args"]))
        return {}, []

    def _time(self, request: Mapping[str, Any]) -> Reply:
        """As the field's time evaluator: means over `number` calls, more where `min_repeat_ms` is not reached."""
        function, arguments, number = self._function(request), self._arguments(request["args"]), request["number"]
        least = request["min_repeat_ms"] / 1e3
        while least > 0:
            taken = function.time(*arguments, repeat=1, number=number)[0] * number
            if taken >= least:
                break
            number = int(number * max(min(least / max(taken, 1e-9) * 1.2, 100.0), 1.618)) + 1
        return {"seconds": function.time(*arguments, repeat=request["repeat"], number=max(number, 1))}, []

    def _turns(self, request: Mapping[str, Any]) -> Reply:
        """Calls that are compared: in each round each of them `number` times in a row, every other round backwards."""
        runs = [(self._prepared(run), int(run["number"])) for run in request["runs"]]
        seconds: list[list[float]] = [[] for _ in runs]
        for done in range(request["rounds"]):
            for index in range(len(runs))[:: -1 if done % 2 else 1]:
                prepared, number = runs[index]
                seconds[index].append(prepared.seconds(max(number, 1)))
        return {"seconds": seconds}, []

    def _prepared(self, run: Mapping[str, Any]) -> Prepared | DevicePrepared:
        """A call with its arguments in place; those that are several arrays take turns."""
        copies = {
            position: [self._array(number) for number in arg["arrays"]]
            for position, arg in enumerate(run["args"])
            if isinstance(arg, dict) and "arrays" in arg
        }
        args = [{"array": arg["arrays"][0]} if position in copies else arg for position, arg in enumerate(run["args"])]
        return self._function(run).prepared(*self._arguments(args), turns=copies)

    def _run(self, request: Mapping[str, Any]) -> Reply:
        model = self._model(request["module"])
        results = model.run(self._inputs(request["inputs"]))
        if not all(isinstance(result, np.ndarray) for result in results):
            raise UnsupportedError(
                "the model returns sequences or optional values, which cannot be sent: only arrays are"
            )
        results = [dense(result) for result in results]
        return {"outputs": parts_of(results)}, results

    def _time_model(self, request: Mapping[str, Any]) -> Reply:
        model, inputs = self._model(request["module"]), self._inputs(request["inputs"])
        return {"seconds": model.time(inputs, repeat=request["repeat"], warmup=request["warmup"])}, []

    def _profile(self, request: Mapping[str, Any]) -> Reply:
        model, inputs = self._model(request["module"]), self._inputs(request["inputs"])
        rows = model.profile(inputs, repeat=request["repeat"])
        return {"kernels": [[row.kernel, row.source, row.seconds] for row in rows]}, []

    def _inputs(self, specs: list[Any]) -> dict[str, Array]:
        """The named inputs: arrays that are here, or ones that come with the frame, in order."""
        found = {}
        for spec in specs:
            if "array" in spec:
                found[str(spec["name"])] = self._array(spec["array"])
                continue
            shape, dtype = spec_of(spec["shape"], spec["dtype"])
            if int(np.prod(shape, dtype=object)) * dtype.itemsize > self._channel.left:
                raise InputError(f"input {spec['name']!r} is declared larger than what was sent")
            array = found[str(spec["name"])] = aligned_empty(shape, dtype)
            self._take(array)
        return found

    def _arguments(self, args: list[Any]) -> list[Any]:
        return [self._array(arg["array"]) if isinstance(arg, dict) else arg for arg in args]

    def _function(self, request: Mapping[str, Any]) -> Any:
        module = self._modules.get(request["module"])
        if not isinstance(module, Module | DeviceModule):
            raise InputError(f"module {request['module']} is not here, or is a model, which is run as a whole")
        return module[request["function"]]

    def _model(self, number: int) -> Model:
        model = self._modules.get(number)
        if not isinstance(model, Model):
            raise InputError(f"module {number} is not here, or is a library of functions, which are called one by one")
        return model

    def _array(self, number: Any) -> Array:
        if number not in self._arrays:
            raise InputError(f"array {number} is not on the device: it was freed, or its worker has died")
        return self._arrays[number]

    def _number(self) -> int:
        self._next += 1
        return self._next


def _loaded(path: Path, threads: int | None) -> Module | DeviceModule | Model:
    """An upload: a library of functions, for this processor or a device of this machine, or a model."""
    if is_device_module(path):
        return DeviceModule.load(path)
    return Module.load(path, threads) if container_format(path) == FORMAT else load(path, threads=threads)


def main(handle: int, folder: Path, settings: Mapping[str, Any]) -> None:
    """Confine this process and serve the connection `handle`."""
    DType("bfloat16")  # brings in the data types that NumPy has not
    channel = Channel(socket.socket(fileno=handle), "the server")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if settings.get("devices"):
        measures = unconfined("the drivers of its devices need what it forbids")
    else:
        measures = confine(folder, [Path(settings["store"])], Limits(**settings["limits"]))
    parent = settings["parent"]

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    channel.send({"measures": measures})
    try:
        Worker(channel, Path(settings["store"]), settings["first"]).serve()
    except ConnectionLost:
        os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
