"""`tilewright inspect MODEL`: what a model is, in a screenful: inputs, outputs, operators, parameters, operations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.errors import UserError

if TYPE_CHECKING:
    from tilewright.relay.ir.expr import Function
    from tilewright.relay.ir.module import IRModule


def summary_lines(path: str, shapes: Mapping[str, Sequence[int]] | None, target: str = "cpu") -> Iterator[str]:
    """The summary of the ONNX model at `path`; with the sizes that `shapes` fixes, for `target`.

    What is not supported is a line, no error. Raises `ModelError` where the file is no model, `TargetError` for an
    unknown target.
    """
    # only when it runs: `tilewright --help` reads this module
    from tilewright.backend import backend_of
    from tilewright.compile import import_model
    from tilewright.frontend.onnx.load import load_model
    from tilewright.relay.ir.infer_type import infer_type
    from tilewright.target import Target

    refusal = backend_of(Target(target)).refusal()
    loaded = load_model(path)
    made_by = " ".join(part for part in (loaded.proto.producer_name, loaded.proto.producer_version) if part)
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(loaded.opsets.items()))
    yield f"{path}: {_size(Path(path).stat().st_size)}, opsets {opsets}{f', made by {made_by}' if made_by else ''}"
    weights = {tensor.name for tensor in loaded.proto.graph.initializer}
    yield from _section("inputs", [_value(info) for info in loaded.proto.graph.input if info.name not in weights])
    yield from _section("outputs", [_value(info) for info in loaded.proto.graph.output])
    yield from _operators(loaded.proto.graph)
    yield from _parameters(loaded.proto.graph)
    try:
        module = infer_type(import_model(path, shapes))
    except UserError as error:
        yield from _section("not supported", str(error).splitlines())
        return
    yield f"operations     {_operations(module)}"
    yield f"runs on        {_executor(module)}"
    yield f"not supported  {refusal or 'nothing'}"


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    """Lines beside a title; the title stands before the first."""
    for index, line in enumerate(lines or ["nothing"]):
        yield f"{title if index == 0 else '':14} {line}"


def _value(info: Any) -> str:
    """`x: float32[batch, 8]`, an unnamed size as a question mark."""
    # optional, and slow to import
    from onnx import helper

    if info.type.WhichOneof("value") != "tensor_type":
        return f"{info.name}: {info.type.WhichOneof('value') or 'unknown type'}".replace("_type", "")
    tensor = info.type.tensor_type
    kind = helper.tensor_dtype_to_string(tensor.elem_type).removeprefix("TensorProto.").lower()
    kind = {"float": "float32", "double": "float64"}.get(kind, kind)
    if not tensor.HasField("shape"):
        return f"{info.name}: {kind}, of any rank"
    dims = [str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim]
    return f"{info.name}: {kind}[{', '.join(dims)}]"


def _operators(graph: Any) -> Iterator[str]:
    """How often each operator stands in the graph and those inside of it, the most frequent first."""
    # it imports onnx, which is optional
    from tilewright.cli.declared import nodes_of

    count = Counter(f"{node.domain}.{node.op_type}".removeprefix(".") for node in nodes_of(graph))
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


def _parameters(graph: Any) -> Iterator[str]:
    """Numbers and bytes of all stored tensors, by element type."""
    from onnx import helper

    from tilewright.cli.submodel import tensors_of

    numbers: Counter[str] = Counter()
    nbytes = 0
    for tensor in tensors_of(graph):
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        numbers[dtype.name] += math.prod(tensor.dims)
        nbytes += math.prod(tensor.dims) * dtype.itemsize
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in numbers.most_common())
    yield f"parameters     {kinds or 'none'}{f'; {_size(nbytes)}' if kinds else ''}"


def _operations(module: IRModule) -> str:
    """Floating-point operations of a run, as `relay/op/cost.py` counts them."""
    from tilewright.relay.ir.visitor import calls
    from tilewright.relay.op.cost import flops

    main: Function = module["main"]
    try:
        total = sum(int(flops(call)) for call in calls(main.body))
    except (TypeError, ValueError):
        return "depend on sizes that are open; fix them with --input-shapes"
    return f"{_thousands(total)} a run (two for a multiply-add; bodies of loops and branches count once)"


def _executor(module: IRModule) -> str:
    """What runs the model, and why."""
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
