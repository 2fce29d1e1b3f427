"""Boards without an operating system: a model's C source built into an image, run under qemu, measured."""

from tilewright.board.boards import BOARDS, Board, board_named
from tilewright.board.device import BoardDevice, EmulatedBoard, LoadedProgram
from tilewright.board.image import BoardProgram, Sizes, build_image
from tilewright.board.model import BoardModel
from tilewright.board.run import BoardRun, run_image

__all__ = [
    "BOARDS",
    "Board",
    "BoardDevice",
    "BoardModel",
    "BoardProgram",
    "BoardRun",
    "EmulatedBoard",
    "LoadedProgram",
    "Sizes",
    "board_named",
    "build_image",
    "run_image",
]
