"""The kernels of a network as the vendor's assembler makes them: registers, spills, tensor cores, copies, occupancy.

    python bench/gpu_code.py MODEL.onnx [--dtypes float32,float16,int8] [--archs sm_80,sm_90a,sm_100a]
                             [--json FILE] [--quiet]

Needs no GPU, but NVRTC, cuobjdump and nvdisasm (`pip install nvidia-cuda-nvrtc nvidia-cuda-cuobjdump
nvidia-cuda-nvdisasm`). Each distinct kernel of the network is compiled with its default schedule. The exit status is 1
where a kernel breaks one of the rules: no spills; HMMA or IMMA in every 16- or 8-bit product and convolution of at
least 16 channels, and LDGSTS there; a quarter of the threads that a multiprocessor holds. int8 is the network in QDQ
form by onnxruntime's quantizer, calibrated on random inputs.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.backend import backend_of
from tilewright.backend.gpu.schedule.machine import GpuMachine, machine_of
from tilewright.backend.kernels import Task
from tilewright.backend.lower import lower_task
from tilewright.codegen.build_device import device_programs, emit_programs
from tilewright.driver.build import extract_tasks
from tilewright.driver.optimize import optimize
from tilewright.frontend.formats.import_model import import_model
from tilewright.relay.ir.expr import Call
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.memory.plan_memory import plan_memory
from tilewright.relay.transform.quantize.to_mixed_precision import to_mixed_precision
from tilewright.relay.transform.simplify.expand_calls import expand_calls
from tilewright.runtime.gpu.nvrtc import compile_cubin
from tilewright.target import Target

#: Channels, rows and terms from which on a product belongs on tensor cores, and the least share of threads.
CHANNELS, OCCUPANCY = 16, 0.25
PRODUCTS = ("nn.dense", "nn.batch_matmul", "nn.conv2d", "nn.attention")
COUNTED = {"mma": r"\b(?:HMMA|HGMMA|IMMA|IGMMA)\b", "ldgsts": r"\bLDGSTS\b", "spilled": r"\b(?:STL|LDL)\b"}


@dataclass
class Kernel:
    """One launch of a task, as compiled for one architecture."""

    name: str
    template: str
    calls: int
    threads: int
    grid: str
    registers: int
    stack: int
    shared: int
    occupancy: float
    mma: int
    ldgsts: int
    spilled: int
    expected: int
    rules: list[str]


def main() -> int:
    """Compile, print, judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--dtypes", default="float32,float16")
    parser.add_argument("--archs", default="sm_80,sm_90a,sm_100a")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quiet", action="store_true", help="print totals and kernels that break a rule only")
    options = parser.parse_args()
    broken, found = 0, []
    for dtype in options.dtypes.split(","):
        for arch in options.archs.split(","):
            target = Target(f"cuda -arch={arch}")
            tasks, total = tasks_of(options.model, dtype, target)
            kernels = [kernel for task, count in tasks for kernel in compiled(task, count, target, dtype)]
            report(f"{options.model.stem} {dtype} {arch}", kernels, total, options.quiet)
            broken += sum(bool(kernel.rules) for kernel in kernels)
            found.append({"dtype": dtype, "arch": arch, "kernels": [asdict(kernel) for kernel in kernels]})
    if options.json:
        options.json.write_text(json.dumps({"model": options.model.name, "found": found}, indent=1))
    return 1 if broken else 0


def tasks_of(path: Path, dtype: str, target: Target) -> tuple[list[tuple[Task, int]], int]:
    """The distinct kernels of a network with how often each is called, and the number of calls."""
    with tempfile.TemporaryDirectory() as folder:
        if dtype == "int8":
            path = quantized(path, Path(folder))
        mod = expand_calls(import_model(path, None))
    mod = optimize(to_mixed_precision(mod) if dtype == "float16" else mod, target)
    backend = backend_of(target)
    tasks, numbers = extract_tasks(plan_memory(mod, backend.alignment, backend.part_alignment).order)
    counts = Counter(numbers.values())
    return [(task, counts[task.name]) for task in tasks], len(numbers)


