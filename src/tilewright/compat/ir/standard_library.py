"""The files of the classic standard library that a module can import: the prelude, natural numbers, gradients."""

from __future__ import annotations

from functools import cache

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.parser import parse
from tilewright.relay.ir.prelude import prelude_module

_CORE = """#[version = "0.0.5"]
type Storage {
}
"""

_NAT = """#[version = "0.0.5"]
type nat {
  Z,
  S(nat[]),
}

def @nat_add(%x: nat[], %y: nat[]) -> nat[] {
  match (%x) {
    Z => %y,
    S(%z) => @nat_add(%z, S(%y)),
  }
}

def @nat_double(%x: nat[]) -> nat[] {
  match (%x) {
    Z => Z,
    S(%y) => S(S(@nat_double(%y))),
  }
}

def @nat_iterate[A](%f: fn (A) -> A, %n: nat[]) -> fn (A) -> A {
  match (%n) {
    Z => fn (%x: A) -> A { %x },
    S(%m) => fn (%x: A) -> A { %f(@nat_iterate(%f, %m)(%x)) },
  }
}
"""

#: Gradients that are made when they are read: most are zero, and some are one.
_GRADIENT = """#[version = "0.0.5"]
type GradCell[T] {
  Raw(T),
  One(fn () -> T),
  Zero(fn () -> T),
}

def @FromGradCell[T](%g: GradCell[T]) -> T {
  match (%g) {
    Raw(%x) => %x,
    One(%f) => %f(),
    Zero(%f) => %f(),
  }
}

def @MultiplyGradCell[T](%mul: fn (T, T) -> T, %l: GradCell[T], %r: GradCell[T]) -> GradCell[T] {
  match? ((%l, %r)) {
    (Zero(%f), _) => Zero(%f),
    (_, Zero(%f)) => Zero(%f),
    (One(_), _) => %r,
    (_, One(_)) => %l,
    (Raw(%x), Raw(%y)) => Raw(%mul(%x, %y)),
  }
}

def @AddGradCell[T](%add: fn (T, T) -> T, %l: GradCell[T], %r: GradCell[T]) -> GradCell[T] {
  match? ((%l, %r)) {
    (Zero(_), _) => %r,
    (_, Zero(_)) => %l,
    _ => Raw(%add(@FromGradCell(%l), @FromGradCell(%r))),
  }
}
"""

#: The files that are text of their own.
_FILES = {"core.rly": _CORE, "gradient.rly": _GRADIENT, "nat.rly": _NAT}

#: The classic one puts each result before those that came earlier.
_MAP_ACCUML = """#[version = "0.0.5"]
def @backwards[A, B, C](%f: fn (A, B) -> (A, C), %acc: A, %xs: List[B]) -> (A, List[C]) {
  let %step = fn (%state: (A, List[C]), %x: B) -> (A, List[C]) {
    let %here = %f(%state.0, %x);
    (%here.0, Cons(%here.1, %state.1))
  };
  @foldl(%step, (%acc, Nil), %xs)
}
"""


@cache
def standard_module(file_name: str) -> IRModule:
    """The module in the file, such as "prelude.rly". Raises `UnsupportedError` for a file that is not there."""
    if file_name == "prelude.rly":
        own = prelude_module()
        return own.with_function("map_accuml", parse(_MAP_ACCUML, own)["backwards"])
    if file_name in _FILES:
        return parse(_FILES[file_name])
    known = ", ".join(sorted([*_FILES, "prelude.rly"]))
    raise UnsupportedError(f"the standard library has no file {file_name!r} here; there are: {known}")
