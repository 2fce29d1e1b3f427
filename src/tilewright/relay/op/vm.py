"""Storage and calls by hand, as programs lowered for a virtual machine write them: results go where the caller says.

    let %block = memory.alloc_storage(…);  let %y = memory.alloc_tensor(%block, …);
    let %_ = vm.invoke_tvm_op(@kernel, (%x,), (%y,));  %y

`memory.write` is what makes such a program do something: it copies values into tensors that exist. Such operators have
effects (`op/effects.py`): they run in the order of the `let`s around them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.errors import InternalError, UnsupportedError
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr, Tuple, TupleGetItem, const
from tilewright.relay.ir.registry import Expansion, TypeRule
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import Dim, FuncType, TensorType, TupleType, Type, tensor_types
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.op import tensor as plain
from tilewright.relay.op.common import Types, call, require, same_dims, tensor
from tilewright.relay.op.composite import register_composite, type_of_expansion
from tilewright.relay.op.gather import take
from tilewright.relay.op.host import register_host
from tilewright.relay.op.transform import stack
from tilewright.tir import expr as tir

# --------------------------------------------------------------------------------------------------------- storage
register_host(
    "memory.alloc_storage",
    num_inputs=2,
    type_rule=lambda _types, _attrs: TensorType((AnyDim(),), "uint8"),
    effects=True,
    attributes={"alignment": attr.integer(64)},
)
register_host(
    "memory.alloc_tensor",
    num_inputs=3,
    type_rule=lambda _types, attrs: TensorType(attrs["const_shape"], attrs["dtype"]),
    effects=True,
    attributes={"const_shape": attr.integers(), "dtype": attr.dtype()},
)
register_host("memory.kill", num_inputs=1, type_rule=lambda _types, _attrs: TupleType([]), effects=True)
register_host(
    "vm.shape_of",
    num_inputs=1,
    type_rule=lambda types, attrs: TensorType((tensor(types[0]).ndim,), attrs["dtype"] or "int64"),
    attributes={"dtype": attr.dtype("int64")},
)
register_host(
    "vm.reshape_tensor",
    num_inputs=2,
    type_rule=lambda types, attrs: TensorType(attrs["newshape"], tensor(types[0]).dtype),
    attributes={"newshape": attr.integers()},
)


def alloc_storage(size: Expr, shape: Expr, alignment: int = 64) -> Call:
    """A block of `size` bytes."""
    return call("memory.alloc_storage", size, shape, alignment=alignment)


def alloc_tensor(storage: Expr, offset: Expr, shape: Expr, const_shape: Sequence[int], dtype: str) -> Call:
    """A tensor of `shape`, which is `const_shape` as far as it is known, within a block."""
    return call("memory.alloc_tensor", storage, offset, shape, const_shape=const_shape, dtype=str(dtype))


def kill(data: Expr) -> Call:
    """Says that `data` is not used any more."""
    return call("memory.kill", data)


def reshape_tensor(data: Expr, shape: Expr, newshape: Sequence[int]) -> Call:
    """`data` under `shape`, whose value is `newshape` as far as it is known."""
    return call("vm.reshape_tensor", data, shape, newshape=newshape)


def shape_of(data: Expr, dtype: str = "int64") -> Call:
    """The shape of `data` as a vector."""
    return call("vm.shape_of", data, dtype=str(dtype))


def _write_type(types: Types, _attrs: Attrs) -> Type:
    into, values = (tensor_types(type_) for type_ in types)
    fits = len(into) == len(values) and all(
        a.dtype == b.dtype and same_dims(a.shape, b.shape) for a, b in zip(into, values)
    )
    require(fits, f"values of types {types[1]} do not fit into tensors of types {types[0]}")
    return TupleType([])


register_host("memory.write", num_inputs=2, type_rule=_write_type, effects=True)


def write(outputs: Sequence[Expr] | Tuple, values: Sequence[Expr] | Tuple) -> Call:
    """Copy `values` into the tensors `outputs`, of the same types; the empty tuple."""
    pairs = [item if isinstance(item, Expr) else Tuple(item) for item in (outputs, values)]
    return call("memory.write", *pairs)


# ----------------------------------------------------------------------------------------------- lowered functions
def _signature(types: Types) -> tuple[FuncType, TupleType]:
    """The types of the function and of its arguments."""
    func, inputs = types[:2]
    require(isinstance(func, FuncType), f"a function is needed first, not {func}")
    require(isinstance(inputs, TupleType), f"the arguments come as one tuple, not as {inputs}")
    assert isinstance(func, FuncType) and isinstance(inputs, TupleType)
    takes = f"the function takes ({', '.join(map(str, func.arg_types))})"
    require(len(func.arg_types) == len(inputs.fields), f"{takes}, not {inputs}")
    return func, inputs


def _fields(value: Expr) -> list[Expr]:
    if isinstance(value, Tuple):
        return list(value.fields)
    found = type_of(value)
    assert isinstance(found, TupleType)
    return [TupleGetItem(value, i) for i in range(len(found.fields))]


def _applied(args: Sequence[Expr], _attrs: Attrs) -> Expr:
    return Call(args[0], _fields(args[1]))


def _invoked(args: Sequence[Expr], attrs: Attrs) -> Expr:
    result = _applied(args, attrs)
    return write(args[2], result if isinstance(type_of(result), TupleType) else [result])  # type: ignore[arg-type]


def _register(
    name: str, num_inputs: int, expansion: Expansion, type_rule: TypeRule | None = None, **attributes: attr.Attribute
) -> None:
    def type_of_call(types: Types, attrs: Attrs) -> Type:
        _signature(types)
        return type_of_expansion(expansion, types, attrs)

    def reference(_attrs: Attrs, *_values: Any) -> Any:
        raise InternalError(f"{name} is evaluated by what it expands to: its operand is a function")

    register_composite(
        name,
        num_inputs=num_inputs,
        expansion=expansion,
        reference=reference,
        type_rule=type_rule or type_of_call,
        attributes=attributes,
    )


_register("call_lowered", 2, _applied)
_register("vm.invoke_tvm_op", 3, _invoked)


def call_lowered(func: Expr, args: Sequence[Expr] | Tuple) -> Call:
    """The result of the function `func` on the fields of `args`."""
    return call("call_lowered", func, args if isinstance(args, Expr) else Tuple(args))


def invoke_tvm_op(func: Expr, inputs: Sequence[Expr] | Tuple, outputs: Sequence[Expr] | Tuple) -> Call:
    """Write the result of `func` on `inputs` into the tensors `outputs`; the empty tuple."""
    into = outputs if isinstance(outputs, Expr) else Tuple(outputs)
    return call("vm.invoke_tvm_op", func, inputs if isinstance(inputs, Expr) else Tuple(inputs), into)


# ------------------------------------------------------------------------------------------------- shape functions
#: What computes a dimension from sizes, by the class of the dimension's expression.
_ARITHMETIC: dict[type, Callable[[Expr, Expr], Expr]] = {
    tir.Add: plain.add,
    tir.Sub: plain.subtract,
    tir.Mul: plain.multiply,
    tir.FloorDiv: plain.floor_divide,
    tir.FloorMod: plain.floor_mod,
    tir.Min: plain.minimum,
    tir.Max: plain.maximum,
}


def _size(dim: Dim, sizes: Mapping[Any, Expr]) -> Expr:
    """The dimension as an int64 scalar, given the values of the size variables. Raises UnsupportedError."""
    if isinstance(dim, int | tir.IntImm):
        return const(int(dim), "int64")
    if dim in sizes:
        return sizes[dim]
    if type(dim) in _ARITHMETIC:
        assert isinstance(dim, tir.BinaryExpr)
        return _ARITHMETIC[type(dim)](_size(dim.a, sizes), _size(dim.b, sizes))
    raise UnsupportedError(
        f"vm.shape_func: the dimension {dim} of the result does not follow from those of the inputs; "
        "name them in the function's type: Tensor[(n, 4), float32]"
    )


def _shapes(args: Sequence[Expr], attrs: Attrs) -> Expr:
    func = type_of(args[0])
    assert isinstance(func, FuncType)
    sizes: dict[Any, Expr] = {}
    given = _fields(args[1])
    for type_, value, is_data in zip(func.arg_types, given, attrs["is_input"], strict=True):
        vector = shape_of(value) if is_data else plain.cast(value, "int64")
        for axis, dim in enumerate(tensor(type_).shape):
            if isinstance(dim, tir.Var):
                sizes.setdefault(dim, take(vector, const(axis, "int64"), 0))
    found = []
    for into, type_ in zip(_fields(args[2]), tensor_types(func.ret_type), strict=True):
        dims = [_size(dim, sizes) for dim in type_.shape]
        vector = stack(dims) if dims else plain.zeros((0,), "int64")
        found.append(plain.cast(vector, str(tensor_type_of(into).dtype)))
    return write(args[2], found)  # type: ignore[arg-type]


def _shape_func_type(types: Types, attrs: Attrs) -> Type:
    func, inputs = _signature(types)
    results = tensor_types(func.ret_type)
    require(len(attrs["is_input"]) == len(inputs.fields), "is_input has one entry for each input")
    wanted = [TensorType((type_.ndim,), "int64") for type_ in results]
    fits = [t.shape for t in tensor_types(types[2])] == [t.shape for t in wanted]
    require(fits, f"the shapes of the result go into {TupleType(wanted)}, not into {types[2]}")
    return TupleType([])


_register("vm.shape_func", 3, _shapes, _shape_func_type, is_input=attr.tuple_of(attr.flag()))


def shape_func(
    func: Expr, inputs: Sequence[Expr] | Tuple, outputs: Sequence[Expr] | Tuple, is_input: Sequence[bool]
) -> Call:
    """Write the shapes that `func` would return into the vectors `outputs`, without calling it; the empty tuple.

    An entry of `inputs` is an argument of `func` where `is_input` says so, and the shape of one (a vector) elsewhere.
    Raises UnsupportedError where the shape of the result is no expression in the size variables of the parameters.
    """
    pairs = [item if isinstance(item, Expr) else Tuple(item) for item in (inputs, outputs)]
    return call("vm.shape_func", func, *pairs, is_input=tuple(map(bool, is_input)))
