"""Random legal programs, and what they compute one instruction after another: written without the package's arithmetic.

A program is a list of dicts of fields. Tokens are added where instructions of different units reach the same element.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

Fields = dict[str, int | str]
Keys = tuple[set[tuple[str, int]], set[tuple[str, int]]]

UNITS = ("load", "compute", "store")
#: (from, to): the flags that push and pop a token.
TOKENS = {
    ("load", "compute"): ("push_next", "pop_prev"), ("compute", "load"): ("push_prev", "pop_next"),
    ("compute", "store"): ("push_next", "pop_prev"), ("store", "compute"): ("push_prev", "pop_next"),
}  # fmt: skip


def unit_of(x: Fields) -> str:
    if x["name"] == "STORE":
        return "store"
    return "load" if x["name"] == "LOAD" and x["mem_id"] in ("INP", "WGT") else "compute"


@dataclass
class Sizes:
    """The fields of a configuration that the oracle needs."""

    batch: int
    block: int
    depth: dict[str, int]
    dram: int = 1 << 13

    def bytes_of(self, memory: str) -> int:
        tile = self.batch * self.block
        return {
            "UOP": 4, "INP": tile, "OUT": tile, "ACC_8BIT": tile, "ACC": 4 * tile, "WGT": self.block**2,
        }[memory]  # fmt: skip


class Oracle:
    """Sequential execution; `run` returns which elements were read and written."""

    def __init__(self, sizes: Sizes, bits: tuple[int, int, int], dram: np.ndarray) -> None:
        self.sizes, self.bits, self.dram = sizes, bits, dram.copy()
        self.inp = np.zeros((sizes.depth["INP"], sizes.batch, sizes.block), np.int64)
        self.wgt = np.zeros((sizes.depth["WGT"], sizes.block, sizes.block), np.int64)
        self.acc = np.zeros((sizes.depth["ACC"], sizes.batch, sizes.block), np.int64)
        self.uop: dict[int, int] = {}

    def run(self, x: Fields) -> Keys:
        name = str(x["name"])
        return {"LOAD": self.load, "STORE": self.store, "GEMM": self.loop, "ALU": self.loop}[name](x)

    def load(self, x: Fields) -> Keys:
        memory, size = str(x["mem_id"]), self.sizes.bytes_of(str(x["mem_id"]))
        chip = {"INP": self.inp, "WGT": self.wgt, "UOP": self.uop}.get(memory, self.acc)
        kind = {"ACC": np.int32, "UOP": np.uint32}.get(memory, np.int8)
        reads, writes, at = set(), set(), int(x["sram"])
        for y in range(-x.get("y_pad_0", 0), x["y_size"] + x.get("y_pad_1", 0)):
            for c in range(-x.get("x_pad_0", 0), x["x_size"] + x.get("x_pad_1", 0)):
                if 0 <= y < x["y_size"] and 0 <= c < x["x_size"]:
                    first = (x["dram"] + y * x["x_stride"] + c) * size
                    value = self.dram[first : first + size].view(kind)
                    chip[at] = int(value[0]) if memory == "UOP" else value.reshape(chip[at].shape)
                    reads |= {("DRAM", b) for b in range(first, first + size)}
                else:
                    chip[at] = 0
                writes.add(("ACC" if memory == "ACC_8BIT" else memory, at))
                at += 1
        return reads, writes

    def store(self, x: Fields) -> Keys:
        reads, writes, at, size = set(), set(), int(x["sram"]), self.sizes.bytes_of("OUT")
        for y in range(x["y_size"]):
            for c in range(x["x_size"]):
                first = (x["dram"] + y * x["x_stride"] + c) * size
                self.dram[first : first + size] = (self.acc[at].ravel() & 255).astype(np.uint8)
                reads.add(("ACC", at))
                writes |= {("DRAM", b) for b in range(first, first + size)}
                at += 1
        return reads, writes

    def loop(self, x: Fields) -> Keys:
        a, s, _ = self.bits
        reads, writes = set(), set()
        for i in range(x["iter_out"]):
            for j in range(x["iter_in"]):
                for u in range(x["uop_begin"], x["uop_end"]):
                    word = self.uop[u]
                    dst = word % 2**a + i * x["dst_factor_out"] + j * x["dst_factor_in"]
                    src = word // 2**a % 2**s + i * x["src_factor_out"] + j * x["src_factor_in"]
                    wgt = word // 2 ** (a + s) + i * x.get("wgt_factor_out", 0) + j * x.get("wgt_factor_in", 0)
                    writes.add(("ACC", dst))
                    if x["name"] == "ALU":
                        if not x["use_imm"]:
                            reads.add(("ACC", src))
                        self.acc[dst] = [
                            [
                                self.alu(str(x["op"]), int(p), int(x["imm"] if x["use_imm"] else q))
                                for p, q in zip(*rows)
                            ]
                            for rows in zip(self.acc[dst], self.acc[src % len(self.acc)])
                        ]
                    elif x["reset"]:
                        self.acc[dst] = 0
                    else:
                        reads |= {("INP", src), ("WGT", wgt)}
                        self.acc[dst] += np.einsum("bk,ok->bo", self.inp[src], self.wgt[wgt])
                        self.acc[dst] = (self.acc[dst] + 2**31) % 2**32 - 2**31
        return reads, writes

    @staticmethod
    def alu(op: str, p: int, q: int) -> int:
        """One pair of numbers in Python's own integers."""
        shifted = p >> min(q, 99) if q >= 0 else p << min(-q, 99)
        exact = {"MIN": min(p, q), "MAX": max(p, q), "ADD": p + q, "MUL": p * q, "SHR": shifted}[op]
        return (exact + 2**31) % 2**32 - 2**31


