"""Networks on VTA: equality with the bits of their integers on the CPU, and time of an inference.

python -m bench.vta resnet18.onnx mobilenet_v2.onnx [--target "vta -threads=1 -driver=cycle"]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.backend.vta.integers import is_quantized
from tilewright.backend.vta.offload import programs
from tilewright.frontend.formats.import_model import import_model
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.transform.quantize.quantize_to_shifts import quantize_to_shifts
from tilewright.target import Target, VtaTarget
from tilewright.vta import Session

_REPEAT = 3


def measure(path: str, target: VtaTarget) -> str:
    """A line of figures."""
    mod = import_model(path, None)
    integers = mod
    if not is_quantized(mod):
        integers = quantize_to_shifts(mod, run=lambda f, x: tw.compile(IRModule.from_expr(f), cache=False).run(x))
    rng = np.random.default_rng(1)
    inputs = {p.name: _random(rng, tensor_type_of(p)) for p in mod["main"].params}
    start = time.perf_counter()
    model = tw.compile(integers, target=target, cache=False)
    compiling = time.perf_counter() - start
    found = model.run(inputs)
    expected = tw.compile(integers, cache=False).run(inputs)
    equal = all(np.array_equal(a, b) for a, b in zip(found, expected))
    seconds = min(_seconds(lambda: model.run(inputs)) for _ in range(_REPEAT))
    counted = [_counters(compiled, target.driver) for _, compiled in programs(integers, target, interpret)]
    steps = sum(c["GEMM steps"] for c in counted)
    cycles = "".join(f", {sum(c['cycles'] for c in counted):,} cycles" for _ in counted[:1] if "cycles" in counted[0])
    return (
        f"{Path(path).stem:14} {'equal' if equal else 'DIFFERENT'}, {len(counted)} programs, {steps:,} steps of GEMM"
        f"{cycles}, compiled in {compiling:.1f} s, {seconds:.2f} s an inference"
    )


def _random(rng: np.random.Generator, type_: Any) -> np.ndarray:
    return rng.standard_normal(type_.shape).astype(type_.dtype.numpy)


def _seconds(call: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _counters(compiled: Any, driver: str) -> dict[str, int]:
    session = Session(compiled.plan, compiled.image, driver)
    inputs = compiled.plan["inputs"]
    operands = [np.zeros(1, np.int8)] * (1 + max(known["operand"] for known in inputs))
    for known in inputs:
        operands[known["operand"]] = np.zeros(known["source"], np.int8)
    session.run(operands)
    return dict(session.counters)


def main() -> None:
    """Measure each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--target", default="vta")
    options = parser.parse_args()
    target = Target(options.target)
    assert isinstance(target, VtaTarget), "a target of the kind vta"
    for path in options.models:
        print(measure(path, target), flush=True)


if __name__ == "__main__":
    main()
