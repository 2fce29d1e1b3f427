"""Each kernel of networks as the vendor's assembler makes it: registers, spills, shared memory, matrix instructions.

    python bench/gpu_code.py MODEL.onnx … [--dtypes float32,float16,int8] [--archs sm_80,sm_90a,sm_100a] [--quiet]
                             [--json FILE] [--cache FILE] [--folder FOLDER]

Needs no GPU: NVRTC compiles the text, cuobjdump and nvdisasm read the cubin (the packages nvidia-cuda-nvrtc,
nvidia-cuda-cuobjdump, nvidia-cuda-nvdisasm). Each distinct kernel is compiled with its default schedule, once for all
networks. The exit status is 1 where a kernel breaks one of the rules: no spills; matrix instructions in every 16- or
8-bit product and convolution of at least 16 channels, and LDGSTS there; a quarter of the threads that a multiprocessor
holds. int8 is the network in QDQ form by onnxruntime's quantizer, calibrated on random inputs; its products whose
operands have 32 bits, as the quantizer or the compiler left them, are counted. At the end there is a row of Markdown
for each network and type, over all architectures.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from quantized import quantized

from tilewright.backend import backend_of
from tilewright.backend.gpu.schedule.machine import GpuMachine, machine_of
from tilewright.backend.kernels import Task
from tilewright.backend.lower import lower_task
from tilewright.codegen.build_device import device_programs, emit_programs
from tilewright.driver.build import extract_tasks, memory_plan
from tilewright.driver.optimize import optimize
from tilewright.frontend.formats.import_model import import_model
from tilewright.relay.ir.expr import Call
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.structural import structural_hash
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.quantize.to_mixed_precision import to_mixed_precision
from tilewright.relay.transform.simplify.expand_calls import expand_calls
from tilewright.runtime.gpu.nvrtc import compile_cubin
from tilewright.runtime.gpu.occupancy import resident_share
from tilewright.target import Target

#: Channels, rows and terms from which on a product belongs on tensor cores, and the least share of threads.
CHANNELS, OCCUPANCY = 16, 0.25
PRODUCTS = ("nn.dense", "nn.batch_matmul", "nn.conv2d", "nn.attention")
COUNTED = {
    "mma": r"\b(?:HMMA|HGMMA|IMMA|IGMMA)\b", "wgmma": r"\b(?:HGMMA|IGMMA)\b", "ldgsts": r"\bLDGSTS\b",
    "spilled": r"\b(?:STL|LDL)\b",
}  # fmt: skip
#: Tasks whose texts are compiled together, so that headers are read once.
TOGETHER = 8


@dataclass
class Kernel:
    """One launch of a task, as compiled for one architecture.

    `wanted` where tensor cores belong in it, `small` where all its blocks have too few threads for the rule.
    """

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
    wgmma: int
    ldgsts: int
    spilled: int
    expected: int
    wanted: bool
    small: bool
    rules: list[str]


def main() -> int:
    """Compile, print, judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--dtypes", default="float32,float16")
    parser.add_argument("--archs", default="sm_80,sm_90a,sm_100a")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--cache", type=Path, help="a file that keeps what was found of a text")
    parser.add_argument("--folder", type=Path, help="where networks of bytes are kept")
    parser.add_argument("--quiet", action="store_true", help="print totals and kernels that break a rule only")
    options = parser.parse_args()
    assembler, broken, found, rows = Assembler(options.cache), 0, [], []
    for path in options.models:
        for dtype in options.dtypes.split(","):
            mod, all_kernels = imported(path, dtype, options.folder), list[Kernel]()
            for arch in options.archs.split(","):
                tasks, total, wide = tasks_of(mod, Target(f"cuda -arch={arch}"))
                kernels = list(assembler.kernels(tasks, arch, dtype))
                report(f"{path.stem} {dtype} {arch}", kernels, total, wide if dtype == "int8" else 0, options.quiet)
                found.append({"model": path.stem, "dtype": dtype, "arch": arch, "calls": total, "wide": wide,
                              "kernels": [asdict(kernel) for kernel in kernels]})  # fmt: skip
                all_kernels += kernels
            broken += sum(bool(kernel.rules) for kernel in all_kernels)
            rows.append(row(path.stem, dtype, all_kernels, len(options.archs.split(","))))
            if options.json:
                options.json.write_text(json.dumps(found, indent=1))
    print(f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|", *rows, sep="\n")
    return 1 if broken else 0


def imported(path: Path, dtype: str, folder: Path | None) -> IRModule:
    """A network in a type; of bytes it is kept in `folder`."""
    with tempfile.TemporaryDirectory() as made:
        mod = expand_calls(import_model(quantized(path, folder or Path(made)) if dtype == "int8" else path, None))
    return to_mixed_precision(mod) if dtype == "float16" else mod


def tasks_of(mod: IRModule, target: Target) -> tuple[list[tuple[Task, int]], int, int]:
    """The distinct kernels with how often each is called, the number of calls, and of those that multiply 32 bits."""
    backend = backend_of(target)
    planned = memory_plan(optimize(mod, target), backend)
    tasks, numbers = extract_tasks(planned.order)
    counts = Counter(numbers.values())
    wide = sum(counts[task.name] for task in tasks if multiplies_wide(task))
    return [(task, counts[task.name]) for task in tasks], len(numbers), wide


@dataclass
class Text:
    """A lowered task: the text of its kernels, its launches and the choice of its schedule."""

    task: Task
    source: str
    launches: list[dict[str, Any]]
    choice: Any
    func: Any


class Assembler:
    """Assembled kernels and their statistics, found once for each text and architecture."""

    def __init__(self, cache: Path | None) -> None:
        self.cache = cache
        self.found: dict[str, list[dict[str, int]]] = {}
        if cache is not None and cache.exists():
            self.found = json.loads(cache.read_text())
        self.lowered: dict[tuple[str, str], Text] = {}

    def kernels(self, tasks: Sequence[tuple[Task, int]], arch: str, dtype: str) -> Iterator[Kernel]:
        """The kernels of the tasks of a network, with what the assembler says of them."""
        target = Target(f"cuda -arch={arch}")
        texts = [self._text(task, target) for task, _ in tasks]
        missing = {self._key(text, arch): text for text in texts if self._key(text, arch) not in self.found}
        keys = list(missing)
        for first in range(0, len(keys), TOGETHER):
            self._assemble({key: missing[key] for key in keys[first : first + TOGETHER]}, target)
        for (task, count), text in zip(tasks, texts, strict=True):
            wanted = dtype != "float32" and wants_tensor_cores(task)
            yield from judged(text, count, self.found[self._key(text, arch)], wanted, machine_of(target))

    def _text(self, task: Task, target: Any) -> Text:
        key = structural_hash(task.function), str(target)
        if key not in self.lowered:
            func = lower_task(task.function, f"k{len(self.lowered)}_{task.name}", backend_of(target))
            source, infos = emit_programs(device_programs([func], target), target)
            launches = [launch for info in infos for launch in info.launches]
            self.lowered[key] = Text(Task(func.name, task.function), source, launches, func.attrs["choice"], func)
        return self.lowered[key]

    def _key(self, text: Text, arch: str) -> str:
        plain = text.source.replace(text.task.name, "kernel")
        return hashlib.sha256(f"{arch}\n{plain}".encode()).hexdigest()

    def _assemble(self, texts: dict[str, Text], target: Any) -> None:
        source, _ = emit_programs(device_programs([text.func for text in texts.values()], target), target)
        usage, code = _tools(compile_cubin(source, target.arch))
        for key, text in texts.items():
            names = [launch["kernel"] for launch in text.launches]
            self.found[key] = [
                {**usage[name], **{what: len(re.findall(of, code.get(name, ""))) for what, of in COUNTED.items()}}
                for name in names
            ]
        if self.cache is not None:
            self.cache.write_text(json.dumps(self.found))


def judged(
    text: Text, count: int, found: Sequence[dict[str, int]], wanted: bool, machine: GpuMachine
) -> Sequence[Kernel]:
    """The launches of a task, with the rules that they break."""
    made = []
    for launch, figures in zip(text.launches, found, strict=True):
        threads = int(np.prod(launch["block"]))
        shared = figures["SHARED"] + int(launch.get("shared_bytes") or 0)
        made.append(Kernel(
            launch["kernel"], text.choice.template, count, threads, "x".join(str(n) for n in launch["grid"]),
            figures["REG"], figures["STACK"], shared, occupancy(threads, figures["REG"], shared, machine),
            **{what: figures[what] for what in COUNTED}, expected=round(text.choice.microseconds), wanted=False,
            small=_small(threads, launch["grid"], machine), rules=[],
        ))  # fmt: skip
    main = max(made, key=lambda kernel: kernel.mma)
    main.wanted = wanted
    for kernel in made:
        if kernel.spilled or kernel.stack:
            kernel.rules.append("spills")
        if kernel.occupancy < OCCUPANCY and not kernel.small:
            kernel.rules.append("occupancy")
        if kernel.wanted and not kernel.mma:
            kernel.rules.append("no tensor cores")
        if kernel.wanted and not kernel.ldgsts:
            kernel.rules.append("no LDGSTS")
    return made


def _small(threads: int, grid: Sequence[Any], machine: GpuMachine) -> bool:
    """True if all threads there are do not fill the share of one multiprocessor."""
    return all(isinstance(n, int) for n in grid) and threads * math.prod(grid) <= OCCUPANCY * machine.threads


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


def multiplies_wide(task: Task) -> bool:
    """True for a product or convolution all of whose operands have 32 bits in memory, with channels and rows enough."""
    for call in calls(task.function.body):
        name = getattr(call.op, "name", "")
        if name not in PRODUCTS[:3] or _grouped(call):
            continue
        wide = all(param.checked_type.dtype.itemsize >= 4 for param in task.function.params)
        if wide and min(_channels(name, call, [arg.checked_type.shape for arg in call.args[:2]])) >= CHANNELS:
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
    return resident_share(
        threads, registers, shared + machine.shared_reserved, warp=machine.warp, of_registers=machine.registers,
        of_threads=machine.threads, blocks=machine.blocks, of_shared=machine.shared_per_multiprocessor,
    )  # fmt: skip


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


def report(title: str, kernels: list[Kernel], total: int, wide: int, quiet: bool) -> None:
    """The table of a network."""
    print(f"{title}: {total} calls, {sum(k.calls for k in kernels)} launches, {len(kernels)} distinct kernels, "
          f"{wide} products of 32 bits left, {sum(bool(k.rules) for k in kernels)} break a rule")  # fmt: skip
    for k in kernels:
        if quiet and not k.rules:
            continue
        print(f"  {k.name[:64]:64} {k.template:12} x{k.calls:<3} {k.threads:5} thr grid {k.grid:14} "
              f"{k.registers:4} reg {k.stack:4} stk {k.shared:7} shm {k.occupancy:5.0%} {k.mma:4} mma {k.ldgsts:4} cp "
              f"{k.expected:6} us {', '.join(k.rules)}", flush=True)  # fmt: skip


COLUMNS = ("network", "type", "kernels", "launches", "spills", "on tensor cores", "of them wgmma", "with LDGSTS",
           "registers", "least occupancy")  # fmt: skip


def row(name: str, dtype: str, kernels: Sequence[Kernel], archs: int) -> str:
    """A row of Markdown: numbers of kernels are sums over the architectures."""
    wanted = [k for k in kernels if k.wanted]
    cells = (
        name, dtype, len(kernels), round(sum(k.calls for k in kernels) / archs),
        sum("spills" in k.rules for k in kernels), f"{sum(bool(k.mma) for k in wanted)} of {len(wanted)}",
        sum(bool(k.wgmma) for k in wanted), f"{sum(bool(k.ldgsts) for k in wanted)} of {len(wanted)}",
        max(k.registers for k in kernels), f"{min(k.occupancy for k in kernels if not k.small):.0%}",
    )  # fmt: skip
    return f"| {' | '.join(str(cell) for cell in cells)} |"


if __name__ == "__main__":
    sys.exit(main())
