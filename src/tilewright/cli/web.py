"""`tilewright compile MODEL -o FOLDER --target wasm|webgpu`: a model as the files of a web page."""

from __future__ import annotations

from pathlib import Path

from tilewright.cli.options import ModelOptions, is_webgpu
from tilewright.errors import InputError
from tilewright.runtime.model import Model
from tilewright.support import trace


def engine_note(executable: Model) -> str:
    """The engine of a model for the web, for a line of output; "" for other models."""
    return str(getattr(executable, "note", "")) if executable.executor == "web" else ""


def is_gpu_folder(output: str, target: str | None) -> bool:
    """True if a model for WebGPU is written as the files of a page, not as an artifact: where `output` is a folder."""
    return is_webgpu(target) and (output.endswith("/") or Path(output).is_dir())


def check_folder(output: str) -> None:
    """Raise `InputError` where `output` is no name of a folder."""
    if Path(output).suffix or (Path(output).exists() and not Path(output).is_dir()):
        raise InputError(
            f"{output}: a model for WebAssembly is written as the files of a web page; name a folder: -o web/"
        )


def write_web(model: str, output: str, options: ModelOptions, executor: str | None, exact_rounding: bool) -> list[str]:
    """Write the files of a model into the folder `output`; a line with the size of each."""
    executable = options.open(model, executor or "auto", runs=False, exact_rounding=exact_rounding)
    # only for this
    from tilewright.runtime.web.gpu_model import WebGpuModel
    from tilewright.runtime.web.model import WebModel

    if is_webgpu(options.target) and not isinstance(executable, WebModel):
        executable = WebGpuModel.of(executable)
    if not isinstance(executable, WebModel):
        raise InputError(f"{model} is an artifact, compiled for {executable.target}; name the model itself")
    with trace.span("save"):
        written = executable.export_web(output)
    return [f"{path}: {path.stat().st_size / 1000:.1f} kB" for path in written]
