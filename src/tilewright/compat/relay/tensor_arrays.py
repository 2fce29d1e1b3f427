"""Tensor arrays of the classic prelude: lists whose elements are tensors of any number of dimensions, or of one shape.

`Prelude.get_global_var("tensor_array_write", "float32")` and its kin find functions over the data type
`tensor_float32_t`, which has a constructor for each number of dimensions from 0 to 6; those of `StaticTensorArrayOps`
are over a type of one constructor, for tensors of one shape, some of whose sizes may be unknown. Both are written in
Relay, in files beside this module, which are parsed on top of the prelude at the first request of a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from itertools import pairwise
from string import Template
from typing import Any

from tilewright.compat.ir.module import IRModule
from tilewright.relay.ir.parser import parse
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import TensorType

#: The largest number of dimensions that the type of all tensors has a constructor for.
RANKS = 6

#: What a slice along the first axis of %v is, in all functions that take one.
_SLICE = "dyn.strided_slice(%v, reshape(%start, newshape=[1]), reshape(%end, newshape=[1]), reshape(1, newshape=[1]))"


def _text(file_name: str, **names: Any) -> str:
    """The text of a file beside this module, with `names` in place of what begins with a dollar sign."""
    return Template((files("tilewright.compat.relay") / f"{file_name}.rly").read_text()).substitute(names)


def _arms(arms: Sequence[tuple[str, str]]) -> str:
    return " ".join(f"{pattern} => {value}," for pattern, value in arms)


def _of_any_rank(dtype: str) -> str:
    """The data type of tensors of `dtype` and the functions over it, as text."""
    kind, makes = f"tensor_{dtype}_t", [f"tensor{rank}_{dtype}" for rank in range(RANKS + 1)]
    shapes = [TensorType([AnyDim()] * rank, dtype) for rank in range(RANKS + 1)]
    joined = [
        (f"{make}(%v)", f"match? (%u) {{ {make}(%w) => {make}(concatenate((%v, %w), axis=0)), }}") for make in makes[1:]
    ]
    names = {"name": dtype, "type": kind, "nil": f"tensor_nil_{dtype}", "stacked": kind, "rows": dtype, "part": kind}
    own = _text(
        "tensor_of_any_rank",
        **names,
        fields=", ".join(f"{make}({shape})" for make, shape in zip(makes, shapes)),
        wider=_arms([(f"{a}(%v)", f"{b}(expand_dims(%v, axis=0))") for a, b in pairwise(makes)]),
        sliced=_arms([(f"{make}(%v)", f"{make}({_SLICE})") for make in makes[1:]]),
        joined=_arms(joined),
    )
    unstacks = [
        _text(
            "tensor_array_unstack", name=dtype, unstack=f"unstack_tensor{rank}", rows=shapes[rank], row=kind,
            make=makes[rank - 1],
        )
        for rank in range(1, RANKS + 1)
    ]  # fmt: skip
    return "".join([own, _text("tensor_array", **names), _text("tensor_array_split", **names), *unstacks])


def define(mod: IRModule, text: str) -> None:
    """Add what `text` defines to `mod`, whose definitions it may use."""
    mod.update(parse('#[version = "0.0.5"]' + text, mod))


def define_tensors(mod: IRModule, dtype: str) -> None:
    """The type of all tensors of `dtype` and its functions, where `mod` has them not yet."""
    if f"tensor_expand_dims_{dtype}" not in mod:
        define(mod, _of_any_rank(dtype))


def shape_name(dtype: str, shape: Sequence[Any]) -> str:
    """The suffix of names of the type of tensors of one shape: "float32_2_any"."""
    sizes = [str(size) if isinstance(size, int) else "any" for size in shape]
    return "_".join([dtype, *(sizes or ["scalar"])])


class StaticTensorArrayOps:
    """The functions on arrays of tensors of `shape`, in which `relay.Any()` is a size that is not known.

    `register()` adds them to the prelude's module; those that take rows or add an axis return tensors of other shapes,
    whose types are added with them.
    """

    def __init__(self, prelude: Any, dtype: str, shape: Sequence[Any], batch_dim: int | None = None) -> None:
        self.prelude, self.dtype, self.batch_dim = prelude, dtype, batch_dim
        self.shape = [size if isinstance(size, int) else AnyDim() for size in shape]
        if batch_dim is not None:
            self.shape = [batch_dim, *self.shape[1:]]

    def get_name(self, canonical: str) -> str:
        """The name of the function, or of the constructor "tensor_constructor"."""
        ending = shape_name(self.dtype, self.shape)
        return f"static_{canonical}_{ending}" if canonical == "tensor_constructor" else f"{canonical}_{ending}"

    def get_global_var(self, canonical: str) -> Any:
        """The variable of a function that `register` added."""
        return self.prelude.mod.get_global_var(self.get_name(canonical))

    def get_ctor(self, canonical: str) -> Any:
        """The constructor of a tensor that `register` added."""
        return getattr(self.prelude, self.get_name(canonical))

    def register(self) -> None:
        """Add the type and its functions, where the module has them not yet."""
        define_tensors(self.prelude.mod, self.dtype)
        if self.get_name("tensor_get_data") in self.prelude.mod:
            return
        rows = [AnyDim(), *self.shape]
        for shape in (self.shape, rows, [1, *self.shape], self.shape[1:], [AnyDim(), *self.shape[1:]]):
            self._define_type(shape)
        self._concatenation(rows[1:] if self.shape else [])
        self._concatenation([1, *self.shape])
        define(self.prelude.mod, self._functions(rows))

    def define_tensor_array_scatter(self, indices_shape: Any = None, force_update: bool = False) -> None:
        """Scattering takes indices of any length already."""

    def define_tensor_array_split(
        self, value_shape: Any = None, lengths_shape: Any = None, force_update: bool = False
    ) -> None:
        """Splitting takes lengths of any number already."""

    def _define_type(self, shape: Sequence[Any]) -> None:
        name = shape_name(self.dtype, shape)
        if f"static_tensor_{name}_t" not in {header.name for header in self.prelude.mod.type_definitions}:
            held = TensorType(shape, self.dtype)
            define(
                self.prelude.mod,
                f"type static_tensor_{name}_t {{ static_tensor_nil_{name}, static_tensor_constructor_{name}({held}) }}",
            )

    def _concatenation(self, shape: Sequence[Any]) -> None:
        """The tensors of a list as one, along their first axis."""
        name, joined = shape_name(self.dtype, shape), shape_name(self.dtype, [AnyDim(), *shape[1:]])
        if not shape or f"tensor_array_concat_{name}" in self.prelude.mod:
            return
        whole = TensorType([AnyDim(), *shape[1:]], self.dtype)
        define(self.prelude.mod, _text("static_tensor_concat", name=name, joined=joined, whole=whole))

    def _functions(self, rows: Sequence[Any]) -> str:
        mine, wider = shape_name(self.dtype, self.shape), shape_name(self.dtype, [1, *self.shape])
        stacked, part = shape_name(self.dtype, rows), shape_name(self.dtype, [AnyDim(), *self.shape[1:]])
        make_part, held = f"static_tensor_constructor_{part}", TensorType(self.shape, self.dtype)
        names = {"name": mine, "type": f"static_tensor_{mine}_t", "nil": f"static_tensor_nil_{mine}", "rows": wider}
        names |= {"stacked": f"static_tensor_{stacked}_t", "part": f"static_tensor_{part}_t"}
        make = f"static_tensor_constructor_{mine}"
        text = _text("static_tensor", **names, held=held, make=make) + _text("tensor_array", **names)
        if not self.shape:
            return text
        row = shape_name(self.dtype, self.shape[1:])
        unstack = {"rows": held, "row": f"static_tensor_{row}_t", "make": f"static_tensor_constructor_{row}"}
        text += _text("static_tensor_rows", **names, make_part=make_part, slice=_SLICE)
        text += _text("tensor_array_split", **names)
        return text + _text("tensor_array_unstack", name=mine, unstack="unstack", **unstack)
