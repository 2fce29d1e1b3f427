"""WebAssembly: code by LLVM for each set of features that a browser may have, linked here to whole modules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from tilewright.backend.cpu.backend import CpuBackend
from tilewright.backend.wasm.link import link
from tilewright.backend.wasm.object_file import read_object
from tilewright.backend.wasm.program_text import program_text
from tilewright.backend.wasm.run_text import run_text
from tilewright.backend.wasm.segments_text import segments_text
from tilewright.codegen.function_info import function_info
from tilewright.codegen.llvm import compile_object
from tilewright.errors import UnsupportedError
from tilewright.runtime.link import bundle_objects, split_objects
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.model import Model
from tilewright.runtime.native import Kind
from tilewright.runtime.wasm import WasmModule
from tilewright.runtime.web.description import SECTION, Description, resolved
from tilewright.runtime.web.model import WebModel
from tilewright.support import knobs
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc


class WasmBackend(CpuBackend):
    """Any WebAssembly machine. A target with vectors that does not name relaxed ones is compiled for both."""

    plans_in_code = True

    @cached_property
    def variants(self) -> tuple[Target, ...]:
        """The targets that code is made for, the first with the fewest features. Kernels differ in instructions only.

        Relaxed vectors have fused multiply-adds; a target that names them is compiled for them alone.
        """
        target = self.target
        if not target.supports("simd128") or target.supports("relaxed-simd"):
            return (target,)
        relaxed = [f"{word},+relaxed-simd" if word.startswith("-mattr=") else word for word in str(target).split()]
        if not any(word.startswith("-mattr=") for word in relaxed):
            relaxed.append("-mattr=+relaxed-simd")
        return target, Target(" ".join(relaxed))

    def check_machine(self) -> None:
        """Any will do."""

    @property
    def is_here(self) -> bool:
        """False: the code runs in a machine of its own."""
        return False

    def obstacle(self) -> str:
        """Other machines run it."""
        return "WebAssembly runs in browsers, Node and wasmtime, not in this process"

    def dot_operands(self) -> tuple[str, str] | None:
        """None: products of bytes are those of 16-bit numbers, which plain loops have."""
        return None

    def assemble(self, text: str) -> bytes:
        """The objects of all variants."""
        return bundle_objects([compile_object(text, target) for target in self.variants])

    def division(self, kind: Kind) -> Kind:
        """That of the kernel, but each is a region of its own, so that one can be timed."""
        return "fixed" if kind == "alone" else kind

    def finish(self, code: bytes, manifest: Manifest, weights_bytes: int) -> bytes:
        """The modules of all variants, each with the model's description in it."""
        has_threads = self.target.supports("simd128")  # engines with vectors have atomic instructions
        model = resolved(manifest)
        texts = [run_text(model.entry, has_threads)]
        if model.flat is not None:
            texts.append(program_text(model.flat, manifest, len(model.manifest.outputs)))
        elif model.interface is None:
            texts.append(segments_text([segment.entry_symbol for segment in manifest.segments], model.entry))
        threads = model.max_threads if has_threads else 1  # without, workers could not wait for each other
        description = Description(model, weights_bytes, str(self.target), threads)
        parts = [split_objects(part) for part in (*split_objects(code), *map(self.assemble, texts))]
        exports = {"run": "run"}
        if has_threads:
            exports["serve"] = "serve"
        exports |= {f"plan{i}": f"{p.entry}__plan" for i, p in enumerate(model.pieces) if p.dynamic is not None}
        names = bool(knobs.DEBUG_INFO.get())
        modules = [
            link([read_object(data) for data in objects], exports, [(SECTION, description.section)], names, True)
            for objects in zip(*parts, strict=True)
        ]
        return bundle_objects(modules)

    def load(self, manifest: Manifest, code: bytes, weights: Any, threads: int | None = None) -> Model:
        """A model that is written as files for a browser, and runs here in wasmtime."""
        model = resolved(manifest)
        return WebModel(code, model.manifest, weights, model)

    def build(self, funcs: Sequence[PrimFunc], threads: int | None = None) -> WasmModule:
        """Functions in a machine of their own, on one thread."""
        self.refuse_threads(funcs)
        infos = [function_info(func) for func in funcs]
        for info in infos:
            if info.workspace_function:
                raise UnsupportedError(
                    f"{info.name}: temporaries of symbolic size are not supported in WebAssembly yet"
                )
        emitted = self.emit(funcs)
        entries = {name: name for name in (f"{info.name}__entry" for info in infos)}
        code = link([read_object(compile_object(emitted.text, self.target))], entries)
        return WasmModule(code, infos, emitted.messages)
