"""The text of a compiled model's kernels: LLVM IR, or assembly of the target's processor."""

from __future__ import annotations

from tilewright.codegen.llvm import assembly, emit
from tilewright.driver.build import extract_tasks
from tilewright.driver.lower import lower_function
from tilewright.driver.optimize import optimize
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.memory.plan_memory import plan_memory
from tilewright.target import Target


def model_source(mod: IRModule, target: Target, fmt: str) -> str:
    """All kernels of `mod` compiled for `target`, in order, in the format "ll" (also "") or "asm" (also "s").

    Raises `UnsupportedError` for other formats.
    """
    if fmt not in ("", "ll", "asm", "s"):
        raise UnsupportedError(f"get_source({fmt!r}): the formats of a model are ll and asm")
    tasks, _ = extract_tasks(plan_memory(optimize(mod, target)).order)
    texts = [emit([lower_function(task.function, task.name, target)], target) for task in tasks]
    return "\n".join(assembly(text, target) if fmt in ("asm", "s") else text for text in texts)
