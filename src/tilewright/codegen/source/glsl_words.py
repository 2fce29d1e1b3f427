"""GLSL for devices with integers of 32 bits alone: others are parts of words, or two (`words`).

It needs of Vulkan 1.2 that buffers have addresses, and none of the integers of other sizes that `glsl` computes with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.dialect import entry
from tilewright.codegen.source.glsl import (
    GLSL,
    VULKAN_GLSL,
    WORD_FUNCTIONS,
    WORD_SIZES,
    constructed,
    head_of,
    references,
)
from tilewright.codegen.source.half import half_functions
from tilewright.codegen.source.literals import division_functions
from tilewright.codegen.source.words import PACKED, Words, check_scalar, word_literal
from tilewright.support.dtype import DType
from tilewright.tir.buffer import Buffer
from tilewright.tir.transform.split_host_device import Launch

_WORDS = Words(
    int32="int",
    uint32="uint",
    operand="{at}",
    value="{at}",
    count="{count}",
    extract="bitfieldExtract({value}, {first}, {bits})",
)


def _literal(dtype: DType, value: Any) -> str:
    return word_literal("GLSL", dtype, value, "tilewright_infinity()", "tilewright_nan()")


_DIALECT = replace(
    GLSL,
    types={"bool": "bool", "float32": "float", **_WORDS.types()},
    memory_types={},
    loads=_WORDS.loads(),
    stores=_WORDS.stores(),
    narrow=_WORDS.narrow(),
    functions={key: name for key, name in GLSL.functions.items() if key[1] != "float64"},
    literal=_literal,
)


def _prelude() -> str:
    lines = ["#version 460", "#extension GL_EXT_buffer_reference : require", *references(WORD_SIZES), WORD_FUNCTIONS]
    lines.append(constructed(half_functions("", "uint", "uint", "uintBitsToFloat", "floatBitsToUint")))
    lines.append(constructed(division_functions("", {"int32": "int", "uint32": "uint"})))
    divisions = (
        f"{kind} {name}({kind} a, {kind} b) {{ return {result}; }}" for name, kind, result in _WORDS.divisions()
    )
    return "\n".join([*lines, *divisions])


def _parameter(param: Any, b: SourceBuilder) -> tuple[str, str]:
    """The type of a parameter in the block of arguments, and what is read of it: of 64 bits the low word."""
    if isinstance(param, Buffer):
        packed = entry(param.dtype) in PACKED
        return f"tilewright_{'uint' if packed else b.dialect.memory_type(param.dtype)}", ".tilewright_at"
    check_scalar("GLSL", param.name, param.dtype)
    kind = b.dialect.type_name(param.dtype)
    return (f"{kind[0]}vec2", ".x") if param.dtype.itemsize > 4 else (kind, "")


def _head(launch: Launch, b: SourceBuilder) -> str:
    return head_of(launch, b, _parameter)


VULKAN_WORDS = replace(VULKAN_GLSL, dialect=_DIALECT, prelude=_prelude(), head=_head)
