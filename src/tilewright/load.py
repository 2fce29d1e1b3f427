"""`load`: a saved model back into memory, by whichever executor it was compiled for."""

from __future__ import annotations

import os
from dataclasses import replace

from tilewright.errors import ArtifactError
from tilewright.runtime.artifact import load_artifact
from tilewright.runtime.executor import Executable
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.model import Model
from tilewright.runtime.native import native
from tilewright.runtime.program import Program, program_class, register
from tilewright.runtime.signing import Key
from tilewright.runtime.types import Weights
from tilewright.runtime.vm.debug import DebugMachine
from tilewright.runtime.vm.executable import VirtualMachine

_EXECUTORS: dict[str, type[Executable] | type[VirtualMachine]] = {
    kind.executor: kind for kind in (Executable, VirtualMachine, DebugMachine)
}


def _vta_program() -> type[Program]:
    # models for other devices do without the simulators of the accelerator
    from tilewright.vta.network.program import Program as VtaProgram

    return VtaProgram


register("vta", _vta_program)


def load(
    path: str | os.PathLike[str],
    threads: int | None = None,
    check: bool = False,
    verify: Key | None = None,
    device: int | str | None = None,
) -> Model:
    """The model saved at `path`, its weights mapped from the file. Raises `ArtifactError` when it is unusable.

    `check` reads all weights to see whether they are damaged, which loading alone does not. An artifact is native code:
    `verify`, a public key (the path of a PEM file, or its bytes), refuses one that its owner did not sign
    (`runtime/signing.py`), before anything else in it is read. `device` is the GPU to run a model for GPUs on, as
    "cuda:1" or its number alone; by default the one of the target that it was compiled for.
    """
    found = load_artifact(path, check, verify)
    if found.pool is not None:
        native(found.pool)
    manifest = found.manifest
    if device is not None:
        # models for processors do without the drivers of GPUs
        from tilewright.runtime.gpu.devices import on_device

        manifest = replace(manifest, target=on_device(manifest.target, device))
    try:
        return open_model(manifest, found.object_code, found.weights, threads)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, MemoryError) as error:
        raise ArtifactError(f"{path} has a manifest that does not fit its code ({error!r}). Compile it again") from None


def open_model(manifest: Manifest, code: bytes, weights: Weights, threads: int | None = None) -> Model:
    """A compiled model by its executor. Raises `ArtifactError` when it is unusable."""
    kind = _EXECUTORS.get(manifest.executor) or program_class(manifest.device).executors().get(manifest.executor)
    if kind is None:
        raise ArtifactError(
            f"the model is for an executor {manifest.executor!r}, unknown to this version. Compile the model again"
        )
    return kind(code, manifest, weights, threads)
