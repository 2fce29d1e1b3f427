"""Calls of ATen operators in TorchScript programs: PyTorch computes those on known values, converters take others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tilewright.errors import TilewrightError, UnsupportedError
from tilewright.frontend.builders.complex_numbers import Complex
from tilewright.frontend.finish import Finisher
from tilewright.frontend.idioms import cast
from tilewright.frontend.torch.computing import converted
from tilewright.frontend.torch.families import find_converter
from tilewright.frontend.torch.graph import without_converter
from tilewright.frontend.torch.importer import GraphImporter, value_of
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.random_numbers import Draws
from tilewright.frontend.torch.script.values import Traced, View, is_known, leaves, replaced
from tilewright.frontend.torch.types import Sizes, dtype_of
from tilewright.frontend.unsupported import Unsupported
from tilewright.relay.ir.expr import Expr, Var, var
from tilewright.relay.ir.type import TensorType

#: Of views: how what is written into one is put into the tensor that it is of.
_SCATTERS = {"select": "select_scatter", "slice": "slice_scatter", "diagonal": "diagonal_scatter"}
#: What reaches files, and what makes tensors of any size out of numbers.
_WRITING = {"from_file", "save"}
_FILLING = {"zeros", "ones", "full", "empty", "rand", "randn", "empty_strided"}
_MOST_ELEMENTS = 1 << 28
_SHAPES = {"view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "alias", "detach", "contiguous"}


class Caller:
    """Records calls; `missing` gathers the operators that no converter takes."""

    def __init__(self) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.missing = Unsupported()
        self._sizes = Sizes()
        self._draws = Draws()
        self._finisher = Finisher()
        self._constants: dict[int, tuple[Any, Expr | Complex, Any]] = {}
        self._written_to: dict[int, tuple[Any, Traced]] = {}
        self._count = 0
        self.label = ""  # the name that the program has for the result of the next call, if any

    # ------------------------------------------------------------------------------------------------- stand-ins
    def fresh(self, name: str, like: Any) -> tuple[Var, Traced]:
        """A variable for a tensor of the shape and type of `like`, and the value that it is."""
        fake = like if isinstance(like, FakeTensor) else self.mode.from_tensor(like.detach())
        made = var(name, TensorType(tuple(fake.shape), dtype_of(fake.dtype, name)))
        return made, Traced(made, fake)

    def traced(self, value: Any) -> Traced:
        """A tensor or number as a value of the program, a known one as a constant."""
        value = self.latest(value)
        if isinstance(value, Traced):
            return self.current(value)
        kind = type(value).__name__ if isinstance(value, bool | int | float) else ""
        tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
        if id(tensor) not in self._constants or kind:
            self._constants[id(tensor)] = (
                tensor,
                value_of(tensor, "a constant"),
                self.mode.from_tensor(tensor.detach()),
            )
        _, expr, fake = self._constants[id(tensor)]
        return Traced(expr, fake, kind)

    def latest(self, value: Any) -> Any:
        """`value`, or of a known tensor into which what a run computes was written what it is since."""
        known = self._written_to.get(id(value)) if isinstance(value, torch.Tensor) else None
        if known is None and isinstance(value, torch.Tensor) and id(value._base) in self._written_to:
            return self._opened(value)
        return value if known is None else known[1]

    def _opened(self, tensor: Any) -> Traced:
        """A known tensor as one that may be written into; a view, as one of the tensor that it is of."""
        base = tensor._base
        if base is None:
            made = self.traced(tensor)
            made = Traced(made.expr, made.fake)
        else:
            parent = self.latest(base)
            parent = self._opened(base) if not isinstance(parent, Traced) else parent
            position = [list(tensor.shape), list(tensor.stride()), tensor.storage_offset()]
            ops = torch.ops.aten
            made = self._record(ops.as_strided.default, [parent, *position])
            made.view = View(
                parent,
                parent.version,
                lambda whole: self._record(ops.as_strided.default, [whole, *position]),
                lambda whole, part: self._record(ops.as_strided_scatter.default, [whole, part, *position]),
            )
        self._written_to[id(tensor)] = (tensor, made)
        return made

    def current(self, value: Traced) -> Traced:
        """`value`; a view of what was written into since is brought up to date."""
        view = value.view
        if view is not None and self.current(view.base).version != view.seen:
            again = view.derive(view.base)
            value.expr, value.fake, view.seen = again.expr, again.fake, view.base.version
            value.version += 1
        return value

    # ----------------------------------------------------------------------------------------------------- calls
    def call(self, name: str, overload: str, values: Sequence[Any], outputs: int = 1) -> Any:
        """The result of ``aten::name.overload`` of the values of all its arguments, in the order of its schema."""
        operator = getattr(getattr(torch.ops.aten, name), overload or "default", None)
        if operator is not None and operator._schema.is_mutable and not is_known(list(values)):
            return self._write(name, overload, values)
        if is_known(list(values)):
            return self._compute(name, overload, values)
        if operator is None or any(leaf.kind for leaf in leaves(list(values)) if isinstance(leaf, Traced)):
            return self._of_numbers(name, values)
        result = self._record(operator, values)
        if name in _SCATTERS or name in _SHAPES or name in ("transpose", "permute", "t"):
            self._remember_view(name, overload, values, result)
        return result

    def _compute(self, name: str, overload: str, values: Sequence[Any]) -> Any:
        if name in _WRITING:
            raise UnsupportedError(f"aten::{name} reads or writes files, which no program may while it is imported")
        sizes = values[0] if name in _FILLING and isinstance(values[0], Sequence) else ()
        if math.prod(size for size in sizes if isinstance(size, int)) > _MOST_ELEMENTS:
            raise UnsupportedError(f"aten::{name} of the sizes {list(sizes)} makes more than {_MOST_ELEMENTS} elements")
        found, *_ = torch._C._get_operation_overload(f"aten::{name}", overload)
        with torch.no_grad():
            return _applied(found, torch._C._get_schema(f"aten::{name}", overload), values)

    def _record(self, operator: Any, values: Sequence[Any]) -> Any:
        """The result of the converter of an operator, or of those of its decomposition."""
        names = [declared.name for declared in operator._schema.arguments]
        values = [_spelled(name, value) for name, value in zip(names, values)]
        as_given = replaced(list(values), lambda leaf: self.traced(leaf) if _is_tensor(leaf) else leaf)
        fakes = replaced(as_given, lambda leaf: leaf.fake if isinstance(leaf, Traced) else leaf)
        try:
            with self.mode, torch.no_grad():
                value = _applied(operator, operator._schema, fakes)
        except TilewrightError:
            raise
        except Exception as error:
            raise UnsupportedError(f"{operator}: {type(error).__name__}: {str(error).splitlines()[0]}") from None
        converter = find_converter(str(operator), any(map(_is_complex, leaves([*fakes, value]))))
        if converter is None:
            return self._decomposed(operator, as_given, value)
        exprs = replaced(as_given, lambda leaf: leaf.expr if isinstance(leaf, Traced) else leaf)
        self._count += 1
        span = self.label or f"{operator._schema.name.partition('::')[2]}_{self._count}"
        given = dict(zip(names, exprs))
        node = TorchNode(span, str(operator), given, dict(zip(names, fakes)), value, self._sizes, self._draws)
        result = converted(converter, node)
        done: dict[Expr, Expr] = {}

        def finished(result: Any) -> Any:
            finish = self._finisher.finish
            return result.map(finished) if isinstance(result, Complex) else finish(result, span, done)

        if isinstance(result, Expr | Complex):
            return Traced(finished(result), value)
        made = [Traced(finished(part), fake) for part, fake in zip(result or (), value)]
        return tuple(made) if isinstance(value, tuple) else made

    def _decomposed(self, operator: Any, values: Sequence[Any], value: Any) -> Any:
        """The operator by those that PyTorch decomposes it into."""
        inputs = [leaf for leaf in leaves(list(values)) if isinstance(leaf, Traced)]

        def run(*tensors: Any) -> Any:
            given = iter(tensors)
            placed = replaced(list(values), lambda leaf: next(given) if isinstance(leaf, Traced) else leaf)
            return _applied(operator, operator._schema, placed)

        with self.mode:
            fakes = [one.fake for one in inputs]
            plain = make_fx(torch.func.functionalize(run))(*fakes)  # first as PyTorch computes it, without writes
            graph = make_fx(plain, decomposition_table=without_converter())(*fakes).graph
        importer = GraphImporter(self._draws)
        holders = [node for node in graph.nodes if node.op == "placeholder"]
        importer.values.update({node: entry.expr for node, entry in zip(holders, inputs)})
        importer.run(graph)
        if importer.report():
            self.missing.add(str(operator), str(operator), "no converter for this operator")
            raise UnsupportedError(f"the TorchScript program needs what is not supported:\n{importer.report()}")
        (given,) = next(node for node in graph.nodes if node.op == "output").args
        if not isinstance(given, list | tuple):
            return Traced(importer.values[given], value)
        return tuple(Traced(importer.values[one], fake) for one, fake in zip(given, value))

    def _of_numbers(self, name: str, values: Sequence[Any]) -> Any:
        """An operator on numbers, some of which a run computes: they are tensors without axes."""
        packet = getattr(torch.ops.aten, _NUMBERS.get(name, name), None)
        if packet is None:
            raise UnsupportedError(f"aten::{name} of a number that a run computes is not supported")
        scalar = not any(_is_tensor(leaf) and not getattr(leaf, "kind", "") for leaf in leaves(list(values)))
        tensors = [
            self.traced(value) if isinstance(value, bool | int | float) and scalar else value for value in values
        ]
        overload = "Tensor" if "Tensor" in packet.overloads() else "default"
        operator = getattr(packet, overload)
        result = self._record(operator, tensors[: len(operator._schema.arguments)])
        if scalar and isinstance(result, Traced):
            code = result.fake.dtype
            result.kind = "bool" if code == torch.bool else "float" if code.is_floating_point else "int"
        return result

    def number(self, value: Any, kind: str) -> Any:
        """The one element of a tensor, or a number, as an "int", "float" or "bool"."""
        if not isinstance(value, Traced):
            plain = value.item() if isinstance(value, torch.Tensor) else value
            return {"int": int, "float": float, "bool": bool}[kind](plain)
        dtype = {"int": torch.int64, "float": torch.float64, "bool": torch.bool}[kind]
        value = self.current(value)
        single = value if value.fake.dim() == 0 else self.call("reshape", "", [value, []])
        if single.fake.dtype == dtype:
            return Traced(single.expr, single.fake, kind)
        made = self._record(torch.ops.aten.to.dtype, [single, dtype, False, False, None])
        return Traced(made.expr, made.fake, kind)

    # ---------------------------------------------------------------------------------------------------- writing
    def _write(self, name: str, overload: str, values: Sequence[Any]) -> Any:
        """An operator that writes into its first argument, as the functional one and the new value put in place."""
        target = values[0]
        plain = name.removesuffix("_") if not name.startswith("__") else name
        packet = getattr(torch.ops.aten, {"zero": "zeros_like", "fill": "full_like"}.get(plain, plain), None)
        if packet is None or not name.endswith("_"):
            raise UnsupportedError(f"aten::{name}, which writes into its arguments, is not supported")
        if not isinstance(target, Traced):
            target = self._opened(target)
        operator = getattr(packet, overload or "default", None) or packet.default
        given = list(values[: len(operator._schema.arguments)])
        result = self._record(operator, given)
        if tuple(result.fake.shape) != tuple(target.fake.shape):
            result = self._record(torch.ops.aten.expand.default, [result, list(target.fake.shape), False])
        self.assign(target, Traced(cast(result.expr, dtype_of(target.fake.dtype, name)), target.fake))
        return target

    def assign(self, target: Traced, value: Traced) -> None:
        """Let `target`, and what it is a view of, hold `value`."""
        self.current(target)
        target.expr = value.expr
        target.version += 1
        if target.view is not None:
            base = target.view.base
            self.assign(base, target.view.write_back(base, Traced(value.expr, target.fake)))
            target.view.seen = base.version

    def _remember_view(self, name: str, overload: str, values: Sequence[Any], result: Any) -> None:
        base, rest = values[0], list(values[1:])
        if not isinstance(base, Traced) or not isinstance(result, Traced) or base.fake.dtype != result.fake.dtype:
            return

        def write_back(parent: Traced, value: Traced) -> Traced:
            return self._written(name, parent, value, rest)

        operator = getattr(getattr(torch.ops.aten, name), overload or "default")
        derive: Callable[[Traced], Traced] = lambda parent: self._record(operator, [parent, *rest])  # noqa: E731
        result.view = View(base, base.version, derive, write_back)

    def _written(self, name: str, parent: Traced, value: Traced, rest: list[Any]) -> Traced:
        """`parent` with `value` in place of the view of it."""
        ops = torch.ops.aten
        if name in _SCATTERS:
            return self._record(getattr(ops, _SCATTERS[name]).default, [parent, value, *rest])
        if name == "permute":
            order = sorted(range(len(rest[0])), key=lambda axis: rest[0][axis] % len(rest[0]))
            return self._record(ops.permute.default, [value, order])
        if name in ("transpose", "t"):
            return self._record(ops.transpose.int, [value, *(rest or [0, 1])])
        return self._record(ops.reshape.default, [value, list(parent.fake.shape)])


def _applied(function: Any, schema: Any, values: Sequence[Any]) -> Any:
    """A function called with the values of all its arguments, those by name that have to be."""
    named = {one.name: value for one, value in zip(schema.arguments, values) if one.kwarg_only}
    return function(*[value for one, value in zip(schema.arguments, values) if not one.kwarg_only], **named)


#: Operators on numbers that those on tensors call otherwise.
_NUMBERS = {"floordiv": "floor_divide", "__not__": "logical_not", "__and__": "logical_and", "__or__": "logical_or"}

#: The numbers that TorchScript has for element types.
TYPE_NUMBERS = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5, torch.float32: 6,
    torch.float64: 7, torch.bool: 11, torch.bfloat16: 15,
}  # fmt: skip
_TYPES = {number: dtype for dtype, number in TYPE_NUMBERS.items()}


def _spelled(name: str, value: Any) -> Any:
    """An argument that TorchScript passes as a number, as Python does."""
    if isinstance(value, bool) or not isinstance(value, int) or name not in ("dtype", "layout", "memory_format"):
        return value
    return _TYPES.get(value) if name == "dtype" else None


def _is_complex(value: Any) -> bool:
    return value.is_complex() if isinstance(value, torch.Tensor) else isinstance(value, complex)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Traced | torch.Tensor)
