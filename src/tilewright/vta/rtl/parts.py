"""Shared parts of the RTL's units: fields of instructions as signals, queues, tokens, the memory port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.fifo import SyncFIFOBuffered

from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import Format, Isa

#: Bits of an address in bytes.
ADDRESS_BITS = 32


def fields(form: Format, word: Value) -> dict[str, Any]:
    """The fields of an instruction, or micro-op, as slices of its bits."""
    values = {}
    for field in form.fields:
        bits = word[field.low : field.high + 1]
        values[field.name] = bits.as_signed() if field.signed else bits
    return values


def log2(value: int) -> int:
    """The logarithm of a power of two."""
    return value.bit_length() - 1


def choose(selector: Value, cases: dict[int, Any], default: Any) -> Any:
    """`cases[selector]`, as a chain of multiplexers."""
    for number, value in cases.items():
        default = Mux(selector == number, value, default)
    return default


def total(values: list[Any]) -> Any:
    """The sum of signals as a balanced tree."""
    while len(values) > 1:
        values = [sum(values[at + 1 : at + 2], values[at]) for at in range(0, len(values), 2)]
    return values[0]


@dataclass
class ReadPort:
    """A client's half of the read channels of AXI: address in bytes and beats less one; data, the last beat marked."""

    ar_valid: Signal
    ar_ready: Signal
    ar_addr: Signal
    ar_len: Signal
    r_valid: Signal
    r_ready: Signal
    r_data: Signal
    r_last: Signal

    @classmethod
    def make(cls, hardware: Hardware, name: str) -> ReadPort:
        """All its signals, named."""
        widths = {"ar_addr": ADDRESS_BITS, "ar_len": 8, "r_data": 8 * hardware.port_bytes}
        return cls(*(Signal(widths.get(x, 1), name=f"{name}{x}") for x in cls.__dataclass_fields__))


@dataclass
class WritePort:
    """The write channels: address and beats less one, data with a bit a byte that is written, and the answer."""

    aw_valid: Signal
    aw_ready: Signal
    aw_addr: Signal
    aw_len: Signal
    w_valid: Signal
    w_ready: Signal
    w_data: Signal
    w_strb: Signal
    w_last: Signal
    b_valid: Signal

    @classmethod
    def make(cls, hardware: Hardware, name: str) -> WritePort:
        """All its signals, named."""
        size = hardware.port_bytes
        widths = {"aw_addr": ADDRESS_BITS, "aw_len": 8, "w_data": 8 * size, "w_strb": size}
        return cls(*(Signal(widths.get(x, 1), name=f"{name}{x}") for x in cls.__dataclass_fields__))


def burst_beats(beat: Value, left: Value, hardware: Hardware) -> Any:
    """Beats of the next burst: what is left, up to a boundary of the longest burst, so that none crosses 4 KiB."""
    room = Const(hardware.burst) - beat[: log2(hardware.burst)]
    return Mux(left < room, left, room)


def queue(m: Module, name: str, width: int, depth: int) -> Any:
    """A FIFO among a module's parts."""
    fifo = SyncFIFOBuffered(width=width, depth=depth)
    m.submodules[name] = fifo
    return fifo


class Tokens:
    """A queue of tokens between two units: a counter. `push` and `take` are pulses, `there` says that one is left."""

    def __init__(self, name: str) -> None:
        self.push, self.take = Signal(name=f"{name}_push"), Signal(name=f"{name}_take")
        self.count = Signal(16, name=f"{name}_count")
        self.there = self.count != 0

    def count_up(self, m: Module) -> None:
        """The logic of the counter."""
        m.d.sync += self.count.eq(self.count + self.push - self.take)


def opcode_is(isa: Isa, word: Value, name: str) -> Any:
    """True if an instruction is LOAD, STORE, …"""
    opcode = isa.formats["FINISH"].by_name["opcode"]
    assert opcode.names is not None
    return word[opcode.low : opcode.high + 1] == opcode.names[name]


def repeat(value: Value, times: int) -> Any:
    """A value beside itself."""
    return Cat(*[value] * times)
