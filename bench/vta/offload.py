"""Gain of offloading: the time of each layer of a network on a modelled processor alone, and beside VTA.

    python bench/vta/offload.py MODEL [--target vta] [--processor-mhz 667] [--macs-per-cycle 1] [--vta-mhz 100]

VTA's time is that of the cycle simulator. The processor is a model: so many multiplications and so many operations on
elements a cycle, of as many as the accelerator does for the layer; by default a small ARM core without dot products,
as beside the accelerator on the boards that it was built for. Bringing images into tiles counts as the processor's.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.backend.vta.integers import is_quantized
from tilewright.backend.vta.offload import programs
from tilewright.frontend.formats.import_model import import_model
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.quantize.quantize_to_shifts import quantize_to_shifts
from tilewright.target import Target, VtaTarget
from tilewright.vta import Instruction, Session, unpack
from tilewright.vta.config import Config
from tilewright.vta.network.network import Compiled


@dataclass(frozen=True)
class Layer:
    """A layer: multiplications, operations on single elements, and the accelerator's cycles."""

    name: str
    macs: int
    elements: int
    cycles: int


@dataclass(frozen=True)
class Processor:
    """The modelled processor."""

    mhz: float
    macs_per_cycle: float
    elements_per_cycle: float

    def milliseconds(self, macs: int, elements: int) -> float:
        """The time of so much work."""
        return (macs / self.macs_per_cycle + elements / self.elements_per_cycle) / self.mhz / 1e3


def layers_of(compiled: Compiled) -> tuple[list[Layer], int]:
    """The layers of a program with their cycles, in all those of the program, and the elements of its operands."""
    session = Session(compiled.plan, compiled.image, "cycle")
    inputs = compiled.plan["inputs"]
    operands = [np.zeros(1, np.int8)] * (1 + max(known["operand"] for known in inputs))
    for known in inputs:
        operands[known["operand"]] = np.zeros(known["source"], np.int8)
    session.run(operands)
    usage = session.driver.usage  # type: ignore[attr-defined]
    ends = np.zeros(compiled.plan["program"][1], np.int64)
    for part in usage.slices:
        first = part.name.split()[0]
        if first.isdigit() and part.track != "fetch":
            ends[int(first)] = max(ends[int(first)], part.end)
    address, count = compiled.plan["program"]
    start = address - compiled.plan["base"]
    program = unpack(session.isa, compiled.image[start : start + count * session.isa.instruction_bits // 8].tobytes())
    found, before = [], 0
    for number, layer in enumerate(compiled.plan["layers"]):
        last = layer["first"] + layer["count"]
        end = usage.cycles if number == len(compiled.plan["layers"]) - 1 else int(ends[:last].max())
        gemm, alu = _steps(program[layer["first"] : last])
        config = session.config
        found.append(Layer(layer["name"], gemm * config.macs_per_cycle, alu * _tile(config), end - before))
        before = end
    return found, sum(int(np.prod(known["shape"])) for known in inputs)


def _tile(config: Config) -> int:
    return config.batch * config.block


def _steps(program: Sequence[Instruction]) -> tuple[int, int]:
    """Steps of GEMM, but for those that set zeros, and of ALU."""
    steps = {"GEMM": 0, "ALU": 0}
    for x in program:
        if x.name in steps and not (x.name == "GEMM" and x["reset"]):
            steps[x.name] += (x["uop_end"] - x["uop_begin"]) * x["iter_out"] * x["iter_in"]
    return steps["GEMM"], steps["ALU"]


def report(model: Any, target: VtaTarget, processor: Processor, vta_mhz: float) -> list[str]:
    """A table, a line a layer."""
    mod = import_model(model, None)
    if not is_quantized(mod):
        mod = quantize_to_shifts(mod, run=lambda f, x: tw.compile(IRModule.from_expr(f), cache=False).run(x))
    found = [layers_of(compiled) for _, compiled in programs(mod, target, interpret)]
    lines = ["| layer | million multiplications | processor alone, ms | VTA, ms | times |", "|---|---|---|---|---|"]
    alone = offloaded = 0.0
    for layer in (layer for layers, _ in found for layer in layers):
        before = processor.milliseconds(layer.macs, layer.elements)
        after = layer.cycles / vta_mhz / 1e3
        alone, offloaded = alone + before, offloaded + after
        row = f"{layer.macs / 1e6:.1f} | {before:.2f} | {after:.3f} | {before / after:.0f}"
        lines.append(f"| {layer.name} | {row} |")
    host = processor.milliseconds(0, sum(elements for _, elements in found))
    lines.append(f"| images into tiles, by the processor | | | {host:.3f} | |")
    lines.append(f"| all | | {alone:.1f} | {offloaded + host:.1f} | {alone / (offloaded + host):.0f} |")
    return lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--target", default="vta")
    parser.add_argument("--processor-mhz", type=float, default=667)
    parser.add_argument("--macs-per-cycle", type=float, default=1)
    parser.add_argument("--elements-per-cycle", type=float, default=1)
    parser.add_argument("--vta-mhz", type=float, default=100)
    given = parser.parse_args()
    target = Target(given.target)
    assert isinstance(target, VtaTarget), "a target of the kind vta"
    processor = Processor(given.processor_mhz, given.macs_per_cycle, given.elements_per_cycle)
    print("\n".join(report(given.model, target, processor, given.vta_mhz)))


if __name__ == "__main__":
    main()
