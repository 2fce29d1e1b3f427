"""Uploads for boards without an operating system: a program's C source, or a finished image of it, as one JSON object.

{"kind": "board program", "version": 1, "board": …, "cpu": …, "kernels": false, "name": …, "calls": […],
 "interface": {…}, "source": …, "header": …}            # or "image" (base64) and "sizes" in place of the texts
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.board.image import BoardProgram, Sizes
from tilewright.errors import ArtifactError, UnsupportedError
from tilewright.runtime.c_interface import CInterface
from tilewright.runtime.signature import TensorSpec

_KIND, _VERSION = "board program", 1


@dataclass(frozen=True)
class Upload:
    """A program for the board `board`, its processor, and whether it counts kernels; with its `image` where built."""

    program: BoardProgram
    board: str
    cpu: str = ""
    kernels: bool = False
    image: bytes = b""
    sizes: Sizes | None = None

    def to_bytes(self) -> bytes:
        """The contents of the upload. Raises `UnsupportedError` for a program beside VTA."""
        if self.program.vta:
            raise UnsupportedError("VTA beside a board's processor runs on this machine alone: leave out --tracker")
        interface = asdict(self.program.interface)
        for side in ("inputs", "outputs"):
            interface[side] = [spec.to_json() for spec in getattr(self.program.interface, side)]
        found: dict[str, Any] = {"kind": _KIND, "version": _VERSION, "board": self.board, "cpu": self.cpu}
        found |= {"kernels": self.kernels, "name": self.program.name, "calls": self.program.calls}
        found["interface"] = interface
        if self.image and self.sizes is not None:
            found |= {"image": base64.b64encode(self.image).decode(), "sizes": sizes_to_json(self.sizes)}
        else:
            found |= {"source": self.program.source, "header": self.program.header}
        return json.dumps(found).encode()

    @staticmethod
    def of(data: bytes) -> Upload:
        """The upload of these contents. Raises `ArtifactError` for anything else."""
        try:
            found = json.loads(data)
            if found["kind"] != _KIND or found["version"] != _VERSION:
                raise ArtifactError(f"the upload is a {found['kind']!r:.40} of version {found['version']!r:.20}")
            program = BoardProgram(
                _identifier(found["name"]), _interface(found["interface"]), str(found.get("source", "")),
                str(found.get("header", "")),
                calls=tuple((_identifier(name), int(inputs), int(outputs)) for name, inputs, outputs in found["calls"]),
            )  # fmt: skip
            image = base64.b64decode(found.get("image", ""), validate=True)
            sizes = sizes_from_json(found["sizes"]) if image else None
            return Upload(program, str(found["board"]), str(found["cpu"]), bool(found["kernels"]), image, sizes)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArtifactError(
                f"the upload is no program for a board without an operating system ({error}): "
                "such boards run what `--board NAME --tracker HOST:PORT` uploads"
            ) from None


def _identifier(text: Any) -> str:
    if not isinstance(text, str) or not text.isidentifier() or not text.isascii():
        raise ValueError(f"{text!r:.40} is no name in C")
    return text


def _interface(found: Mapping[str, Any]) -> CInterface:
    specs = {side: tuple(TensorSpec.from_json(spec) for spec in found[side]) for side in ("inputs", "outputs")}
    texts = {name: tuple(map(str, found[name])) for name in ("dims", "errors")}
    names = ("table", "stride", "plan", "arena_bytes", "scratch_bytes", "max_threads", "alignment")
    fields: dict[str, Any] = {**specs, **texts, **{name: int(found[name]) for name in names}}
    return CInterface(entry=str(found["entry"]), **fields)


def sizes_to_json(sizes: Sizes) -> dict[str, Any]:
    """Plain data of sizes."""
    return asdict(sizes)


def sizes_from_json(found: Mapping[str, Any]) -> Sizes:
    """Sizes out of plain data. Raises `KeyError`, `ValueError`, `AttributeError` for anything else."""
    tables = [{str(name): int(size) for name, size in found[field].items()} for field in ("functions", "stack")]
    return Sizes(int(found["code"]), int(found["constants"]), int(found["workspace"]), *tables)
