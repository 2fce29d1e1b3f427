"""Programs of Paddle before version 3: protocol buffers, whose operators get the names and operands of today's."""

from __future__ import annotations

from typing import Any

from tilewright.errors import ModelError
from tilewright.frontend.messages import Record
from tilewright.frontend.paddle.program import Operation, Program, Value
from tilewright.frontend.paddle.schema import ATTRIBUTES, DTYPES, SCHEMA
from tilewright.frontend.wire import first_fields, looks_like, read_message

#: Old operators whose name today is another one.
_NAMES = {
    "elementwise_add": "add", "elementwise_sub": "subtract", "elementwise_mul": "multiply", "elementwise_div": "divide",
    "elementwise_max": "maximum", "elementwise_min": "minimum", "elementwise_mod": "remainder",
    "elementwise_floordiv": "floor_divide", "elementwise_pow": "elementwise_pow", "matmul_v2": "matmul",
    "reshape2": "reshape", "transpose2": "transpose", "squeeze2": "squeeze", "unsqueeze2": "unsqueeze",
    "flatten_contiguous_range": "flatten", "flatten2": "flatten_from", "flatten": "flatten_from",
    "reduce_sum": "sum", "reduce_mean": "mean", "reduce_max": "max", "reduce_min": "min", "reduce_prod": "prod",
    "reduce_all": "all", "reduce_any": "any", "arg_max": "argmax", "arg_min": "argmin", "top_k_v2": "topk",
    "lookup_table_v2": "embedding", "lookup_table": "embedding", "fill_constant": "full", "expand_v2": "expand",
    "hard_swish": "hardswish", "hard_sigmoid": "hardsigmoid", "one_hot_v2": "one_hot", "range": "arange",
    "nearest_interp_v2": "nearest_interp", "bilinear_interp_v2": "bilinear_interp", "sum": "add_n",
    "fill_any_like": "full_like", "size": "numel", "reverse": "flip", "mul": "old_mul", "pad2d": "old_pad2d",
}  # fmt: skip

#: The names of inputs, and of results, in the order of today's operands where that is not the usual one.
_INPUTS = {
    "conv2d": ("Input", "Filter", "Bias"), "depthwise_conv2d": ("Input", "Filter", "Bias"),
    "conv3d": ("Input", "Filter"),
    "conv2d_transpose": ("Input", "Filter"), "depthwise_conv2d_transpose": ("Input", "Filter"),
    "batch_norm": ("X", "Mean", "Variance", "Scale", "Bias"), "layer_norm": ("X", "Scale", "Bias"),
    "group_norm": ("X", "Scale", "Bias"), "instance_norm": ("X", "Scale", "Bias"), "embedding": ("Ids", "W"),
    "where": ("Condition", "X", "Y"), "gather": ("X", "Index", "Axis"), "gather_nd": ("X", "Index"),
    "index_select": ("X", "Index"), "prelu": ("X", "Alpha"), "slice": ("Input",), "strided_slice": ("Input",),
    "take_along_axis": ("Input", "Index"), "shape": ("Input",), "full": (), "addmm": ("Input", "X", "Y"),
    "arange": ("Start", "End", "Step"),
}  # fmt: skip
#: The same of operators whose inputs are lists, and of those whose results are more than one.
_INPUT_LISTS = {"rnn": ("Input", "PreState", "WeightList", "SequenceLength")}
_RESULTS = {"rnn": ("Out", "State")}
_MANY = ("concat", "stack", "add_n", "meshgrid")
_LISTS = ("split", "unbind", "unstack")


def is_legacy(contents: memoryview) -> bool:
    """True for what begins as a ProgramDesc does: a block that has a number."""
    if bytes(contents[:1]) != b"\x0a":
        return False
    seen = looks_like(contents, SCHEMA, "ProgramDesc", most=3)
    if not seen or "blocks" not in seen:
        return False
    _, begin, end = first_fields(contents[:4096], 1)[0]
    inner = looks_like(contents[begin:end], SCHEMA, "BlockDesc", most=3)
    return inner is not None and "idx" in inner


