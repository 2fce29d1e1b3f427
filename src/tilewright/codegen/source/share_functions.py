"""Functions of vectors in C that are equal but for whole numbers, as one that gets these as arguments.

    k1(…) { for (i = 0; i < 256; …) … }        shared(…, n0) { for (i = 0; i < n0; …) … }
    k2(…) { for (i = 0; i < 288; …) … }   =>   k1(…) { return shared(…, 256); }
                                               k2(…) { return shared(…, 288); }

The layers of a dense network differ in their channels alone, and a C compiler reads each of their tiles anew.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

_FUNCTION = re.compile(r"^TILEWRIGHT_KERNEL int32_t (\w+)\(([^\n]*)\) \{\n(.*?)^\}$", re.MULTILINE | re.DOTALL)
#: Whole numbers of type int, no part of a name or of a float.
_NUMBER = re.compile(r"(?<![\w.])(?<![eE][+-])\d+(?![\w.])")
#: Numbers that are no arguments: sizes of arrays.
_ARRAY = re.compile(r"\w+\[\d+\] (?:TILEWRIGHT_ALIGNED;|=)")
#: The largest number that an argument holds.
_LARGEST = (1 << 31) - 1
#: Arguments of a function, at most: those of strides that many statements have would keep registers busy.
_MOST = 8


def share_functions(texts: Sequence[str]) -> list[str]:
    """The `texts` of one file, in which functions of vectors that differ in few whole numbers share one."""
    alike: dict[tuple[str, str], list[re.Match[str]]] = {}
    for text in texts:
        for found in _FUNCTION.finditer(text):
            if "tilewright_floatx" in found[3]:
                alike.setdefault((found[2], _NUMBER.sub("#", found[3])), []).append(found)
    replaced: dict[str, str] = {}
    for functions in alike.values():
        replaced.update(_shared(functions) if len(functions) > 1 else ())
    return [_FUNCTION.sub(lambda found: replaced.get(found[1], found[0]), text) for text in texts]


def _shared(functions: Sequence[re.Match[str]]) -> Iterator[tuple[str, str]]:
    """The new text of each function by its name, the first with what they share; nothing where that has to stay."""
    first = functions[0]
    sizes = [_ARRAY.findall(found[3]) for found in functions]
    columns = [*zip(*[_NUMBER.findall(found[3]) for found in functions], strict=True)]
    different = [*dict.fromkeys(column for column in columns if len(set(column)) > 1)]
    large = any(int(one) > _LARGEST for column in different for one in column)
    if large or len(different) > _MOST or any(size != sizes[0] for size in sizes):
        return
    names = {column: f"n{number}" for number, column in enumerate(different)}
    *given, context = first[2].split(", ")
    own = [*given, *(f"int32_t {name}" for name in names.values()), context]
    number = itertools.count()
    body = _NUMBER.sub(lambda found: names.get(columns[next(number)], found[0]), first[3])
    shared = f"TILEWRIGHT_KERNEL int32_t {first[1]}_shared({', '.join(own)}) {{\n{body}}}\n\n"
    for position, found in enumerate(functions):
        arguments = [_name(one) for one in given] + [column[position] for column in different] + [_name(context)]
        call = f"  return {first[1]}_shared({', '.join(arguments)});"
        before = shared if found is first else ""
        yield found[1], f"{before}TILEWRIGHT_MAYBE int32_t {found[1]}({found[2]}) {{\n{call}\n}}"


def _name(parameter: str) -> str:
    return parameter.rpartition(" ")[2]
