"""`load`: a saved model back into memory, by whichever executor it was compiled for."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from tilewright.errors import ArtifactError, InputError
from tilewright.runtime.artifact import Artifact, load_artifact
from tilewright.runtime.executor import Executable
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.model import Model
from tilewright.runtime.native import native
from tilewright.runtime.program import Program, program_class, register
from tilewright.runtime.sealed.container import unseal
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
    decrypt: Key | None = None,
) -> Model:
    """The model saved at `path`, its weights mapped from the file. Raises `ArtifactError` when it is unusable.

    `check` reads all weights to see whether they are damaged, which loading alone does not. An artifact is native code:
    `verify`, a public key (the path of a PEM file, or its bytes), refuses one that its owner did not sign
    (`runtime/signing.py`), before anything else in it is read. `device` is the GPU to run a model for GPUs on, as
    "cuda:1" or its number alone; by default the one of the target that it was compiled for. `decrypt` is the key of a
    sealed artifact, whose signature is in it: `verify` is needed as well.
    """
    if decrypt is not None:
        found = _unsealed(path, check, verify, decrypt)
    else:
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


def _unsealed(path: str | os.PathLike[str], check: bool, verify: Key | None, decrypt: Key) -> Artifact:
    """The artifact in a sealed one; the decrypted bytes are in memory alone."""
    if verify is None:
        raise InputError("a sealed artifact is signed: name the public key as well (verify=…)")
    try:
        sealed = Path(path).read_bytes()
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror or error}") from None
    contents = unseal(sealed, verify, decrypt, name=os.fspath(path))
    with open(os.memfd_create("tilewright-sealed"), "wb") as file:
        file.write(contents)
        file.flush()
        return load_artifact(f"/proc/self/fd/{file.fileno()}", check)


def open_model(manifest: Manifest, code: bytes, weights: Weights, threads: int | None = None) -> Model:
    """A compiled model by its executor. Raises `ArtifactError` when it is unusable."""
    kind = _EXECUTORS.get(manifest.executor) or program_class(manifest.device).executors().get(manifest.executor)
    if kind is None:
        raise ArtifactError(
            f"the model is for an executor {manifest.executor!r}, unknown to this version. Compile the model again"
        )
    return kind(code, manifest, weights, threads)
