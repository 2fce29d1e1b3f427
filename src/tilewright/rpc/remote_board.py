"""A board without an operating system behind a session, as a device that models and tuners run programs on.

with borrowed_board("mps2-an386", tracker=("127.0.0.1", 9190)) as device:
    model = BoardModel(program, board_named("mps2-an386"), cpu, target, version, device)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tilewright.board.image import BoardProgram, Sizes
from tilewright.board.run import BoardRun
from tilewright.errors import InputError
from tilewright.rpc.arrays import split
from tilewright.rpc.board.loads import PROGRAM
from tilewright.rpc.board.programs import Upload, sizes_from_json
from tilewright.rpc.client import RemoteModel, Session, connect
from tilewright.rpc.tracker_client import connect_tracker
from tilewright.runtime.memory import Array

#: Seconds to wait for a free board.
WAIT_SECONDS = 600.0


@contextmanager
def borrowed_board(
    name: str,
    tracker: tuple[str, int] | None = None,
    device: tuple[str, int] | None = None,
    bundle: str | os.PathLike[str] | None = None,
    wait: float = WAIT_SECONDS,
) -> Iterator[RemoteBoard]:
    """The board `name`: one that a tracker lends (its key is the name), or that of the server at `device`."""
    if (tracker is None) == (device is None):
        raise InputError("a board elsewhere is lent by a tracker, or its server is at an address: name one of them")
    if tracker is not None:
        session = connect_tracker(*tracker, bundle=bundle).request(name, wait=wait)
    else:
        assert device is not None
        session = connect(*device, bundle=bundle)
    with session as remote:
        yield RemoteBoard(remote, name)


class RemoteBoard:
    """A board behind a session."""

    def __init__(self, session: Session, name: str) -> None:
        """Raises `InputError` where the device of the session is no such board."""
        self.session, self.name = session, name
        found = session.describe()
        if session.loads != PROGRAM or found.get("board") != name:
            raise InputError(f"{session.name} is {found.get('board') or found['architecture']}, not the board {name}")

    def load(self, program: BoardProgram, cpu: str = "", kernels: bool = False) -> RemoteProgram:
        """Send the source, which is built where the board is."""
        return self.bring(Upload(program, self.name, cpu, kernels))

    def bring(self, upload: Upload) -> RemoteProgram:
        """As `load`, of source or of an image that was built here."""
        return RemoteProgram(self.session, self.session.upload(upload.to_bytes()))


class RemoteProgram:
    """A program on a board elsewhere."""

    def __init__(self, session: Session, digest: str) -> None:
        """Load an upload."""
        found = session.ask("load", digest=digest)
        self._model = RemoteModel(session, found)
        self.sizes: Sizes = sizes_from_json(found["sizes"])

    def run(self, inputs: Sequence[Array]) -> BoardRun:
        """As of every board."""
        found, data = self._model.exchange("run", inputs)
        kernels = {str(name): int(count) for name, count in found["kernels"].items()}
        outputs = split(data, found["outputs"])
        return BoardRun(outputs, int(found["instructions"]), int(found["stack"]), kernels=kernels)
