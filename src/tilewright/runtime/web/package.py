"""The files of a model for the web: ES module with types, WebAssembly, weights, and a page that runs it.

`gpu_package.py` makes those of a model for WebGPU of the same parts.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from tilewright.errors import EnvironmentError_, InputError
from tilewright.runtime.export import move_into_place
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import Array
from tilewright.runtime.signature import TensorSpec, ValueSpec
from tilewright.runtime.web.description import Resolved
from tilewright.runtime.web.host import HOST_FILES
from tilewright.support.version import version

#: The parts of the ES module, and those of one that interprets programs.
RUNTIME = ("files.mjs", "wasm.mjs", "workers.mjs")
INTERPRETER = (RUNTIME[0], *HOST_FILES, "machine.mjs", *RUNTIME[1:])
#: The need of a variant, by a feature of its target, the best first.
_FEATURES = ("relaxed-simd", "simd128")
_ARRAYS = {
    "string": "string[]", "bool": "Uint8Array", "bfloat16": "Uint16Array", "float16": "Float16Array | Uint16Array",
    "int64": "BigInt64Array", "uint64": "BigUint64Array", "uint8": "Uint8Array", "uint16": "Uint16Array",
    "uint32": "Uint32Array",
}  # fmt: skip

#: The endings of the modules of most models.
ENDINGS = (("relaxed-simd", ".relaxed.wasm"), ("simd128", ".wasm"))

_HEADER = """\
// {name}: a model compiled by Tilewright {version} for {target}.
//
//     import {{ load }} from "./{name}.mjs";
//     const model = await load();
//     const {{ {output} }} = await model.run({{ {input}: new {array}({count}) }});   // {output}.data, {output}.shape
//
// {inside}, weights in {name}.bin. It needs no other file.

"""

_TYPES = """\
/** {title} */
/** A tensor; a dimension that only a run knows is null. A value that is none has a `type`, no dtype and no shape. */
export interface Spec {{ name: string; dtype: string; shape: (number | string | null)[]; type?: string }}
export interface Tensor<Data> {{ data: Data; shape: number[]; dtype?: string }}
/** A value that is no tensor of known rank: a tensor, an array of values for a sequence, nothing. */
export type Value = Tensor<ArrayLike<unknown>> | Value[] | undefined;
export interface Inputs {{
{inputs}
}}
export interface Outputs {{
{outputs}
}}
/** An error whose message says what to do. */
export class TilewrightError extends Error {{}}
export interface Model {{
  readonly inputs: Spec[];
  readonly outputs: Spec[];
  readonly threads: number;
  /** Run once; a bare array has the input's own shape. */
  run(feeds: Inputs): Promise<Outputs>;
  /** Free what it holds: its worker and threads, or the memory of the GPU. */
  close(): void;
}}
export interface Options {{
  weights?: string | URL | BufferSource;{options}
}}
/** Load the model: by default the files beside this one. */
export function load(source?: string | URL | BufferSource, options?: Options): Promise<Model>;
"""


_OPTIONS = """
  /** Workers that share a run; by default up to 4 where the engine lets them share memory. */
  threads?: number;
  /** Run in a web worker; by default on a page. */
  worker?: boolean;"""


def write_package(folder: Path, name: str, model: Resolved, modules: Sequence[bytes], weights: Array) -> list[Path]:
    """Write all files of a model into `folder`, or none; their paths. Raises `InputError`, `EnvironmentError_`."""
    manifest = model.manifest
    check_name(name)
    variants = _variants(name, manifest, modules)
    endings = [(feature, file.removeprefix(name)) for feature, file, _ in variants]
    parts = INTERPRETER if model.interface is None else RUNTIME
    runtime = runtime_text(name, f"{name}.mjs", manifest.tilewright_version, endings, parts)
    inside = "Kernels, plan and run loop are in the module of WebAssembly"
    texts = texts_beside(name, manifest, inside, runtime, _OPTIONS)
    return write_files(folder, name, texts, {file: module for _, file, module in variants}, weights)


def check_name(name: str) -> None:
    """Raise `InputError` where `name` cannot be that of files on the web."""
    if not re.fullmatch(r"[\w-]+", name, re.ASCII):
        raise InputError(f"{name!r} cannot be a file's name on the web; use letters, digits, '_' and '-'")


def write_files(
    folder: Path, name: str, texts: Mapping[str, str], binaries: Mapping[str, bytes], weights: Array
) -> list[Path]:
    """Write texts, binaries and the weights of the model `name` into `folder`, or none; their paths."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentError_(f"cannot make the folder {folder}: {error.strerror or error}") from None
    with tempfile.TemporaryDirectory(prefix="tilewright-web-") as work:
        for file, text in texts.items():
            Path(work, file).write_text(text, encoding="utf-8")
        for file, data in binaries.items():
            Path(work, file).write_bytes(data)
        written = [*texts, *binaries]
        if weights.nbytes:
            written.append(f"{name}.bin")
            weights.tofile(str(Path(work, written[-1])))
        made = [(Path(work, file), folder / file) for file in written]
        move_into_place(made)
    return [path for _, path in made]


