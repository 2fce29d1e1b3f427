"""The table from expression class to the function that emits it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.codegen.llvm import arithmetic, calls, memory
from tilewright.codegen.llvm.builder import FunctionBuilder, Value
from tilewright.tir import expr as e

EXPRESSIONS: dict[type, Callable[[FunctionBuilder, Any], Value]] = {
    e.IntImm: arithmetic.int_imm,
    e.FloatImm: arithmetic.float_imm,
    e.Var: arithmetic.variable,
    e.SizeVar: arithmetic.variable,
    e.Add: arithmetic.add,
    e.Sub: arithmetic.sub,
    e.Mul: arithmetic.mul,
    e.Div: arithmetic.div,
    e.Mod: arithmetic.mod,
    e.FloorDiv: arithmetic.floordiv,
    e.FloorMod: arithmetic.floormod,
    e.Min: arithmetic.minimum,
    e.Max: arithmetic.maximum,
    e.EQ: arithmetic.equal,
    e.NE: arithmetic.not_equal,
    e.LT: arithmetic.less,
    e.LE: arithmetic.less_equal,
    e.GT: arithmetic.greater,
    e.GE: arithmetic.greater_equal,
    e.And: arithmetic.logical_and,
    e.Or: arithmetic.logical_or,
    e.Not: arithmetic.logical_not,
    e.Cast: arithmetic.cast,
    e.Select: arithmetic.select,
    e.Let: arithmetic.let,
    e.Ramp: arithmetic.ramp,
    e.Broadcast: arithmetic.broadcast,
    e.Shuffle: arithmetic.shuffle,
    e.BufferLoad: memory.load,
    e.Call: calls.call,
}
