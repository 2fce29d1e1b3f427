"""`load`: a saved model back into memory, by whichever executor it was compiled for."""

from __future__ import annotations

import os

from tilewright.errors import ArtifactError
from tilewright.runtime.artifact import load_artifact
from tilewright.runtime.executor import Executable
from tilewright.runtime.executor_aot import AheadOfTime
from tilewright.runtime.model import Model
from tilewright.runtime.native import native
from tilewright.runtime.signing import Key
from tilewright.runtime.vm.debug import DebugMachine
from tilewright.runtime.vm.executable import VirtualMachine

_EXECUTORS: dict[str, type[Executable] | type[VirtualMachine]] = {
    kind.executor: kind for kind in (Executable, AheadOfTime, VirtualMachine, DebugMachine)
}


def load(
    path: str | os.PathLike[str], threads: int | None = None, check: bool = False, verify: Key | None = None
) -> Model:
    """The model saved at `path`, its weights mapped from the file. Raises `ArtifactError` when it is unusable.

    `check` reads all weights to see whether they are damaged, which loading alone does not. An artifact is native code:
    `verify`, a public key (the path of a PEM file, or its bytes), refuses one that its owner did not sign
    (`runtime/signing.py`), before anything else in it is read.
    """
    found = load_artifact(path, check, verify)
    native(found.pool)
    name = found.manifest.executor
    if name not in _EXECUTORS:
        raise ArtifactError(f"{path} is for an executor {name!r}, which this version has not. Compile the model again")
    kind = _EXECUTORS[name]
    try:
        return kind(found.object_code, found.manifest, found.weights, threads)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, MemoryError) as error:
        raise ArtifactError(f"{path} has a manifest that does not fit its code ({error!r}). Compile it again") from None
