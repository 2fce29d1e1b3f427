"""A model in any of the forms that `tilewright.compile` takes, as a Relay module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.errors import UnsupportedError
from tilewright.frontend.formats.table import ModelSource, frontend_for
from tilewright.frontend.outputs import choose_outputs
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.symbolic import fix_sizes
from tilewright.support.open_sizes import Shapes, as_mapping


class Entry(NamedTuple):
    """The part of a model that is compiled: one of its signatures, and some results; None is what the model states."""

    signature: str | None = None
    outputs: Sequence[str] | None = None

    @staticmethod
    def of(signature: str | None, outputs: str | Sequence[str] | None) -> Entry:
        """The entry of arguments as users write them: one output may be a string."""
        return Entry(signature, (outputs,) if isinstance(outputs, str) else None if outputs is None else tuple(outputs))


#: All of a model, by its own entry.
WHOLE = Entry()


def import_model(model: ModelSource, input_shapes: Shapes | None, entry: Entry = WHOLE) -> IRModule:
    """The Relay module of a model in any of the forms `compile` takes.

    Raises `ModelError` where there is no such file or it is of no known format, `UnsupportedError` for another object.
    """
    if isinstance(model, IRModule):
        if entry.signature is not None:
            raise UnsupportedError(f"a Relay module has no signatures; leave out signature={entry.signature!r}")
        fixed = model.with_function("main", fix_sizes(model["main"], input_shapes)) if input_shapes else model
        return choose_outputs(fixed, entry.outputs, "a Relay module")
    return frontend_for(model, entry.signature).convert_outputs(model, as_mapping(input_shapes), entry.outputs)