@dataclass
class Writer:
    """Puts instructions in order and adds the tokens that their conflicts need."""

    out: list[Fields] = field(default_factory=list)
    #: (from, to) -> how many instructions of `from` are certain to be done before the next one of `to`.
    done: dict[tuple[str, str], int] = field(default_factory=lambda: {(a, b): 0 for a in UNITS for b in UNITS})
    history: dict[str, list[tuple[Keys, Fields]]] = field(default_factory=lambda: {unit: [] for unit in UNITS})

    def put(self, x: Fields, keys: Keys) -> None:
        """Append an instruction that must see all that those before it did to the elements `keys`."""
        unit = unit_of(x)
        for other in UNITS:
            if other == unit:
                continue
            for (reads, writes), _ in self.history[other][self.done[other, unit] :]:
                if writes & (keys[0] | keys[1]) or reads & keys[1]:
                    self.order(other, unit, x)
                    break
        self._append(x, keys)

    def order(self, first: str, then: str, x: Fields | None) -> None:
        """All of unit `first` so far before the next instruction of `then`, which is `x` if that has a flag left."""
        if (first, then) not in TOKENS:
            self.order(first, "compute", None)
            self.order("compute", then, x)
            return
        push, pop = TOKENS[first, then]
        giver = self.history[first][-1][1] if self.history[first] else self._only_tokens(first)
        if giver.get(push):
            giver = self._only_tokens(first)
        giver[push] = 1
        self.done[first, then] = len(self.history[first])
        for other in UNITS:
            self.done[other, then] = max(self.done[other, then], self.done[other, first])
        if x is None or x.get(pop):
            self._only_tokens(then)[pop] = 1
        else:
            x[pop] = 1

    def finish(self) -> list[Fields]:
        last: Fields = {"name": "FINISH"}
        for unit in ("load", "store"):
            if self.done[unit, "compute"] < len(self.history[unit]):
                self.order(unit, "compute", last)
        self.out.append(last)
        return self.out

    def _only_tokens(self, unit: str) -> Fields:
        name, memory = {"load": ("LOAD", "INP"), "compute": ("LOAD", "UOP"), "store": ("STORE", "OUT")}[unit]
        return self._append({"name": name, "mem_id": memory, "x_size": 0}, (set(), set()))

    def _append(self, x: Fields, keys: Keys) -> Fields:
        self.out.append(x)
        self.history[unit_of(x)].append((keys, x))
        return x


def random_program(chance: random.Random, oracle: Oracle, uops: tuple[int, int], length: int) -> list[Fields]:
    """A legal program with FINISH; the oracle has executed it. `uops`: the address of micro-ops in DRAM, and how many.

    Micro-ops name elements up to 3, factors add at most 3 × 2 a loop: all within memories of 16 elements.
    """
    first, count = uops
    writer = Writer()
    draw = {"INP": _load, "WGT": _load, "ACC": _load, "ACC_8BIT": _load, "STORE": _store, "GEMM": _loop, "ALU": _loop}
    start: Fields = {
        "name": "LOAD", "mem_id": "UOP", "sram": 0, "dram": first, "y_size": 1, "x_size": count, "x_stride": count,
    }  # fmt: skip
    program = [start] + [draw[kind](chance, kind, oracle.sizes, count) for kind in chance.choices(list(draw), k=length)]
    for x in program:
        writer.put(x, oracle.run(x))
    return writer.finish()


def _load(chance: random.Random, memory: str, sizes: Sizes, _: int) -> Fields:
    pads = {pad: chance.choice([0, 0, 1]) for pad in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")}
    rows, columns, stride = chance.randint(1, 2), chance.randint(1, 2), chance.randint(0, 3)
    area = (rows + pads["y_pad_0"] + pads["y_pad_1"]) * (columns + pads["x_pad_0"] + pads["x_pad_1"])
    return {
        "name": "LOAD", "mem_id": memory, "sram": chance.randint(0, min(sizes.depth[memory], 16) - area),
        "dram": chance.randint(0, (sizes.dram // sizes.bytes_of(memory) - stride - columns)),
        "y_size": rows, "x_size": columns, "x_stride": stride, **pads,
    }  # fmt: skip


def _store(chance: random.Random, _: str, sizes: Sizes, count: int) -> Fields:
    rows, columns, stride = chance.randint(1, 3), chance.randint(1, 3), chance.randint(0, 5)
    room = sizes.dram // sizes.bytes_of("OUT")
    return {
        "name": "STORE", "mem_id": "OUT", "sram": chance.randint(0, 16 - rows * columns),
        "dram": chance.randint(room // 2, room - 2 * stride - columns),
        "y_size": rows, "x_size": columns, "x_stride": stride,
    }  # fmt: skip


def _loop(chance: random.Random, name: str, sizes: Sizes, count: int) -> Fields:
    begin = chance.randrange(count)
    x: Fields = {
        "name": name, "uop_begin": begin, "uop_end": chance.randint(begin + 1, count),
        "iter_out": chance.randint(1, 3), "iter_in": chance.randint(1, 3), "reset": 0,
    }  # fmt: skip
    for operand in ("dst", "src") + (("wgt",) if name == "GEMM" else ()):
        x |= {f"{operand}_factor_out": chance.randint(0, 3), f"{operand}_factor_in": chance.randint(0, 3)}
    if name == "GEMM":
        return x | {"reset": int(chance.random() < 0.2)}
    imm = chance.choice([chance.randint(-9, 9), chance.randint(-(2**15), 2**15 - 1)])
    return x | {"op": chance.choice(["MIN", "MAX", "ADD", "SHR", "MUL"]), "use_imm": chance.randint(0, 1), "imm": imm}
