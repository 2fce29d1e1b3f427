"""Elements of 8, 16 and 64 bits in languages that have words of 32 bits only.

They lie in memory as they do elsewhere: the narrow ones several in a word, of which a thread changes its own bits by
atomic operations, those of 64 bits in two words, of which the low one is computed with: the host refuses inputs that
need more. `Words` are the spellings of a language; the rest of its dialect follows from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.codegen.source.literals import c_literal
from tilewright.errors import UnsupportedError
from tilewright.support.dtype import DType

#: Integers that are computed with in 32 bits: the type that stands for each, and its own bits.
INTEGERS = {f"{code}{bits}": (f"{code}32", bits) for code in ("int", "uint") for bits in (8, 16, 64)}
#: The bits of elements that share a word.
PACKED = {"bool": 8, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "float16": 16, "bfloat16": 16}
#: The types of scalar parameters.
SCALARS = ("int32", "uint32", "float32", "int64", "uint64")


@dataclass(frozen=True)
class Words:
    """Spellings: the types `int32` and `uint32`; the operand of an atomic operation on the word at {at}, and the value
    there; a {count} of bits; {bits} bits of a {value} from a {first} on."""

    int32: str
    uint32: str
    operand: str
    value: str
    count: str
    extract: str

    def kind(self, dtype: str) -> str:
        """The type that stands for a number."""
        return self.int32 if dtype.startswith("int") else self.uint32

    def types(self) -> dict[str, str]:
        """Of all types that are words, or stored as bits."""
        return {dtype: self.kind(dtype) for dtype in ("int32", "uint32", "float16", "bfloat16", *INTEGERS)}

    def loads(self) -> dict[str, str]:
        """The elements of arrays."""
        wide = dict.fromkeys(("int64", "uint64"), "{name}[2 * {index}]")
        return {**{dtype: self._load(dtype, bits) for dtype, bits in PACKED.items()}, **wide}

    def _load(self, dtype: str, bits: int) -> str:
        word = self.value.format(at=f"{{name}}[{{index}} / {32 // bits}]")
        first = self.count.format(count=f"({{index}} & {32 // bits - 1}) * {bits}")
        element = self.extract.format(value=f"{self.kind(dtype)}({word})", first=first, bits=bits)
        return f"({element} != 0u)" if dtype == "bool" else element

    def stores(self) -> dict[str, tuple[str, ...]]:
        """The statements that write them. Others of a word stay what they are, whoever writes them meanwhile."""
        low, high = "{name}[2 * {index}] = {value};", "{name}[2 * {index} + 1] = "
        wide = {"int64": (low, high + "{value} >> 31u;"), "uint64": (low, high + "0u;")}
        return {**{dtype: self._store(bits) for dtype, bits in PACKED.items()}, **wide}

    def _store(self, bits: int) -> tuple[str, ...]:
        word = self.operand.format(at=f"{{name}}[{{index}} / {32 // bits}]")
        shift = self.count.format(count=f"({{index}} & {32 // bits - 1}) * {bits}")
        mask = f"{(1 << bits) - 1}u"
        return (
            f"atomicAnd({word}, ~({mask} << {shift}));",
            f"atomicOr({word}, ({self.uint32}({{value}}) & {mask}) << {shift});",
        )

    def narrow(self) -> dict[str, str]:
        """The low bits of a {value}, as numbers of their type."""
        return {
            dtype: self.extract.format(value="{value}", first=self.count.format(count="0"), bits=bits)
            for dtype, (_, bits) in INTEGERS.items()
            if bits < 32
        }

    def divisions(self) -> Iterator[tuple[str, str, str]]:
        """(name, type, result) of each function of `a` and `b` that divides integers of other sizes."""
        for dtype, (wide, bits) in INTEGERS.items():
            for name in ("truncdiv", "truncmod", *(() if dtype.startswith("u") else ("floordiv", "floormod"))):
                result = f"tilewright_{name}_{wide}(a, b)"
                result = self.narrow()[dtype].format(value=result) if bits < 32 else result
                yield f"tilewright_{name}_{dtype}", self.kind(dtype), result


def word_literal(language: str, dtype: DType, value: float | int, infinity: str, nan: str) -> str:
    """A constant; of integers of 64 bits those that fit 32, and the limits as the limits of these."""
    wide, bits = INTEGERS.get(str(dtype), (str(dtype), 0))
    if bits == 64:
        low, high = DType(wide).limits()
        if not low <= value <= high and value not in dtype.limits():
            raise UnsupportedError(f"{language} code computes {dtype} in 32 bits, which {value} does not fit")
        value = min(max(int(value), low), high)
    return c_literal(DType(wide), value, infinity, nan)


def check_scalar(language: str, name: str, dtype: DType) -> None:
    """Refuse a number that a kernel cannot take as a parameter."""
    if str(dtype) not in SCALARS:
        raise UnsupportedError(f"{language} code takes numbers of {', '.join(SCALARS)}, not {name} of {dtype}")
