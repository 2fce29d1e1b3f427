"""The plan of a program on a device and the host: its calls in order, and the copies of values between the two.

      copy to the device: an input
   0  segment0 on opencl: 5 calls of kernels
      copy to the host: float32[1, 16, 4]
   1  vision.all_class_non_max_suppression on the host

Each value is copied once in a direction. Of branches both count, of a loop one turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.driver.build import BuiltSegments, ModelGraphs
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import tensor_types
from tilewright.relay.ir.visitor import calls
from tilewright.runtime.manifest import Manifest, Packed
from tilewright.runtime.vm.executable import READ_NO_ELEMENTS
from tilewright.runtime.vm.instruction import Opcode, instruction_text

_DEVICE, _HOST = "device", "host"


@dataclass(eq=False)
class _Value:
    """A value of a register: what it is, and where copies of it are; nothing of one that a caller passed."""

    text: str
    there: set[str] = field(default_factory=set)
    fields: Sequence[_Value] = ()


def program_lines(graphs: ModelGraphs) -> Iterator[str]:
    """The plan of a program, after a line that counts its parts."""
    manifest = graphs.manifest(BuiltSegments(b"", [], dict.fromkeys(graphs.constants, 0)))
    assert manifest.program is not None
    device = (
        str(graphs.backend.target).split()[0] if graphs.backend.has_own_memory or graphs.on_host else "the processor"
    )
    walk = _Walk(manifest, graphs, device)
    lines = [line for function in manifest.program["functions"] for line in walk.function(function)]
    here = len(graphs.on_host)
    yield (
        f"segments: {len(graphs.segments) - here} on {device}, {here} on the host, "
        f"operators of the host: {sum(one.segment is None for one in manifest.packed)}; "
        f"copies: {walk.counts[_DEVICE]} to the device, {walk.counts[_HOST]} to the host"
    )
    yield from lines


class _Walk:
    """A walk over instructions that follows where values are."""

    def __init__(self, manifest: Manifest, graphs: ModelGraphs, device: str) -> None:
        self._packed, self._main = manifest.packed, int((manifest.program or {})["main"])
        self._names = [function["name"] for function in (manifest.program or {})["functions"]]
        self._graphs, self._device = graphs, device
        self._apart = graphs.backend.has_own_memory or bool(graphs.on_host)
        self.counts = {_DEVICE: 0, _HOST: 0}

    def function(self, entry: Mapping[str, Any]) -> Iterator[str]:
        """The lines of one function."""
        yield f"{entry['name']}:"
        is_main = self._names.index(entry["name"]) == self._main
        inputs = [_Value("an input", {_HOST} if is_main else set()) for _ in range(entry["params"])]
        values: dict[int, _Value] = dict(enumerate(inputs))
        for position, (opcode, *x) in enumerate(entry["code"]):
            if opcode == Opcode.INVOKE_PACKED:
                yield from self._call(position, x, values)
            elif opcode == Opcode.ALLOC_ADT:
                values[x[0]] = _Value("a tuple", fields=[values.get(r, _Value("")) for r in x[2:]])
            elif opcode == Opcode.GET_FIELD:
                whole = values.get(x[1], _Value(""))
                values[x[0]] = whole.fields[x[2]] if x[2] < len(whole.fields) else _Value("a field")
            elif opcode == Opcode.MOVE:
                values[x[0]] = values.get(x[1], _Value(""))
            elif opcode == Opcode.LOAD_CONST:
                values[x[0]] = _Value("a constant", {_HOST})
            else:
                if opcode == Opcode.IF or (opcode == Opcode.RET and is_main):
                    yield from self._copied(values.get(x[0]), _HOST)
                yield f"{position:4}  {instruction_text([opcode, *x])}"

    def _call(self, position: int, x: Sequence[int], values: dict[int, _Value]) -> Iterator[str]:
        one, results, given = self._packed[x[0]], x[2 : 2 + x[1]], x[2 + x[1] :]
        side = _HOST if one.segment is None or one.segment in self._graphs.on_host else _DEVICE
        if one.host not in READ_NO_ELEMENTS:
            for register in given:
                yield from self._copied(values.get(register), side)
        yield f"{position:4}  {self._described(one, side)}"
        kinds = self._result_texts(one)
        for number, register in enumerate(results):
            text = kinds[number] if number < len(kinds) else f"the result of {one.host}"
            values[register] = values[given[0]] if one.host == "check_shape" else _Value(text, {side})

    def _copied(self, value: _Value | None, side: str) -> Iterator[str]:
        if value is None or not self._apart:
            return
        for one in value.fields:
            yield from self._copied(one, side)
        if value.there and side not in value.there:
            value.there.add(side)
            self.counts[side] += 1
            yield f"      copy to the {side}: {value.text}"

    def _described(self, one: Packed, side: str) -> str:
        if one.segment is None:
            return f"{one.host} on the host" + (f"  # {one.source}" if one.source else "")
        name, module = self._graphs.segments[one.segment]
        where = self._device if side == _DEVICE else "the host"
        loop = ", until its last result is false" if one.loop is not None else ""
        return f"{name} on {where}: {_count(module)}{loop}"

    def _result_texts(self, one: Packed) -> list[str]:
        if one.segment is None:
            return []
        body = self._graphs.segments[one.segment][1]["main"].body
        return [f"{type_.dtype}[{', '.join(map(str, type_.shape))}]" for type_ in tensor_types(body.checked_type)]


def _count(module: IRModule) -> str:
    count = len(list(calls(module["main"].body)))
    return f"{count} call{'s'[: count != 1]} of kernels"
