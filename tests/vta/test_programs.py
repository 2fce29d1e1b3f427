"""Random programs: encoded, decoded and disassembled without loss, refused when broken, right in every order."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest

from tests.vta.programs import Fields, Oracle, Sizes, random_program
from tilewright.errors import ProgramError
from tilewright.vta import (
    Config,
    Dram,
    Instruction,
    Isa,
    Simulator,
    assemble,
    check_program,
    decode,
    disassemble,
    encode,
    listing,
    make,
    make_uop,
    pack,
    unpack,
)  # fmt: skipfrom tilewright.vta.order import walk
from tilewright.vta.order import walk

UOPS = 6
#: The default, and small tiles of two rows in small memories. Bits of dst, src and wgt in a micro-op.
CASES = [
    (Config(), Sizes(1, 16, {"INP": 2048, "WGT": 1024, "ACC": 2048, "ACC_8BIT": 2048}), (11, 11, 10)),
    (
        Config(3, 3, 5, 1, 2, log_uop_buff_size=6, log_inp_buff_size=7, log_wgt_buff_size=8, log_acc_buff_size=9),
        Sizes(2, 4, {"INP": 16, "WGT": 16, "ACC": 16, "ACC_8BIT": 16}),
        (4, 4, 4),
    ),
]  # fmt: skip


@cache
def isa_of(case: int) -> Isa:
    return Isa(CASES[case][0])


def made(seed: int) -> tuple[Isa, list[Instruction], list[Fields], np.ndarray, np.ndarray]:
    """Instructions, their fields, DRAM before and after by the oracle."""
    chance, isa = random.Random(seed), isa_of(seed % 2)
    _, sizes, bits = CASES[seed % 2]
    dram = np.random.default_rng(seed).integers(0, 256, sizes.dram, np.uint8)
    words = [make_uop(isa, *(chance.randint(0, 3) for _ in range(3))) for _ in range(UOPS)]
    dram[: 4 * UOPS] = np.array(words, "<u4").view(np.uint8)
    oracle = Oracle(sizes, bits, dram)
    fields = random_program(chance, oracle, (0, UOPS), chance.randint(4, 16))
    return isa, [instruction(isa, x) for x in fields], fields, dram, oracle.dram


def instruction(isa: Isa, fields: Fields) -> Instruction:
    rest = dict(fields)
    return make(isa, str(rest.pop("name")), **rest)


def simulated(isa: Isa, program: list[Instruction], dram: np.ndarray, seed: int | None) -> np.ndarray:
    memory = Dram(isa, dram.size)
    memory.data[:] = dram
    Simulator(isa, memory).run(program, seed)
    return memory.data


@pytest.mark.parametrize("block", range(10))
@pytest.mark.sample(3)
def test_random_programs_compute_what_the_oracle_does_in_every_order(block: int) -> None:
    for seed in range(30 * block, 30 * block + 30):
        isa, program, _, dram, expected = made(seed)
        assert check_program(isa, pack(isa, program), dram) == program, seed
        for order in (None, seed, seed + 1, seed + 2):
            np.testing.assert_array_equal(simulated(isa, program, dram, order), expected, err_msg=f"{seed}, {order}")


def test_random_programs_survive_bits_and_text() -> None:
    for seed in range(300):
        isa, program, _, _, _ = made(seed)
        assert unpack(isa, pack(isa, program)) == program
        assert assemble(isa, listing(isa, program)) == program
        assert [decode(isa, encode(isa, x)) for x in program] == program


def test_the_orders_differ() -> None:
    """Else all orders would give the same for want of freedom."""
    isa, program, _, _, _ = made(4)
    orders = {tuple(x.position for x in walk(isa, program, random.Random(seed).choice)) for seed in range(8)}
    assert len(orders) > 1


FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")


def test_without_tokens_programs_race_in_every_order() -> None:
    raced = 0
    for seed in range(60):
        isa, _, fields, dram, _ = made(seed)
        if not any(x.get(flag) for x in fields[:-1] for flag in FLAGS):
            continue
        bare = [instruction(isa, {key: v for key, v in x.items() if key not in FLAGS}) for x in fields]
        for order in (None, 1, 2):
            with pytest.raises(ProgramError) as error:
                simulated(isa, bare, dram, order)
            assert error.value.kind == "race"
            raced += 1
    assert raced > 100


def broken(kind: str, isa: Isa, fields: list[Fields], chance: random.Random) -> bytes:
    """The program with one rule broken, somewhere."""
    start, config = fields[0], isa.config
    loop: Fields = {"name": "ALU", "uop_end": 1, "iter_out": 1, "iter_in": 1, "op": "ADD", "use_imm": 1}
    store: Fields = {"name": "STORE", "mem_id": "OUT", "y_size": 1, "x_size": 1}
    load = {**start, "mem_id": "ACC", "dram": 0, "x_size": 1}
    far = chance.randint(1, 1000)
    added: dict[str, Fields] = {
        "loop": {**loop, chance.choice(["uop_end", "iter_out", "iter_in"]): 0},
        "pad": {**start, chance.choice(["y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"]): 1},
        "sram": {**load, "sram": (1 << config.log_acc_depth) - chance.randint(0, 1), "x_size": 2},
        "dram": {**load, "dram": 4096 + far},
        "uop": {**loop, "uop_begin": UOPS, "uop_end": UOPS + chance.randint(1, 3)},
        "tokens": {**store, "x_size": 0, chance.choice(["pop_next", "push_next"]): 1},
        "leftover": {**start, chance.choice(["push_prev", "push_next"]): 1},
        "deadlock": {**start, chance.choice(["pop_prev", "pop_next"]): 1},
        "race": {**store, "dram": 100, "x_size": 1},
        "finish": {"name": "FINISH"},
    }
    if kind in added:
        fields = [*fields[:-1], added[kind], fields[-1]]
    data = pack(isa, [instruction(isa, x) for x in fields])
    at = len(data) - 16
    word = {
        "opcode": chance.randint(5, 7),
        "reserved": 3 | 1 << chance.randint(7, 127),
        "field": chance.choice([0 | chance.choice([4, 6, 7]) << 7, 1 | chance.choice([0, 1, 2, 3, 5]) << 7]),
    }.get(kind)
    if word is not None:
        return data[:at] + word.to_bytes(16, "little") + data[at:]
    return data[: -chance.randint(1, 15)] if kind == "length" else data


KINDS = [
    "length", "opcode", "reserved", "field", "tokens", "finish", "loop", "pad", "sram", "dram", "uop", "deadlock",
    "leftover", "race",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_broken_programs_are_refused(kind: str) -> None:
    """Fourteen kinds, twelve programs each; the simulator says the same as the checker."""
    for seed in range(12):
        isa, _, fields, dram, _ = made(1000 + seed)
        data = broken(kind, isa, fields, random.Random(seed))
        with pytest.raises(ProgramError) as checked:
            check_program(isa, data, dram)
        assert checked.value.kind == kind, checked.value
        memory = Dram(isa, dram.size)
        memory.data[:] = dram
        with pytest.raises(ProgramError) as refused:
            Simulator(isa, memory).run(data, seed)
        assert refused.value.kind == kind
        if kind in ("loop", "pad", "sram", "dram", "uop", "tokens"):
            assert any(disassemble(isa, x) in str(refused.value) for x in unpack(isa, data))
