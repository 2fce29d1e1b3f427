"""Tensor arrays of the classic prelude: lists whose elements are tensors of any number of dimensions, or of one shape.

`Prelude.get_global_var("tensor_array_write", "float32")` and its kin find functions over the data type
`tensor_float32_t`, which has a constructor for each number of dimensions from 0 to 6; those of `StaticTensorArrayOps`
are over a type of one constructor, for tensors of one shape, some of whose sizes may be unknown. Both are written in
Relay, as text that is parsed on top of the prelude at the first request of a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tilewright.compat.ir.module import IRModule
from tilewright.relay.ir.parser import parse
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import TensorType

#: The largest number of dimensions that the type of all tensors has a constructor for.
RANKS = 6

_ARRAYS = """
def @tensor_array_{name}(%n: int32) -> List[{type}] {{
  if (%n == 0) {{ Nil }} else {{ Cons({nil}, @tensor_array_{name}(%n - 1)) }}
}}
def @tensor_array_read_{name}(%xs: List[{type}], %i: int32) -> {type} {{ @nth(%xs, %i) }}
def @tensor_array_write_{name}(%xs: List[{type}], %i: int32, %x: {type}) -> List[{type}] {{ @update(%xs, %i, %x) }}
def @tensor_array_scatter_from_{name}(%xs: List[{type}], %at: Tensor[(?), int32], %values: List[{type}], %i: int32,
                                      %n: int32) -> List[{type}] {{
  if (%i == %n) {{ %xs }} else {{
    @tensor_array_scatter_from_{name}(
      @update(%xs, take(%at, %i, axis=0), @nth(%values, %i)), %at, %values, %i + 1, %n)
  }}
}}
def @tensor_array_scatter_{name}(%xs: List[{type}], %at: Tensor[(?), int32], %values: List[{type}]) -> List[{type}] {{
  @tensor_array_scatter_from_{name}(%xs, %at, %values, 0, take(shape_of(%at, dtype="int32"), 0, axis=0))
}}
def @tensor_array_pick_{name}(%xs: List[{type}], %at: Tensor[(?), int32], %i: int32, %n: int32) -> List[{type}] {{
  if (%i == %n) {{ Nil }} else {{
    Cons(@nth(%xs, take(%at, %i, axis=0)), @tensor_array_pick_{name}(%xs, %at, %i + 1, %n))
  }}
}}
def @tensor_array_stack_{name}(%xs: List[{type}]) -> {stacked} {{
  @tensor_array_concat_{rows}(@map(@tensor_expand_dims_{name}, %xs))
}}
def @tensor_array_gather_{name}(%xs: List[{type}], %at: Tensor[(?), int32]) -> {stacked} {{
  @tensor_array_stack_{name}(@tensor_array_pick_{name}(%xs, %at, 0, take(shape_of(%at, dtype="int32"), 0, axis=0)))
}}
"""

_SPLIT = """
def @tensor_array_split_from_{name}(%xs: List[{part}], %value: {type}, %lengths: Tensor[(?), int32], %start: int32,
                                    %i: int32, %n: int32) -> List[{part}] {{
  if (%i == %n) {{ %xs }} else {{
    let %end = %start + take(%lengths, %i, axis=0);
    @tensor_array_split_from_{name}(
      @update(%xs, %i, @tensor_take_{name}(%value, %start, %end)), %value, %lengths, %end, %i + 1, %n)
  }}
}}
def @tensor_array_split_{name}(%xs: List[{part}], %value: {type}, %lengths: Tensor[(?), int32]) -> List[{part}] {{
  @tensor_array_split_from_{name}(%xs, %value, %lengths, 0, 0, take(shape_of(%lengths, dtype="int32"), 0, axis=0))
}}
"""

_UNSTACK = """
def @tensor_array_{unstack}_from_{name}(%v: {rows}, %i: int32, %n: int32) -> List[{row}] {{
  if (%i == %n) {{ Nil }} else {{
    Cons({make}(take(%v, %i, axis=0)), @tensor_array_{unstack}_from_{name}(%v, %i + 1, %n))
  }}
}}
def @tensor_array_{unstack}_{name}(%v: {rows}) -> List[{row}] {{
  @tensor_array_{unstack}_from_{name}(%v, 0, take(shape_of(%v, dtype="int32"), 0, axis=0))
}}
"""

_SLICE = "dyn.strided_slice(%v, reshape(%start, newshape=[1]), reshape(%end, newshape=[1]), reshape(1, newshape=[1]))"


def _match(arms: Sequence[tuple[str, str]]) -> str:
    return "match? (%t) { " + " ".join(f"{pattern} => {value}," for pattern, value in arms) + " }"


def _of_any_rank(dtype: str) -> str:
    """The data type of tensors of `dtype` and the functions over it, as text."""
    kind, makes = f"tensor_{dtype}_t", [f"tensor{rank}_{dtype}" for rank in range(RANKS + 1)]
    shapes = [TensorType([AnyDim()] * rank, dtype) for rank in range(RANKS + 1)]
    fields = ", ".join(f"{make}({shape})" for make, shape in zip(makes, shapes))
    wider = _match([(f"{a}(%v)", f"{b}(expand_dims(%v, axis=0))") for a, b in pairwise(makes)])
    sliced = _match([(f"{make}(%v)", f"{make}({_SLICE})") for make in makes[1:]])
    joined = _match(
        [
            (f"{make}(%v)", f"match? (%u) {{ {make}(%w) => {make}(concatenate((%v, %w), axis=0)), }}")
            for make in makes[1:]
        ]
    )
    rest = f"@tensor_concatenate_{dtype}(%x, @tensor_array_concat_{dtype}(%rest))"
    names = {"name": dtype, "type": kind, "nil": f"tensor_nil_{dtype}", "stacked": kind, "rows": dtype, "part": kind}
    unstacks = [
        _UNSTACK.format(name=dtype, unstack=f"unstack_tensor{rank}", rows=shapes[rank], row=kind, make=makes[rank - 1])
        for rank in range(1, RANKS + 1)
    ]
    return f"""
