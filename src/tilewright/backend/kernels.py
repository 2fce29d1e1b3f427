"""The kernels of a model before and after a backend compiles them: tasks, and code with scratch memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.type import Dim
from tilewright.runtime.native import Kind
from tilewright.tir.expr import Expr, Var
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.run_regions import kind_of


@dataclass(frozen=True)
class Task:
    """One distinct fused function and the name of its kernel.

    `data` are the numbers of the tensors among its inputs that are no constants in some call.
    """

    name: str
    function: Function
    data: tuple[int, ...] = ()


@dataclass(frozen=True)
class Workspace:
    """Scratch memory of a kernel in bytes, shared and of each worker; symbolic in the kernel's scalar parameters.

    `kind` says how workers share the kernel.
    """

    shared: Dim = 0
    private: Dim = 0
    scalars: tuple[Var, ...] = ()
    kind: Kind = "shared"

    @staticmethod
    def of(func: PrimFunc) -> Workspace:
        """The scratch memory that `func` needs."""
        sizes = [func.attrs.get(key, 0) for key in ("workspace_bytes", "worker_workspace_bytes")]
        return Workspace(sizes[0], sizes[1], tuple(p for p in func.params if isinstance(p, Var)), kind_of(func))

    @property
    def is_needed(self) -> bool:
        """True if the kernel takes the two pointers."""
        return isinstance(self.shared, Expr) or isinstance(self.private, Expr) or bool(self.shared or self.private)


@dataclass(frozen=True)
class CompiledKernels:
    """Code of kernels; by name, their scratch memory (where needed) and the choices of their schedules.

    `seconds` are those that each stage took. `overlaps` have the bytes that results may share with inputs where kernels
    allow that (`tir.overlaps`), None where no kernel of the device does.
    """

    code: bytes
    workspaces: Mapping[str, Workspace] = field(default_factory=dict)
    choices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    overlaps: Mapping[str, Mapping[tuple[int, int], int]] | None = None
