"""Sizes computed by compiled code: the table, the arena and the shapes that the run time's own program finds."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.backend.build import build
from tilewright.codegen.size_plan import SizePlan, size_plan
from tilewright.errors import InputError
from tilewright.runtime.plan import ExecutionPlan
from tilewright.runtime.shape_program import ShapeProgram
from tilewright.runtime.signature import TensorSpec

INPUTS = [{"name": "x", "shape": ["H", "W"], "dtype": "float32"}, {"name": "y", "shape": ["H * 2"], "dtype": "float32"}]
EXPRESSIONS: list[Any] = [
    ["//", ["+", "H", 15], 16], ["%", "W", 7], ["min", "H", ["*", "W", 3]], ["max", ["-", "H", 40], 0],
    ["select", ["<", "H", "W"], ["*", "H", "W"], 5], ["select", ["and", ["<=", "H", 9], ["==", "W", 3]], 1, "W"], 12,
]  # fmt: skip


def manifest(buffers: list[tuple[Any, int, int]]) -> ExecutionPlan:
    return ExecutionPlan.from_json(
        {
            "entry": "main",
            "inputs": INPUTS,
            "outputs": [
                {"name": "a", "shape": ["H", "W - 3"], "dtype": "float32"},
                {"name": "b", "shape": [], "dtype": "float32"},
            ],
            "dynamic": {
                "dims": [{"name": "H", "input": 0, "axis": 0}, {"name": "W", "input": 0, "axis": 1}],
                "checks": [{"input": 1, "axis": 0, "value": ["*", "H", 2]}],
                "equal": [{"a": ["%", "H", 2], "b": 0, "where": "the sum"}],
                "buffers": [{"bytes": size, "first": first, "last": last} for size, first, last in buffers],
                "values": EXPRESSIONS,
                "workspace_bytes": [64, ["*", "H", 4]],
                "worker_workspace_bytes": [0, ["*", "W", 12]],
                "output_shapes": [["H", ["-", "W", 3]], []],
                "elements": [["*", "H", "W"], ["*", "H", "H"]],
            },
        }
    )


def compiled(plan: SizePlan) -> Any:
    """The plan as a function of dims and the array to fill; the code it returns."""
    module = build(plan.function)
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)(module._linked.find(plan.function.name))

    def call(dims: list[int], filled: np.ndarray) -> int:
        given = np.array(dims, np.int64)
        return int(entry(given.ctypes.data, filled.ctypes.data, None))

    call.module = module  # type: ignore[attr-defined] - the code must stay
    return call


def arrays(height: int, width: int) -> list[Any]:
    return [np.broadcast_to(np.float32(0), shape) for shape in ((height, width), (2 * height,))]


sizes = st.sampled_from([["*", "H", 256], ["*", "W", 64], ["*", ["*", "H", "W"], 4], 1000, ["-", "H", 30]])
steps = st.integers(0, 9)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(sizes, steps, steps), max_size=14), st.randoms())
def test_it_is_what_the_run_time_computes(drawn: list[tuple[Any, int, int]], random: Any) -> None:
    buffers = [(size, min(a, b), max(a, b)) for size, a, b in drawn]
    made = manifest(buffers)
    plan = compiled(size_plan(made, range(len(buffers))))
    program = ShapeProgram(made.dynamic, [TensorSpec.from_json(entry) for entry in INPUTS])
    table_entries = 2 + len(buffers) + 2 + len(EXPRESSIONS)
    for _ in range(4):
        height, width = 2 * random.randint(0, 50), random.randint(0, 60)
        wanted = program.plan(arrays(height, width))
        found = np.full(table_entries + 3, -1, np.int64)
        assert plan([height, width], found) == 0
        assert tuple(found[2 + len(buffers) + 1 : table_entries]) == wanted.table[2 + len(buffers) + 1 :]
        assert tuple(found[table_entries + 1 :]) == wanted.outputs[0]
        check_positions(buffers, height, width, found[2 : 2 + len(buffers)], found[2 + len(buffers)])
        shared = found[table_entries] - found[2 + len(buffers)]
        assert shared == max(64, -(-4 * height // 64) * 64)


def check_positions(buffers: list[tuple[Any, int, int]], height: int, width: int, positions: Any, arena: int) -> None:
    """Buffers that live at the same time lie apart, within the arena, on multiples of 64 bytes."""
    values = {"H": height, "W": width}

    def size_of(size: Any) -> int:
        if not isinstance(size, list):
            return values.get(size, size)
        a, b = size_of(size[1]), size_of(size[2])
        return a * b if size[0] == "*" else a - b

    spans = [
        (position, position + max(1, size_of(size)), first, last)
        for position, (size, first, last) in zip(positions, buffers)
    ]
    for index, (start, end, first, last) in enumerate(spans):
        assert start % 64 == 0 and start >= 0 and end <= arena
        for other_start, other_end, other_first, other_last in spans[:index]:
            assert end <= other_start or other_end <= start or last < other_first or other_last < first


def test_positions_in_the_order_of_sizes_are_those_of_the_run_time() -> None:
    buffers = [(["*", "H", 256], 0, 2), (["*", "H", 64], 1, 4), (["*", "H", 512], 3, 5), (["*", "H", 128], 2, 3)]
    made = manifest(buffers)  # type: ignore[arg-type]
    plan = compiled(size_plan(made, [2, 0, 3, 1]))
    wanted = ShapeProgram(made.dynamic, [TensorSpec.from_json(entry) for entry in INPUTS]).plan(arrays(4, 6))
    found = np.zeros(len(wanted.table) + 3, np.int64)
    assert plan([4, 6], found) == 0
    assert tuple(found[: len(wanted.table)]) == wanted.table and found[len(wanted.table)] == wanted.arena_bytes


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ([-2, 3], "H must be from 0 to 2147483646"),
        ([2, 2**31], "W must be from 0 to 2147483646"),
        ([3, 3], "H % 2 and 0 must be equal: the sum needs it"),
        ([2**16, 2**16], "input x has more than 2147483647 elements"),
        ([2**31 - 2, 1], "input y has more than 2147483647 elements"),
        ([2**16, 8], "they need a tensor of more than 2147483647 elements"),
    ],
)
def test_sizes_out_of_range_return_the_code_of_their_message(dims: list[int], message: str) -> None:
    planned = size_plan(manifest([(["*", ["*", "H", "H"], 4], 0, 1)]), [0])
    code = compiled(planned)(dims, np.zeros(40, np.int64))
    assert planned.messages[code - 1] == message


def test_the_same_check_at_run_time() -> None:
    with pytest.raises(InputError, match="sizes H = 65536, W = 0 need a tensor of 4294967296 elements"):
        ShapeProgram(manifest([]).dynamic, [TensorSpec.from_json(e) for e in INPUTS]).plan(arrays(2**16, 0))
    with pytest.raises(InputError, match="H % 2 = 1 and 0 must be equal: the sum needs it"):
        ShapeProgram(manifest([]).dynamic, [TensorSpec.from_json(e) for e in INPUTS]).plan(arrays(3, 3))
