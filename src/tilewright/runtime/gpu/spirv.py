"""GLSL to SPIR-V, by Khronos' compiler (Debian: glslang-tools) or Google's around it (glslc)."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tilewright.errors import EnvironmentError_, InternalError
from tilewright.runtime.threads import default_workers

#: The line before each kernel of a text; what comes before the first is common to all.
_DIVIDER = re.compile(r"^// kernel (\w+)\n", re.MULTILINE)
_OPTIONS = {
    "glslangValidator": "-V --target-env vulkan1.2 -S comp -o",
    "glslc": "--target-env=vulkan1.2 -fshader-stage=compute -O -o",
}


def compile_spirv(source: str, kernels: Sequence[str]) -> dict[str, bytes]:
    """The module of each kernel, whose entry point is `main`.

    Raises `InternalError` with the compiler's messages where it refuses the text, `EnvironmentError_` without compiler.
    """
    common, *parts = _DIVIDER.split(source)
    texts = dict(zip(parts[::2], parts[1::2]))
    missing = [name for name in kernels if name not in texts]
    if missing:
        raise InternalError(f"the GLSL compiler refused generated code: it has no kernel {', '.join(missing)}")
    compiler = glsl_compiler()
    with ThreadPoolExecutor(default_workers()) as pool:
        modules = pool.map(lambda name: _compile(compiler, name, common + texts[name]), kernels)
        return dict(zip(kernels, modules))


def glsl_compiler() -> str:
    """The path of the compiler. Raises `EnvironmentError_` where there is none."""
    found = next((path for name in _OPTIONS if (path := shutil.which(name))), None)
    if found is None:
        raise EnvironmentError_(
            "the target 'vulkan' needs a compiler of GLSL: install glslangValidator (Debian: apt install glslang-tools)"
        )
    return found


def _compile(compiler: str, name: str, text: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tilewright-glsl-") as directory:
        source, made = Path(directory, "kernel.comp"), Path(directory, "kernel.spv")
        source.write_text(text)
        command = [compiler, *_OPTIONS[Path(compiler).name].split(), str(made), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            messages = (done.stdout + done.stderr)[-2000:]
            raise InternalError(f"the GLSL compiler refused generated code of {name}:\n{messages}")
        return made.read_bytes()
