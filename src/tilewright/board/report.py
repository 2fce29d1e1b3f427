"""ROM, RAM and stack of models in C source by layer: from the memory plan, and from a compiler where one is there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tilewright.board.boards import BOARDS, FLAGS
from tilewright.board.image import Sizes, compiled_sizes
from tilewright.driver.build_source import Exported, SourceModel
from tilewright.relay.ir.expr import Call
from tilewright.relay.transform.memory.plan_memory import ArenaBuffer, MemoryPlan, Where
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
            f"{'RAM':>9} {'constants':>9} {'code':>9} {'stack':>7}  layer (buffers alive, by the layer that made each)"
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
    steps = memory.steps
    seen: set[int] = set()
    rows = []
    for row, call in enumerate(memory.order):
        arguments = memory.arguments(call)
        constants = {int(one.position): int(one.nbytes) for one in arguments if one.where is Where.CONSTANT}
        added = sum(nbytes for position, nbytes in constants.items() if position not in seen)
        seen |= constants.keys()
        kernel = model.manifest.kernels[row]
        code, stack = (table.get(kernel.name, 0) for table in (_functions(sizes), _stack(sizes)))
        living = [piece for piece in memory.pieces if piece[1].first <= steps[row] <= piece[1].last]
        held = ", ".join(_held(position, piece, row, steps, memory.scratch) for position, piece in living)
        rows.append(
            f"{_covered(living):9,} {added:9,} {code:9,} {stack:7,}  "
            f"{row} {kernel.source_text[:60] or kernel.name} ({held})"
        )
    return rows


def _held(position: int, piece: ArenaBuffer, row: int, steps: Sequence[int], scratch: Mapping[Call, int] | None) -> str:
    """A buffer in words: the layer that made it, or that it is scratch memory of, its bytes, and where it begins."""
    alone = piece.first == piece.last == steps[row] and scratch is not None and position in scratch.values()
    maker = "scratch" if alone else str(steps.index(piece.first)) if piece.first in steps else "?"
    return f"{maker}: {piece.nbytes:,} at {position:,}"


def _covered(living: Sequence[tuple[int, ArenaBuffer]]) -> int:
    """The bytes that buffers take, those that several share counted once."""
    total = end = 0
    for position, piece in sorted(living, key=lambda one: one[0]):
        first, last = max(position, end), position + int(piece.nbytes)
        total += max(0, last - first)
        end = max(end, last)
    return total


def _functions(sizes: Sizes | None) -> Mapping[str, int]:
    return sizes.functions if sizes else {}


def _stack(sizes: Sizes | None) -> Mapping[str, int]:
    return sizes.stack if sizes else {}


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
