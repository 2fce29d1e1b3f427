"""The interface of a compiled model for C programs: numbers of pointers, memory, dimensions, texts of error codes.

A call takes the inputs, the outputs, for symbolic sizes the dimensions, one block of workspace and a number of threads.
The workspace holds the arena of intermediates and behind it the scratch memory of every worker.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import UnsupportedError
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import ALIGNMENT, round_up
from tilewright.runtime.signature import TensorSpec
from tilewright.runtime.threads import MAX_WORKERS

#: Codes 1 to 4. The model's own checks follow, then one for all checks within kernels.
INTERFACE_ERRORS = (
    "a pointer is null",
    "threads must be at least 1",
    "the workspace is too small",
    "a pointer is not aligned",
)
KERNEL_ERROR = "a check within a kernel failed"


@dataclass(frozen=True)
class CInterface:
    """A straight model as C sees it. `dims` are the names of its symbolic dimensions.

    `table` is the number of entries of the table that the run loop reads, `stride` the one that holds the bytes of a
    worker's scratch memory, `plan` the number of entries that ``ENTRY__plan`` writes. The arena and the buffers in it
    lie at multiples of `alignment` bytes.
    """

    entry: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    dims: tuple[str, ...]
    table: int
    stride: int
    plan: int
    arena_bytes: int
    scratch_bytes: int
    max_threads: int
    errors: tuple[str, ...]
    alignment: int = ALIGNMENT

    @staticmethod
    def of(manifest: Manifest) -> CInterface:
        """Read off a model's manifest. Raises `UnsupportedError` for a model that needs the virtual machine."""
        if manifest.program is not None:
            raise UnsupportedError(
                "a model that runs on the virtual machine (branches, loops, values that are no tensors) is no single "
                'C function; save it as an artifact (.tw) instead, or compile it with executor="aot" to see why'
            )
        sizes = manifest.dynamic
        dims: tuple[str, ...] = ()
        table = stride = plan = 0
        if sizes is not None:
            dims = tuple(dim.name for dim in sizes.dims)
            stride = len(dims) + len(sizes.buffers) + 1
            table = stride + 1 + len(sizes.values)
            plan = table + 1 + sum(map(len, sizes.output_shapes))
        return CInterface(
            entry=manifest.entry,
            inputs=manifest.inputs,
            outputs=manifest.outputs,
            dims=dims,
            table=table,
            stride=stride,
            plan=plan,
            arena_bytes=round_up(manifest.arena_bytes, manifest.alignment),
            scratch_bytes=manifest.worker_workspace_bytes,
            max_threads=min(manifest.max_workers or MAX_WORKERS, MAX_WORKERS),
            errors=(*INTERFACE_ERRORS, *(manifest.checks or ()), KERNEL_ERROR),
            alignment=manifest.alignment,
        )

    @property
    def is_symbolic(self) -> bool:
        """True if calls pass dimensions."""
        return bool(self.plan)

    @property
    def workspace_size(self) -> int:
        """The bytes of an aligned workspace for one thread, where sizes are fixed; at least 1."""
        return max(self.arena_bytes + self.scratch_bytes, 1)

    @property
    def call_symbol(self) -> str:
        """The function of `codegen/native/call.py`."""
        return f"{self.entry}__call"

    @property
    def slots(self) -> int:
        """The number of addresses that the run loop takes."""
        return len(self.inputs) + len(self.outputs) + 3 + self.is_symbolic

    @property
    def kernel_error(self) -> int:
        """The code of a check that failed within a kernel."""
        return len(self.errors)
