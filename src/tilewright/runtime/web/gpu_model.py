"""`WebGpuModel`: a model for WebGPU as the files of a page, and the same files in headless Chromium.

exe = WebGpuModel.of(tilewright.compile("model.onnx", target="webgpu"))
exe.export_web("web/")                     model.mjs, model.d.mts, model.webgpu.json, model.bin, index.html
exe.run({"x": x})                          in Chromium

Chromium runs it on SwiftShader, which stands in for a GPU on the processor, so that results do not depend on a driver.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tilewright.errors import InputError, UnsupportedError
from tilewright.runtime.gpu.noted_steps import noted_steps
from tilewright.runtime.model import Model
from tilewright.runtime.profile import KernelTime
from tilewright.runtime.program import Transfers
from tilewright.runtime.signature import by_name
from tilewright.runtime.types import Value
from tilewright.runtime.web.gpu_package import write_gpu_package
from tilewright.runtime.web.model import WebModel
from tilewright.runtime.web.process import InProcess

_ENGINE = "chromium"
#: The last one for timestamps in nanoseconds.
_FLAGS = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-webgpu-developer-features")


class WebGpuModel(WebModel):
    """A model for the GPU of a browser."""

    @classmethod
    def of(cls, model: Model) -> Self:
        """The model of one that was compiled for `webgpu`, whether this machine runs it or not."""
        return cls(model.object_code, model.manifest, model._weights)

    def export_web(self, folder: str | os.PathLike[str], name: str = "model") -> list[Path]:
        """Write ``NAME.mjs``, its types, kernels, weights and a page into a folder; their paths. Raises as
        `write_gpu_package`.
        """
        return write_gpu_package(Path(folder), name, self.manifest, self.object_code, self._weights)

    def use(self, engine: str = _ENGINE, threads: int = 1) -> None:
        """Run in Chromium from now on. Raises `EnvironmentError_` without it."""
        if engine != _ENGINE:
            raise InputError(f"{engine!r} has no WebGPU; run the model in {_ENGINE}, or compile with --target wasm")
        self.close()
        self._engine = InProcess(engine, self, flags=_FLAGS)

    @property
    def device_facts(self) -> Mapping[str, Any]:
        """The name of the GPU."""
        return {"name": self._opened().feature}

    @property
    def transfers(self) -> Transfers:
        """None: there are no programs with parts on the host."""
        return Transfers()

    def profile(self, inputs: Mapping[str, Value], repeat: int = 1) -> list[KernelTime]:
        """The least time of each call's launches by the GPU's clock. Raises `UnsupportedError` for
        symbolic sizes and programs.
        """
        if self.manifest.program is not None:
            raise UnsupportedError("a model with parts on the host has no list of launches to time")
        (plan,) = self.manifest.plans
        calls = noted_steps(plan, self.object_code, self._weights.nbytes).calls
        engine = self._opened()
        engine.run(by_name(inputs, self.inputs))
        spent = [0.0] * len(plan.kernels)
        for call, seconds in zip(calls, engine.profile(len(calls), repeat), strict=True):
            spent[call] += seconds
        return [
            KernelTime(call.name, call.source_text, seconds, call.flops or 0, call.bytes or 0, call.choice)
            for call, seconds in zip(plan.kernels, spent, strict=True)
        ]

    def _opened(self) -> InProcess:
        if self._engine is None:
            self.use()
        found: InProcess = self._engine
        return found
