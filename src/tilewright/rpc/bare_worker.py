"""The worker of a board without an operating system: `python -m tilewright.rpc.bare_worker BOARD FIRST MEMORY`.

It speaks the frames of `rpc/frames.py` over its standard input with the server of the device, builds the programs that
come with `load`, brings them to the board and runs them there. `BOARD` is what `board_device` takes. It ends with its
input.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.board.boards import Board, board_named
from tilewright.board.device import BoardDevice, EmulatedBoard, EmulatedProgram, LoadedProgram
from tilewright.board.image import require_tools
from tilewright.board.serial.device import QEMU, SerialBoard
from tilewright.errors import ArtifactError, InputError, UnsupportedError, UserError
from tilewright.rpc import worker_process
from tilewright.rpc.arrays import dense, parts_of, spec_of
from tilewright.rpc.board.loads import PROGRAM
from tilewright.rpc.board.programs import Upload, sizes_to_json
from tilewright.rpc.frames import Channel, ConnectionLost
from tilewright.rpc.messages import answer, failure
from tilewright.rpc.replies import Reply, answer_requests
from tilewright.runtime.memory import Array


class BareWorker:
    """A session's programs, with a method for each verb of the protocol that such a board does."""

    def __init__(self, channel: Channel, name: str, device: BoardDevice, first: int) -> None:
        self._channel, self._name, self._device, self._next = channel, name, device, first
        self._loaded: dict[int, tuple[Upload, LoadedProgram]] = {}

    def serve(self) -> None:
        """Answer requests until the connection ends."""
        answer_requests(self._channel, self._answer)

    def _answer(self, request: Mapping[str, Any]) -> Reply:
        verbs: dict[str, Callable[[Mapping[str, Any]], Reply]] = {
            "load": self._load, "unload": self._unload, "run": self._run,
        }  # fmt: skip
        try:
            if request["verb"] not in verbs:
                raise UnsupportedError(
                    f"the board {self._name} runs whole models and counts their instructions, and has no arrays or "
                    f"seconds ({request['verb']!r}): use `tilewright run|verify|bench|tune MODEL --board {self._name}`"
                )
            result, arrays = verbs[request["verb"]](request)
            reply = answer(request, result), arrays
        except (UserError, MemoryError, LookupError, TypeError, ValueError, OverflowError, OSError) as error:
            reply = failure(request, error), []
        self._channel.drop()
        return reply

    def _load(self, request: Mapping[str, Any]) -> Reply:
        data = bytearray(self._channel.left)
        self._channel.receive_into(memoryview(data))
        upload = Upload.of(bytes(data))
        if upload.board != self._name:
            raise ArtifactError(f"the program is for the board {upload.board}, and this is {self._name}")
        self._next += 1
        self._loaded[self._next] = upload, self._brought(upload)
        sides = {side: [spec.to_json() for spec in getattr(upload.program.interface, side)]
                 for side in ("inputs", "outputs")}  # fmt: skip
        sizes = sizes_to_json(self._loaded[self._next][1].sizes)
        return {"module": self._next, "kind": "model", "threads": 1, "sizes": sizes, **sides}, []

    def _brought(self, upload: Upload) -> LoadedProgram:
        if not upload.image:
            return self._device.load(upload.program, upload.cpu, upload.kernels)
        if not isinstance(self._device, EmulatedBoard) or upload.sizes is None:
            raise UnsupportedError(f"the board {self._name} is flashed with what it builds itself: send source")
        return EmulatedProgram(upload.program, self._device.board, upload.image, upload.sizes, upload.kernels)

    def _unload(self, request: Mapping[str, Any]) -> Reply:
        self._loaded.pop(request["module"], None)
        return {}, []

    def _run(self, request: Mapping[str, Any]) -> Reply:
        if request["module"] not in self._loaded:
            raise InputError(f"module {request['module']} is not here")
        upload, loaded = self._loaded[request["module"]]
        specs = upload.program.interface.inputs
        arrays = [self._input(spec) for spec in request["inputs"]]
        wanted = [(spec.static_shape, spec.numpy) for spec in specs]
        if [(array.shape, array.dtype) for array in arrays] != wanted:
            raise InputError(f"the program takes {', '.join(map(str, specs))}")
        run = loaded.run(arrays)
        outputs = [dense(array) for array in run.outputs]
        counts = {"instructions": run.instructions, "stack": run.stack, "kernels": dict(run.kernels)}
        return {"outputs": parts_of(outputs), **counts}, outputs

    def _input(self, spec: Mapping[str, Any]) -> Array:
        """An array that comes with the frame at hand."""
        shape, dtype = spec_of(spec["shape"], spec["dtype"])
        count = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if count > self._channel.left:
            raise InputError(f"input {spec['name']!r} is declared larger than what was sent")
        data = bytearray(count)
        if count:
            self._channel.receive_into(memoryview(data))
        return np.frombuffer(data, dtype).reshape(shape)


def launched(name: str, serial: str = "", flash: str = "") -> worker_process.Board:
    """The command of this worker for a board: under qemu, or on a serial line of this machine; see `SerialBoard`.

    Lines and commands that flash need what confinement takes away, so that such a worker has none.
    """
    text = json.dumps({"board": name, "serial": serial, "flash": flash})
    board_device(text)  # an error here is clearer than one of its worker
    launcher = (sys.executable, "-m", "tilewright.rpc.bare_worker")
    return worker_process.Board(text, launcher, elsewhere=bool(serial), children=True)


def board_device(text: str) -> tuple[Board, BoardDevice]:
    """A board of this machine, of `{"board": NAME, "serial": LINE, "flash": COMMAND}`, and what runs programs on it.

    Raises `InputError`, and `EnvironmentError_` without its tools.
    """
    found = json.loads(text)
    board = board_named(found["board"])
    if board.vta:
        raise InputError(f"the board {board.name} is emulated beside a process, and not lent over a fleet")
    line = found.get("serial", "")
    if board.emulator:
        require_tools(board)
    if not line:
        require_tools(board)
        return board, EmulatedBoard(board)
    if line == QEMU and not board.emulator:
        raise InputError(f"qemu has no board {board.name}; name the line that it is on, as --serial /dev/ttyACM0")
    if not board.serial and "{folder}" not in found.get("flash", ""):
        raise InputError(
            f"the memories and the UART of {board.name} are its maker's: --flash needs a command that builds the C "
            "source in {folder} into a project of its own and flashes that"
        )
    return board, SerialBoard(board, line, found.get("flash", ""))


def main(text: str, first: int) -> None:
    """Serve the connection at standard input."""
    channel = Channel(socket.socket(fileno=os.dup(0)), "the server")
    try:
        board, device = board_device(text)
    except UserError as error:
        sys.exit(str(error))
    tells = {"architecture": board.cpu, "features": [], "processors": 1, "memory": board.ram[1], "system": "none"}
    channel.send({"capability": {**tells, "loads": PROGRAM, "board": board.name}})
    try:
        BareWorker(channel, board.name, device, first).serve()
    except ConnectionLost:
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
