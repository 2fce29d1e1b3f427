"""VTA beside an RV32 on the board virt+vta: runs one after the other, and overlapped.

    python bench/vta/beside.py MODEL [--runs 8] [--bytes] [--svg FILE]

A float model is quantized to scales that are powers of two; with --bytes its input and output are the bytes behind the
quantization, so that the processor computes no floats. Both results are compared with this process, bit for bit. Times
are those of the simulation (docs/vta.md): a cycle an instruction, VTA's cycles, both at 100 MHz.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.backend.vta.integers import is_quantized
from tilewright.board import BoardModel, BoardProgram, board_named
from tilewright.board.timeline import Timeline
from tilewright.compile import export_source
from tilewright.frontend.formats.import_model import import_model
from tilewright.relay.ir.expr import Call, Function, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.visitor import post_order, substitute
from tilewright.relay.transform.quantize.quantize_to_shifts import quantize_to_shifts
from tilewright.target import Target


def between_bytes(mod: IRModule) -> IRModule:
    """The module from the bytes that its input becomes to those that its output is made of."""
    main = infer_type(mod)["main"]
    first = next(node for node in post_order(main.body) if isinstance(node, Call) and _is_bytes(node))
    data = Var(main.params[0].name, TensorType(first.checked_type.shape, "int8"))
    last = [node for node in post_order(main.body) if isinstance(node, Call) and _is_bytes(node)][-1]
    return infer_type(IRModule.from_expr(Function([data], substitute(last, {first: data}))))


def _is_bytes(node: Call) -> bool:
    return isinstance(node.checked_type, TensorType) and str(node.checked_type.dtype) == "int8"


def on_board(mod: IRModule, runs: int, inputs: list[Any]) -> tuple[Timeline, list[Any], str]:
    """The timeline of a call on the board, its results, and its figures."""
    target, board = Target(f"vta -host=riscv32-imac -runs={runs}"), board_named("virt+vta")
    with tempfile.TemporaryDirectory() as folder:
        files = export_source(mod, Path(folder) / "model.c", target=target, freestanding=True)
        model = BoardModel(BoardProgram.of(files, target), board, board.cpu, str(target), "")
    results = model.run({spec.name: array for spec, array in zip(model.inputs, inputs, strict=True)})
    assert model.last is not None and model.last.timeline is not None
    return model.last.timeline, results, model.note


def main() -> None:
    """Print both timelines and their quotient."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--bytes", action="store_true")
    parser.add_argument("--svg")
    given = parser.parse_args()
    mod = import_model(given.model, None)
    if not is_quantized(mod):
        mod = quantize_to_shifts(mod, run=lambda f, x: tw.compile(IRModule.from_expr(f), cache=False).run(x))
    mod = infer_type(between_bytes(mod) if given.bytes else mod)
    type_, rng = mod["main"].params[0].checked_type, np.random.default_rng(0)
    images = [
        np.clip(rng.standard_normal(type_.shape) * 60, -128, 127).astype(type_.dtype.numpy) for _ in range(given.runs)
    ]
    here = tw.compile(mod, cache=False)
    expected = [np.asarray(here(image)) for image in images]
    one, found, note = on_board(mod, 1, images[:1])
    print(f"one run: {note}\n{one.text()}")
    together, results, note = on_board(mod, given.runs, images)
    print(f"{given.runs} runs in one call: {note}\n{together.text()}")
    equal = all(np.array_equal(a, b) for a, b in zip([*found, *results], [expected[0], *expected]))
    quotient = given.runs * one.seconds / together.seconds
    print(f"results are {'equal' if equal else 'DIFFERENT'}; one after the other takes {quotient:.2f} times as long")
    if given.svg:
        Path(given.svg).write_text(together.svg())


if __name__ == "__main__":
    main()
