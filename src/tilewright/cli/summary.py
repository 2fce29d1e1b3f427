"""`tilewright inspect MODEL`: what a model is, in a screenful: inputs, outputs, operators, parameters, operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.cli.codes import layer_codes
from tilewright.errors import UnsupportedError, UserError

if TYPE_CHECKING:
    from tilewright.frontend.description import Description
    from tilewright.relay.ir.expr import Function
    from tilewright.relay.ir.module import IRModule
    from tilewright.target import Target


def summary_lines(path: str, shapes: Mapping[str, Sequence[int]] | None, target: str = "cpu") -> Iterator[str]:
    """The summary of the model at `path`; with the sizes that `shapes` fixes, for `target`.

    What is not supported is a line, no error. Raises `ModelError` where the file is no model, `TargetError` for an
    unknown target.
    """
    # only when it runs: `tilewright --help` reads this module
    from tilewright.frontend.formats.import_model import import_model
    from tilewright.frontend.formats.table import frontend_of
    from tilewright.relay.ir.infer_type import infer_type
    from tilewright.target import Target

    refusal = _refusal(Target(target))
    size = _size(Path(path).stat().st_size)
    try:
        description = frontend_of(path).describe(path)
    except UnsupportedError as error:  # of a format that is described by what its models become
        yield f"{path}: {size}"
        yield from _section("not supported", str(error).splitlines())
        return
    yield f"{path}: {size}, {description.origin}"
    yield from _section("inputs", description.inputs)
    yield from _section("outputs", description.outputs)
    yield from _operators(description.operators)
    yield _parameters(description)
    try:
        module = infer_type(import_model(path, shapes))
    except UserError as error:
        yield from _section("not supported", str(error).splitlines())
        return
    if codes := layer_codes(module):
        yield from _section("codes", codes)
    yield f"operations     {_operations(module)}"
    yield f"runs on        {_executor(module)}"
    yield f"not supported  {refusal or 'nothing'}"


def _refusal(target: Target) -> str:
    """The reason why no model is compiled for the target; "" where they are."""
    from tilewright.backend import backend_of  # as above

    try:
        backend_of(target).check()
    except UserError as error:
        return str(error)
    return ""


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    """Lines beside a title; the title stands before the first."""
    for index, line in enumerate(lines or ["nothing"]):
        yield f"{title if index == 0 else '':14} {line}"


def _operators(count: Counter[str]) -> Iterator[str]:
    """Counts of each operator in the graph and in its nested functions, the most frequent first."""
    yield f"operators      {count.total()} nodes of {len(count)} kinds"
    text = ""
    for name, times in count.most_common():
        entry = f"{name} {times}"
        if len(text) + len(entry) > 95:
            yield f"{'':14} {text}"
            text = ""
        text += f", {entry}" if text else entry
    if text:
        yield f"{'':14} {text}"


def _parameters(description: Description) -> str:
    """Numbers and bytes of all stored tensors, by element type."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in description.parameters.most_common())
    return f"parameters     {kinds or 'none'}{f'; {_size(description.parameter_bytes)}' if kinds else ''}"


def _operations(module: IRModule) -> str:
    """Floating-point operations of a run, as `relay/op/cost.py` counts them."""
    from tilewright.relay.ir.visitor import calls
    from tilewright.relay.op.cost import flops

    main: Function = module["main"]
    try:
        total = sum(int(flops(call)) for call in calls(main.body))
    except (TypeError, ValueError):
        return "depend on symbolic dimensions; fix them with --input-shapes"
    return f"{_thousands(total)} a run (two for a multiply-add; bodies of loops and branches count once)"


def _executor(module: IRModule) -> str:
    """The executor that runs the model, and the reason."""
    from tilewright.driver.vm.build import needs_machine

    obstacle = needs_machine(module)
    return f"the virtual machine, for {obstacle}" if obstacle else "the graph executor: one native call"


def _thousands(number: int) -> str:
    """`3.64 G` for 3.64e9."""
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g} {unit}"
    return str(number)


def _size(nbytes: int) -> str:
    """`44.6 MiB`."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= scale:
            return f"{nbytes / scale:.1f} {unit}"
    return f"{nbytes} bytes"
