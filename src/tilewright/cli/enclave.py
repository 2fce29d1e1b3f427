"""`--enclave KIND`: models as programs that can only compute, for the verbs that run, compare and time."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.enclave import EnclaveModel


def open_in_enclave(path: str, kind: str, target_name: str | None, **compiled: Any) -> EnclaveModel:
    """The model at `path` compiled to C, without a library, and run in an enclave; `compiled` is for `export_source`.

    Without a target it is that of the kind.
    """
    # only for enclaves: `tilewright --help` reads this module
    from tilewright.compile import export_source
    from tilewright.enclave import TARGETS, open_enclave, require_kind

    require_kind(kind)
    with tempfile.TemporaryDirectory(prefix="tilewright-enclave-") as folder:
        target = target_name or TARGETS[kind]
        files = export_source(path, Path(folder) / "model.c", target=target, freestanding=True, **compiled)
        return open_enclave(files, kind)