def quantized(path: Path, folder: Path) -> Path:
    """The network as QDQ with int8 activations and weights, calibrated on two random inputs."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    inputs = list(onnx.load(str(path)).graph.input)
    rng = np.random.default_rng(0)

    def values(info: Any) -> np.ndarray:
        shape = [d.dim_value or 1 for d in info.type.tensor_type.shape.dim]
        kind = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        return (rng.standard_normal(shape) if kind.kind == "f" else np.ones(shape)).astype(kind)

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        left = 2

        def get_next(self) -> dict[str, Any] | None:
            self.left -= 1
            return {info.name: values(info) for info in inputs} if self.left >= 0 else None

    made = folder / path.name
    quantize_static(str(path), str(made), Reader(), quant_format=QuantFormat.QDQ, activation_type=QuantType.QInt8,
                    weight_type=QuantType.QInt8, per_channel=True)  # fmt: skip
    return made


def compiled(task: Task, count: int, target: Any, dtype: str) -> list[Kernel]:
    """The kernels of a task, with what the assembler says of them."""
    func = lower_task(task.function, task.name, backend_of(target))
    source, infos = emit_programs(device_programs([func], target), target)
    cubin = compile_cubin(source, target.arch)
    usage, text = _tools(cubin)
    launches = [launch for info in infos for launch in info.launches]
    wanted = dtype != "float32" and wants_tensor_cores(task)
    made = []
    for launch in launches:
        name, threads = launch["kernel"], int(np.prod(launch["block"]))
        figures, code = usage[name], text.get(name, "")
        counts = {key: len(re.findall(pattern, code)) for key, pattern in COUNTED.items()}
        shared = figures["SHARED"] + int(launch.get("shared_bytes") or 0)
        share = occupancy(threads, figures["REG"], shared, machine_of(target))
        choice = func.attrs["choice"]
        kernel = Kernel(
            name, choice.template, count, threads, "x".join(str(n) for n in launch["grid"]), figures["REG"],
            figures["STACK"], shared, share, **counts, expected=round(choice.microseconds), rules=[],
        )  # fmt: skip
        made.append(kernel)
    main = max(made, key=lambda kernel: kernel.mma)
    for kernel in made:
        if kernel.spilled or kernel.stack:
            kernel.rules.append("spills")
        if kernel.occupancy < OCCUPANCY and kernel.threads >= 64:
            kernel.rules.append("occupancy")
        if wanted and kernel is main and not kernel.mma:
            kernel.rules.append("no tensor cores")
        if wanted and kernel is main and not kernel.ldgsts:
            kernel.rules.append("no LDGSTS")
    return made


def wants_tensor_cores(task: Task) -> bool:
    """True for a product or convolution of 16- or 8-bit operands with channels and rows enough."""
    for call in calls(task.function.body):
        name = getattr(call.op, "name", "")
        if name not in PRODUCTS or _grouped(call):
            continue
        kinds = [param.checked_type.dtype.itemsize for param in task.function.params]
        shapes = [arg.checked_type.shape for arg in call.args[:2]]
        small = name != "nn.attention" and min(_channels(name, call, shapes)) < CHANNELS
        if min(kinds) <= 2 and not small:
            return True
    return False


def _grouped(call: Call) -> bool:
    return bool(call.attrs.get("groups", 1) != 1)


def _channels(name: str, call: Call, shapes: list[tuple[int, ...]]) -> list[int]:
    """Rows, columns and terms of a product; filters and channels of a convolution."""
    result = call.checked_type
    assert isinstance(result, TensorType)
    if name == "nn.conv2d":
        layout, kernel = call.attrs["data_layout"], call.attrs["kernel_layout"]
        return [shapes[0][layout.index("C")], shapes[1][kernel.index("O")]]
    terms = shapes[0][-2] if call.attrs.get("transpose_a") else shapes[0][-1]
    sizes = [*result.shape[-2:], terms]
    return [size if isinstance(size, int) else 256 for size in sizes]


def occupancy(threads: int, registers: int, shared: int, machine: GpuMachine) -> float:
    """The share of a multiprocessor's threads that are resident: registers come for whole warps, eight at a time."""
    warps = -(-threads // machine.warp)
    of_part = machine.registers // 4 // (machine.warp * (-(-registers // 8) * 8))
    blocks = min(
        4 * of_part // warps, machine.threads // threads, machine.blocks,
        machine.shared_per_multiprocessor // (shared + machine.shared_reserved),
    )  # fmt: skip
    return blocks * threads / machine.threads


def _tools(cubin: bytes) -> tuple[dict[str, dict[str, int]], dict[str, str]]:
    """Resources by kernel, and the instructions of each."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        used = _run("cuobjdump", "-res-usage", file.name)
        listed = _run("nvdisasm", "-c", file.name)
    usage = {
        name: {key: int(value) for key, value in re.findall(r"(REG|STACK|SHARED|LOCAL):(\d+)", line)}
        for name, line in re.findall(r"Function (\S+):\s*\n\s*(REG:.*)", used)
    }
    parts = re.split(r"^\.text\.(\S+):$", listed, flags=re.MULTILINE)
    return usage, dict(zip(parts[1::2], parts[2::2], strict=True))


def _run(tool: str, *arguments: str) -> str:
    import nvidia

    found = shutil.which(tool)
    for folder in nvidia.__path__:
        found = found or next((str(path) for path in Path(folder).glob(f"**/bin/{tool}")), None)
    if found is None:
        sys.exit(f"{tool} is missing: pip install nvidia-cuda-{tool}")
    return subprocess.run([found, *arguments], capture_output=True, text=True, check=True).stdout


def report(title: str, kernels: list[Kernel], total: int, quiet: bool) -> None:
    """The table of a network."""
    print(f"{title}: {total} calls, {sum(k.calls for k in kernels)} launches, {len(kernels)} distinct kernels, "
          f"{sum(bool(k.rules) for k in kernels)} break a rule")  # fmt: skip
    for k in kernels:
        if quiet and not k.rules:
            continue
        print(f"  {k.name[:64]:64} {k.template:12} x{k.calls:<3} {k.threads:5} thr grid {k.grid:14} "
              f"{k.registers:4} reg {k.stack:4} stk {k.shared:7} shm {k.occupancy:5.0%} {k.mma:4} mma {k.ldgsts:4} cp "
              f"{k.expected:6} us {', '.join(k.rules)}")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
