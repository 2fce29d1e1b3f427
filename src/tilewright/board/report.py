"""ROM, RAM and stack of models in C source by layer: from the memory plan, and from a compiler where one is there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tilewright.board.boards import BOARDS, FLAGS
from tilewright.board.image import Sizes, compiled_sizes
from tilewright.driver.build_source import Exported, SourceModel
from tilewright.errors import EnvironmentError_, UnsupportedError
from tilewright.relay.transform.memory.plan_memory import MemoryPlan, Where
from tilewright.target import Target


def memory_report(written: Exported, target: str | None) -> list[str]:
    """A table for each model: the bytes of each layer, and the tensors that are alive while it runs."""
    sizes = model_sizes(written, target)
    tables = []
    for model, memory in zip(written.models, written.memories, strict=False):
        interface = model.c_model.interface
        if interface.is_symbolic:
            continue
        lines = [f"{model.name}: workspace {interface.workspace_size:,} bytes{_totals(sizes)}"]
        lines.append(
            f"{'RAM':>9} {'constants':>9} {'code':>9} {'stack':>7}  layer (tensors alive, by the layer that made each)"
        )
        lines += _rows(model, memory, sizes)
        tables.append("\n".join(lines))
    return tables


def _totals(sizes: Sizes | None) -> str:
    if sizes is None:
        return " (code and stack are counted where a C compiler is)"
    deepest = max(sizes.stack.values(), default=0)
    return f", code {sizes.code:,}, constants {sizes.constants:,}, stack of the largest function {deepest:,}"


def _rows(model: SourceModel, memory: MemoryPlan, sizes: Sizes | None) -> list[str]:
    """A line for each kernel call."""
    alive = _lifetimes(memory)
    seen: set[int] = set()
    rows = []
    for step, call in enumerate(memory.order):
        arguments = memory.arguments(call)
        constants = {int(one.position): int(one.nbytes) for one in arguments if one.where is Where.CONSTANT}
        added = sum(nbytes for position, nbytes in constants.items() if position not in seen)
        seen |= constants.keys()
        living = [(first, nbytes) for first, end, nbytes in alive if first <= step <= end]
        kernel = model.manifest.kernels[step]
        code, stack = (table.get(kernel.name, 0) for table in (_functions(sizes), _stack(sizes)))
        held = ", ".join(f"{first}: {nbytes:,}" for first, nbytes in living)
        rows.append(
            f"{sum(nbytes for _, nbytes in living):9,} {added:9,} {code:9,} {stack:7,}  "
            f"{step} {kernel.source_text[:60] or kernel.name} ({held})"
        )
    return rows


def _functions(sizes: Sizes | None) -> Mapping[str, int]:
    return sizes.functions if sizes else {}


def _stack(sizes: Sizes | None) -> Mapping[str, int]:
    return sizes.stack if sizes else {}


def _lifetimes(memory: MemoryPlan) -> list[tuple[int, int, int]]:
    """Of each tensor in the arena the first and the last step that touch it, and its bytes."""
    found: dict[tuple[int, int], tuple[int, int, int]] = {}
    made: dict[int, int] = {}  # by position: the step that wrote there last
    for step, call in enumerate(memory.order):
        for storage in memory.arguments(call):
            if storage.where is not Where.ARENA:
                continue
            position = int(storage.position)
            if storage in memory.storage[call]:
                made[position] = step
            first = made.setdefault(position, step)
            _, _, nbytes = found.get((first, position), (0, 0, 0))
            found[first, position] = (first, step, max(nbytes, int(storage.nbytes)))
    return list(found.values())


def model_sizes(written: Exported, target: str | None) -> Sizes | None:
    """The sizes of the compiled source, by the compiler of the target's processor or this machine's; None without."""
    cpu = getattr(Target(target or "c"), "cpu", "")
    board = next((one for one in BOARDS.values() if one.cpu.startswith(cpu[:6])), None) if cpu in FLAGS else None
    compiler, flags = (f"{board.prefix}gcc", FLAGS[cpu]) if board else ("gcc", ())
    if shutil.which(compiler) is None or len(written) > 2:
        return None
    name = written[1].stem
    with tempfile.TemporaryDirectory(prefix="tilewright-sizes-") as folder:
        work = Path(folder)
        (work / f"{name}.h").write_text(written[1].read_text())
        (work / "model.c").write_text(written[0].read_text())
        workspace = max(model.c_model.interface.workspace_size for model in written.models)
        return compiled_sizes(work, compiler.removesuffix("gcc"), flags, workspace)


def require_limits(written: Exported, ram: int | None, rom: int | None, target: str | None) -> None:
    """Raise `UnsupportedError`, with the figures, where models need more than `ram` or `rom` bytes."""
    found = max((model.c_model.interface.workspace_size for model in written.models), default=0)
    if ram is not None and found > ram:
        largest = max((row for memory in written.memories for row in _layers(memory)), default=(0, 0))
        raise UnsupportedError(
            f"the workspace takes {found:,} bytes, and --ram-limit is {ram:,}: layer {largest[1]} alone has "
            f"{largest[0]:,} bytes alive; a smaller input or fewer channels there need less (--report has all layers)"
        )
    if rom is None:
        return
    sizes = model_sizes(written, target)
    if sizes is None:
        raise EnvironmentError_("--rom-limit needs a C compiler for the target, which counts the code")
    if sizes.rom > rom:
        raise UnsupportedError(
            f"code takes {sizes.code:,} bytes and constants {sizes.constants:,}, {sizes.rom:,} in all, and --rom-limit "
            f"is {rom:,}: take a target that keeps weights as bytes (c -mcpu=cortex-m4), or quantize the model"
        )


def _layers(memory: MemoryPlan) -> Sequence[tuple[int, int]]:
    """Bytes alive, and the number of the step."""
    alive = _lifetimes(memory)
    steps = range(len(memory.order))
    return [(sum(size for first, end, size in alive if first <= step <= end), step) for step in steps]
