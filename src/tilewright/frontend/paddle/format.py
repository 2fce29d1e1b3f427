"""Paddle among the formats: what its programs begin like, and who reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Shapes
from tilewright.frontend.paddle import converts, from_paddle
from tilewright.frontend.paddle.load import MODEL_OF_FOLDER, is_program, parameters_beside
from tilewright.frontend.source import Source
from tilewright.frontend.two_files import PairFrontend, parts_of
from tilewright.relay.ir.module import IRModule


class PaddleFrontend(PairFrontend):
    """A program with its parameters beside it, or a pair of both."""

    name = "paddle"
    kind = "a Paddle program"
    in_memory = "a tuple of a Paddle program and its parameters"

    def recognizes(self, source: Source) -> bool:
        """JSON of PIR, or a protocol buffer whose first field is a block with a number."""
        if source.is_folder:
            return MODEL_OF_FOLDER in source.members
        return is_program(source.contents)

    weights_beside = staticmethod(parameters_beside)

    def companions(self, path: Path) -> Sequence[Path]:
        """The parameters; all files of a folder without any."""
        if path.is_dir() and parameters_beside(path) is None:
            return sorted(one for one in path.iterdir() if one.is_file())
        return super().companions(path)

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        return from_paddle(*parts_of(model), input_shapes)

    def operators(self) -> dict[str, list[str]]:
        """By their names in today's programs."""
        return {"operators": converts.supported()}
