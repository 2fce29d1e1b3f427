"""The text of a compiled model's kernels: a target's code, or assembly of its processor."""

from __future__ import annotations

from tilewright.backend import backend_of
from tilewright.backend.lower import lower_task
from tilewright.driver.build import extract_tasks, memory_plan
from tilewright.driver.optimize import optimize
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.module import IRModule
from tilewright.target import Target

#: The stage of the backend that a classic format names.
_STAGES = {"ll": "llvm", "asm": "asm", "s": "asm"}


def model_source(mod: IRModule, target: Target, fmt: str) -> str:
    """All kernels of `mod` compiled for `target`, in order, in the format "ll" (also "") or "asm" (also "s").

    Raises `UnsupportedError` for other formats.
    """
    backend = backend_of(target)
    stages = backend.code_stages()
    stage = _STAGES.get(fmt) if fmt else stages[0]
    if stage not in stages:
        raise UnsupportedError(f"get_source({fmt!r}): the formats of a model are ll and asm")
    tasks, _ = extract_tasks(memory_plan(optimize(mod, target), backend).order)
    return "\n".join(backend.code_text([lower_task(one.function, one.name, backend)], stage) for one in tasks)
