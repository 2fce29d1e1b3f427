"""Confine this process and become another program: `python -m tilewright.rpc.confined FOLDER SETTINGS COMMAND…`.

How workers that are not Python are started: the measures of `sandbox.py` hold for what a process becomes. Which of them
took is reported in a first frame over standard input, which is the worker's connection.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.rpc.frames import Channel
from tilewright.rpc.sandbox import Limits, confine, end_with_parent, own_processes


def main(folder: Path, settings: dict[str, Any], command: Sequence[str]) -> None:
    """Drop all privileges that the command does not need, report that, and run it."""
    channel = Channel(socket.socket(fileno=os.dup(0)), "the server")
    readable = [Path(position) for position in settings["readable"]]
    alone = "on"
    if settings["children"]:  # which end with this process, wherever they put themselves
        end_with_parent()
        alone = "on" if own_processes() else "off: the system has no processes of its own for it"
    measures = confine(folder, readable, Limits(**settings["limits"]), starts=True, children=settings["children"])
    channel.send({"measures": {**measures, "processes": alone} if settings["children"] else measures})
    channel.socket.setblocking(True)  # which holds for the descriptor that the command inherits too
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror or error}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:])
