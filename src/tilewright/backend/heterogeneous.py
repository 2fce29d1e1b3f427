"""A device with a memory of its own and the host beside it: models whose segments run on either.

It makes no code itself: the driver compiles each part by the part's backend, and this one joins the parts' code.
"""

from __future__ import annotations

from typing import Any

from tilewright.backend.backend import Backend
from tilewright.runtime.foreign import ForeignModel
from tilewright.runtime.link import bundle_objects, split_objects
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.model import Model


class HeterogeneousBackend(Backend):
    """The backend of a device, and that of the host."""

    device = "heterogeneous"

    def __init__(self, device: Backend, host: Backend) -> None:
        super().__init__(device.target)
        self.parts = (device, host)
        self.alignment = max(part.alignment for part in self.parts)  # type: ignore[misc]

    @property
    def is_here(self) -> bool:
        """True where the device is; the host's code is for this machine."""
        return self.parts[0].is_here

    def facts(self) -> dict[str, Any]:
        """The host's, without whose features the code does not run, and the device's target."""
        device, host = self.parts
        return {**host.facts(), "device": self.device, "target": str(device.target)}

    def finish(self, code: bytes, manifest: Manifest, weights_bytes: int) -> bytes:
        """The code of each part with what depends on the part's manifest."""
        codes = split_objects(code)
        return bundle_objects(
            [part.finish(codes[number], manifest.part(number), weights_bytes) for number, part in enumerate(self.parts)]
        )

    def load(self, manifest: Manifest, code: bytes, weights: Any, threads: int | None = None) -> Model:
        """On a machine without the device a model that can be saved."""
        return super().load(manifest, code, weights, threads) if self.is_here else ForeignModel(code, manifest, weights)
