"""Differences between the C-like languages in which kernels are written: spellings, as data.

One `Dialect` per language (`c.py`, `opencl.py`, `cuda.py`, `metal.py`, `wgsl.py`); `builder.py`, `expressions.py` and
`statements.py` turn loop IR into text by these tables and hold no knowledge of any one language.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.support.dtype import DType


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The spellings of one language. Templates are filled by `str.format`.

    `types` maps element types to their names in registers, `memory_types` those that are spelled differently in
    memory; `loads` has the element at an {index} of a kernel's array {name} where that is no element of the language,
    and `stores` the lines that write a {value} to it. `narrow` cuts the low bits of a type from a {value} of the type
    that stands for it, where a cast does not. `functions` maps (intrinsic, element type) to a function's name.
    `conversions` maps (from, to) to the function that converts where a cast does not. `threads` maps thread axes, and
    the intrinsics `worker_id` and `num_workers`, to expressions. `barriers` maps a storage scope to the statement that
    orders its accesses among the threads of a block. `choices` maps conditions that are decided when a device gets the
    text to the lines before, between and after both sides. `effects` maps calls that are statements of this language
    alone to what writes them, given the builder and the call; `arrays` maps storage scopes of this language alone to
    what declares a buffer. `shift` is the text of a shift. `vector_type`, of a language with vectors, names one of
    {lanes} of a {type}; `broadcast` is one of a {value}, and `vector_select` the text of {a} where {condition}, else
    {b}, if `select` is none for vectors; `vector_functions` has texts of calls by the names of intrinsics;
    `vector_load` and `vector_store` move one between registers and neighbours in memory from {index} on, by an address
    of a {space}, of which `spaces` has the words by storage scope. `joined_stores`, of a language where stores of the
    same long arithmetic are better one loop than one behind the other, is the line before that loop.
    `unroll` asks the compiler to write out the loop that follows, with a 1 behind it to leave it as it is. `position`
    tells a compiler of what line of which file the next line was made. `short_circuits` is False where both sides of
    "and" and "or" had better be computed: each `&&` would be a branch.
    """

    name: str
    types: Mapping[str, str]
    memory_types: Mapping[str, str] = field(default_factory=dict)
    loads: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    narrow: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[tuple[str, str], str]
    conversions: Mapping[tuple[str, str], str] = field(default_factory=dict)
    literal: Callable[[DType, float | int], str]
    threads: Mapping[str, str] = field(default_factory=dict)
    barriers: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    scopes: Mapping[str, str] = field(default_factory=lambda: {"local": "", "global": ""})
    cast: str = "(({type}){value})"
    select: str = "({condition} ? {true} : {false})"
    constant: str = "const {type} {name} = {value};"
    variable: str = "{type} {name};"
    array: str = "{scope}{type} {name}[{size}];"
    loop: str = "for ({type} {name} = {first}; {name} < {end}; {name} += 1) {{"
    unroll: str = ""
    loop_forever: str = "while (true) {"
    shift: str = "({value} {symbol} {count})"
    reinterpret: str = ""
    fail: str = ""
    call_function: str = ""
    position: str = '#line {line} "{file}"'
    pointers: bool = True
    short_circuits: bool = True
    vector_type: str = ""
    broadcast: str = "(({type})({value}))"
    vector_select: str = ""
    vector_functions: Mapping[str, str] = field(default_factory=dict)
    vector_load: str = ""
    vector_store: str = ""
    joined_stores: str = ""
    spaces: Mapping[str, str] = field(default_factory=dict)
    effects: Mapping[str, Callable[[Any, Any], None]] = field(default_factory=dict)
    arrays: Mapping[str, Callable[[Any, Any], str]] = field(default_factory=dict)

    def type_name(self, dtype: DType) -> str:
        """The name of a register type. Raises UnsupportedError where the language has none."""
        return self._spelled(dtype, self.types)

    def memory_type(self, dtype: DType) -> str:
        """The name of the type of an array's elements. Raises UnsupportedError where the language has none."""
        return self._spelled(dtype, {**self.types, **self.memory_types})

    def converted(self, dtype: DType, value: str) -> str:
        """A number cast to `dtype`, of its bits alone."""
        text = self.cast.format(type=self.type_name(dtype), value=value)
        return self.narrow[entry(dtype)].format(value=text) if entry(dtype) in self.narrow else text

    def constant_line(self, type_: str, name: str, value: str) -> str:
        """The line that names a value. Of an address it is the address that does not change, not what lies there."""
        text = "{type} const {name} = {value};" if type_.endswith("*") else self.constant
        return text.format(type=type_, name=name, value=value)

    def _spelled(self, dtype: DType, table: Mapping[str, str]) -> str:
        if dtype.lanes > 1 and self.vector_type:
            return self.vector_type.format(type=self._spelled(dtype.element, table), lanes=dtype.lanes)
        found = table.get(entry(dtype))
        if found is None:
            raise UnsupportedError(f"{self.name} code has no type for {dtype}; cast to one of: {', '.join(self.types)}")
        return found


def entry(dtype: DType) -> str:
    """The name of a type in the tables of a dialect: what takes less than a byte is one, moved and reinterpreted."""
    return "uint8" if dtype.is_narrow else str(dtype)


def float_names(names: str, dtypes: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """A table of math functions: `"exp sqrt round=rint"` under each element type, with the suffix it takes."""
    table: dict[tuple[str, str], str] = {}
    for word in names.split():
        intrinsic, _, symbol = word.partition("=")
        for dtype, suffix in dtypes.items():
            table[intrinsic, dtype] = (symbol or intrinsic) + suffix
    return table