type {kind} {{ tensor_nil_{dtype}, {fields} }}
def @tensor_expand_dims_{dtype}(%t: {kind}) -> {kind} {{ {wider} }}
def @tensor_take_{dtype}(%t: {kind}, %start: int32, %end: int32) -> {kind} {{ {sliced} }}
def @tensor_concatenate_{dtype}(%t: {kind}, %u: {kind}) -> {kind} {{ {joined} }}
def @tensor_array_concat_{dtype}(%t: List[{kind}]) -> {kind} {{
  {_match([("Cons(%x, Nil)", "%x"), ("Cons(%x, %rest)", rest)])}
}}
{_ARRAYS.format(**names)}{_SPLIT.format(**names)}{"".join(unstacks)}"""


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

    `register()` adds them to the prelude's module; those that take rows or add an axis give tensors of other shapes,
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
        kind, whole = f"static_tensor_{name}_t", TensorType([AnyDim(), *shape[1:]], self.dtype)
        make, take = f"static_tensor_constructor_{joined}", f"static_tensor_constructor_{name}"
        define(
            self.prelude.mod,
            f"""
def @tensor_array_concat_from_{name}(%t: List[{kind}]) -> {whole} {{
  {
                _match(
                    [
                        (f"Cons({take}(%x), Nil)", "%x"),
                        (
                            f"Cons({take}(%x), %rest)",
                            f"concatenate((%x, @tensor_array_concat_from_{name}(%rest)), axis=0)",
                        ),
                    ]
                )
            }
}}
def @tensor_array_concat_{name}(%xs: List[{kind}]) -> static_tensor_{joined}_t {{
  {make}(@tensor_array_concat_from_{name}(%xs))
}}
""",
        )

    def _functions(self, rows: Sequence[Any]) -> str:
        mine, wider = shape_name(self.dtype, self.shape), shape_name(self.dtype, [1, *self.shape])
        stacked, part = shape_name(self.dtype, rows), shape_name(self.dtype, [AnyDim(), *self.shape[1:]])
        kind, make = f"static_tensor_{mine}_t", f"static_tensor_constructor_{mine}"
        held = TensorType(self.shape, self.dtype)
        names = {"name": mine, "type": kind, "nil": f"static_tensor_nil_{mine}", "rows": wider}
        names |= {"stacked": f"static_tensor_{stacked}_t", "part": f"static_tensor_{part}_t"}
        text = f"""
def @tensor_get_data_{mine}(%t: {kind}) -> {held} {{ {_match([(f"{make}(%v)", "%v")])} }}
def @tensor_expand_dims_{mine}(%t: {kind}) -> static_tensor_{wider}_t {{
  static_tensor_constructor_{wider}(expand_dims(@tensor_get_data_{mine}(%t), axis=0))
}}
{_ARRAYS.format(**names)}"""
        if not self.shape:
            return text
        row = shape_name(self.dtype, self.shape[1:])
        unstack = {"rows": held, "row": f"static_tensor_{row}_t", "make": f"static_tensor_constructor_{row}"}
        return f"""{text}
def @tensor_take_{mine}(%t: {kind}, %start: int32, %end: int32) -> static_tensor_{part}_t {{
  let %v = @tensor_get_data_{mine}(%t);
  static_tensor_constructor_{part}({_SLICE})
}}
def @tensor_concatenate_{mine}(%t: {kind}, %u: {kind}) -> static_tensor_{part}_t {{
  static_tensor_constructor_{part}(
    concatenate((@tensor_get_data_{mine}(%t), @tensor_get_data_{mine}(%u)), axis=0))
}}
{_SPLIT.format(**names)}{_UNSTACK.format(name=mine, unstack="unstack", **unstack)}"""
