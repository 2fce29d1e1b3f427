"""`ForeignModel`: a model compiled for a machine that is not this one. It is saved or exported here, and runs there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tilewright.errors import TargetError
from tilewright.runtime.artifact import save_artifact
from tilewright.runtime.c_source import CModel
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import Array
from tilewright.runtime.model import Model
from tilewright.runtime.native import PoolCode
from tilewright.runtime.profile import KernelTime
from tilewright.runtime.signature import TensorSpec, bind
from tilewright.runtime.types import Value

#: Architectures on which the Python runtime loads artifacts; on others a model runs as a library for C programs.
LOADING = ("x86_64", "aarch64")


class ForeignModel(Model):
    """A compiled model that this machine cannot run. `executor` says what runs it on its own."""

    def __init__(
        self,
        object_code: bytes,
        manifest: Manifest,
        weights: Any,
        pool: PoolCode | None = None,
        c_model: CModel | None = None,
    ) -> None:
        """Keep what `Model` would link. `pool` is the native runtime of the other machine, where code there needs one.

        `c_model` is how C programs call a model that is no straight graph.
        """
        self.object_code, self.manifest, self._weights = object_code, manifest, weights
        self.inputs, self.outputs = manifest.inputs, manifest.outputs
        self.target, self.version, self.threads = manifest.target, manifest.tilewright_version, 0
        self._pool, self._c_model = pool, c_model

    def save(self, path: str | os.PathLike[str], durable: bool = True) -> None:
        """Write one artifact file for the other machine. Raises `TargetError` where none is loaded there."""
        if self.manifest.device == "cpu" and self.manifest.arch not in LOADING:
            raise TargetError(
                f"artifacts are loaded on {' and '.join(LOADING)}, and this model is for {self.manifest.arch}: write "
                "a library for C programs instead (.so, .a or .o)"
            )
        save_artifact(path, self.manifest, self.object_code, self._weights, durable, self._pool)

    def export_library(
        self, path: str | os.PathLike[str], name: str | None = None, after: str = "", declared: str = ""
    ) -> tuple[Path, Path]:
        """As `Model.export_library`, linked for the other machine by a cross compiler."""
        if self._pool is None:
            raise TargetError(f"libraries for C programs are made for processors, and this model is for {self.target}")
        # saving needs none of it
        from tilewright.runtime.export import export_library

        parts = self.manifest, self.object_code, self._weights
        return export_library(path, *parts, name, model=self._c_model, pool=self._pool, after=after, declared=declared)

    @property
    def device_facts(self) -> Mapping[str, Any]:
        """Nothing: the device is not here."""
        return {}

    def set_threads(self, threads: int | None = None) -> None:
        """Refused: the other machine knows how many it has."""
        self._refuse()

    def time(self, inputs: Mapping[str, Value], repeat: int = 10, warmup: int = 1) -> list[float]:
        """Refused."""
        self._refuse()

    def profile(self, inputs: Mapping[str, Value], repeat: int = 1) -> list[KernelTime]:
        """Refused."""
        self._refuse()

    def _bind(self, value: Any, spec: TensorSpec, specs: Sequence[TensorSpec] = ()) -> Any:
        return bind(value, spec, specs)

    def _infer(self, arrays: list[Any], outputs: Sequence[Array] | None) -> list[Any]:
        self._refuse()

    def _reserve(self, workers: int) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise TargetError(
            f"this model is compiled for {self.target}, whose code this machine cannot run: save it and load it there, "
            "run it there with `tilewright rpc run`, or compile for this machine"
        )