def _variants(name: str, manifest: Manifest, modules: Sequence[bytes]) -> list[tuple[str, str, bytes]]:
    """The need of each module, its file and its bytes, the best first."""
    if len(modules) == 1:
        needed = next((feature for feature in _FEATURES if feature in manifest.cpu_features), "")
        return [(needed, f"{name}.wasm", modules[0])]
    simple, relaxed = modules
    return [(_FEATURES[0], f"{name}.relaxed.wasm", relaxed), (_FEATURES[1], f"{name}.wasm", simple)]


def texts_beside(name: str, manifest: Manifest, inside: str, runtime: str, options: str = "") -> dict[str, str]:
    """The ES module of a runtime, its types and the page, by file.

    `inside` says at its head which file has what beside the weights, `options` are TypeScript's properties of options.
    """
    first, result = manifest.inputs[:1], manifest.outputs[0]
    is_known = first and not isinstance(first[0], ValueSpec) and first[0].is_static
    count = str(math.prod(first[0].static_shape)) if is_known else "…"
    values = {
        "name": name,
        "version": manifest.tilewright_version,
        "target": manifest.target,
        "input": _key(first[0].name) if first else "",
        "array": _array(first[0]).split(" ")[0] if first else "",
        "count": count,
        "output": _key(result.name) if result.name.isidentifier() else f"{_key(result.name)}: y",
        "inside": inside,
    }
    types = types_text(
        f"{name}: a model compiled by Tilewright {manifest.tilewright_version}.",
        "\n".join(f"  {_key(spec.name)}: {_fed(spec)};" for spec in manifest.inputs),
        "\n".join(f"  {_key(spec.name)}: {_returned(spec)};" for spec in manifest.outputs),
        options,
    )
    page = filled(["page.html"], {"NAME": name})
    return {f"{name}.mjs": _HEADER.format(**values) + runtime, f"{name}.d.mts": types, "index.html": page}


def runtime_text(
    name: str,
    file: str,
    tilewright: str,
    endings: Sequence[tuple[str, str]] = ENDINGS,
    parts: Sequence[str] = INTERPRETER,
) -> str:
    """The ES module `file` that loads and runs models, by default that of `name` beside it.

    `endings` are those of a model's modules by what an engine must have for them, the best first; `parts` the files.
    """
    values = {"NAME": name, "FILE": file, "VERSION": tilewright, "VARIANTS": json.dumps(endings)}
    return filled(parts, values)


def loader() -> str:
    """The ES module `model.mjs` of no model: its `load` takes URLs, or the bytes of a module and of its weights."""
    return runtime_text("model", "model.mjs", version())


def types_text(title: str, inputs: str, outputs: str, options: str = _OPTIONS) -> str:
    """The types of that module, for inputs and outputs of these properties, and further `options` of `load`."""
    return _TYPES.format(title=title, inputs=inputs, outputs=outputs, options=options)


def filled(resources: Sequence[str], values: Mapping[str, str]) -> str:
    """The texts of these files, one after the other, with a value for each word behind a dollar sign."""
    folder = files("tilewright.runtime.web")
    text = "".join(folder.joinpath(resource).read_text("utf-8") for resource in resources)
    return re.sub(r"\$([A-Z]+)\b", lambda found: values.get(found[1], found[0]), text)


def _key(name: str) -> str:
    """A name as a property of JavaScript."""
    return name if name.isidentifier() and name.isascii() else json.dumps(name)


def _fed(spec: TensorSpec) -> str:
    """The type of an input."""
    return "Value" if isinstance(spec, ValueSpec) else f"{_array(spec)} | Tensor<{_array(spec)}>"


def _returned(spec: TensorSpec) -> str:
    """The type of an output."""
    return "Value" if isinstance(spec, ValueSpec) else f"Required<Tensor<{_array(spec)}>>"


def _array(spec: TensorSpec) -> str:
    """The array of a tensor's elements."""
    if isinstance(spec, ValueSpec):
        return "Array"
    kind = str(spec.dtype)
    return _ARRAYS.get(kind, f"{kind.capitalize()}Array")
