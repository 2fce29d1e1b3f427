"""PyTorch programs to Relay: `torch.export` graphs before decomposition, one converter function per ATen operator."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tilewright.errors import EnvironmentError_

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from tilewright.frontend.inputs import InputSpec
    from tilewright.relay.ir.module import IRModule

    TorchProgram: TypeAlias = str | os.PathLike[str] | ExportedProgram


def from_pytorch(
    program: TorchProgram, input_shapes: Mapping[str, Sequence[Any]] | None = None
) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for a program of `torch.export` (in memory or a `.pt2` file), and its inputs in order.

    Parameters and buffers become constants. A buffer that the program changes is one more input, under its name, and
    its new value one more output of the same name. Nested inputs and outputs are flattened, as PyTorch does. Dynamic
    dimensions are symbolic; `input_shapes` fixes them by input name.
    Raises `ModelError` for a bad file, `ShapeError` for a shape that does not fit, `UnsupportedError` naming every
    operator that cannot be converted, `EnvironmentError_` when the `torch` package is not installed.
    """
    need_torch()
    # the importer needs the optional package; above is the message for who has none
    from tilewright.frontend.torch.convert import convert_program

    return convert_program(program, input_shapes)


def need_torch() -> None:
    """Raise `EnvironmentError_` when the `torch` package is not installed."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise EnvironmentError_(
            "reading PyTorch programs needs the torch package, which is not installed; "
            "run: pip install torch --index-url https://download.pytorch.org/whl/cpu"
        ) from None


__all__ = ["from_pytorch", "need_torch"]