def read_legacy(contents: memoryview, label: str) -> Program:
    """The first block of a program. Raises `ModelError`."""
    desc = read_message(contents, SCHEMA, "ProgramDesc", label, "a Paddle program")
    if not desc.blocks:
        raise ModelError(f"{label} is a Paddle program without blocks")
    block = desc.blocks[0]
    program = Program(label)
    variables = {entry.name: entry for entry in block.vars}
    for entry in sorted(block.vars, key=lambda one: one.name):
        if entry.persistable and entry.type.type == "LOD_TENSOR":
            program.parameters.append((entry.name, _value(entry, label)))
    versions: dict[str, str] = {name: name for name in variables}
    for index, op in enumerate(block.ops):
        _operation(program, op, index, variables, versions)
    return program


def _value(entry: Record, label: str) -> Value:
    tensor = entry.type.lod_tensor.tensor
    if tensor.data_type not in DTYPES:
        raise ModelError(f"{label}: the variable {entry.name!r} is of the type {tensor.data_type}")
    return Value(entry.name, tensor.data_type, tuple(int(extent) for extent in tensor.dims))


def _operation(
    program: Program, op: Record, index: int, variables: dict[str, Record], versions: dict[str, str]
) -> None:
    given = {one.parameter: list(one.arguments) for one in op.inputs}
    made = {one.parameter: list(one.arguments) for one in op.outputs}
    attrs = {one.name: _attribute(one) for one in op.attrs if one.type in ATTRIBUTES or one.type.startswith("SCALAR")}
    if op.type == "feed":
        (name,) = made["Out"]
        if name not in variables:
            raise ModelError(f"{program.label} feeds {name!r}, which it does not declare")
        program.inputs.append((versions[name], _value(variables[name], program.label)))
        return
    if op.type == "fetch":
        (name,) = given["X"]
        program.results.append(versions.get(name, name))
        return
    kind = _NAMES.get(op.type, op.type)
    known = {name: [versions.get(one, one) for one in names] for name, names in given.items()}
    inputs = _inputs(kind, known)
    results = []
    order = [name for name in ("Out", "Output", "Y") if name in made] or list(made)[:1]
    order += [name for name in made if name not in order]
    wanted = _RESULTS.get(kind, order if kind in ("topk", "argsort") else order[:1])
    names = [one for parameter in wanted for one in made.get(parameter, ())]
    for name in names:  # a value may be written again: each writing is a value of its own
        versions[name] = f"{name}@{index}"
        results.append(versions[name])
    attrs["inputs"] = known
    operation = Operation(kind, names[0] if names else kind, inputs, results, attrs)
    if kind in _LISTS:
        whole = f"{operation.name}@{index}@list"
        operation.results, operation.counts = [whole], {whole: len(results)}
        program.operations.append(operation)
        program.operations.append(Operation("builtin.split", operation.name, [whole], results, {}))
    else:
        program.operations.append(operation)


def _inputs(kind: str, given: dict[str, list[str]]) -> list[Any]:
    if kind in _MANY:
        return [list(given.get("X", []))]
    if kind in _INPUT_LISTS:
        return [list(given.get(name, [])) or None for name in _INPUT_LISTS[kind]]
    order = _INPUTS.get(kind, ("X", "Y"))
    return [given[name][0] if given.get(name) else None for name in order]


def _attribute(one: Record) -> Any:
    if one.type == "SCALAR":
        return _scalar(one.scalar)
    if one.type == "SCALARS":
        return [_scalar(scalar) for scalar in one.scalars]
    value = getattr(one, ATTRIBUTES[one.type])
    return value.tolist() if hasattr(value, "tolist") else value


def _scalar(scalar: Record) -> Any:
    return scalar.r if scalar.has("r") else scalar.i if scalar.has("i") else scalar.b
