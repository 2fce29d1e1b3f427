"""Write the npm package `tilewright-web`: the runtime of models for the web, without dependencies.

    python scripts/npm_package.py build/npm        ->  build/npm/tilewright-web/, build/npm/tilewright-web-VERSION.tgz

It is made of the files of `src/tilewright/runtime/web` that `tilewright compile --target wasm` writes beside a model;
with the package a page has the runtime once, and loads any number of models by their URLs. npm is not needed.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "tilewright-web"

_INDEX = """\
// Runs models that `tilewright compile MODEL -o FOLDER --target wasm` wrote.
export { ARRAYS, feature, load, Model, TilewrightError } from "./runtime.mjs";
export { audioTensor, imageTensor } from "./tensors.mjs";
"""

_TYPES = """
type Data = Float32Array | Float64Array | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array
  | Uint32Array | BigInt64Array | BigUint64Array | string[];
/** The feature by which an engine's variant of a model is chosen. */
export function feature(): string;
export interface Picture { data: Uint8ClampedArray; width: number; height: number }
/** The tensor of ImageData, a canvas, <img>, <video> or ImageBitmap, stretched to `shape`. */
export function imageTensor(source: Picture | CanvasImageSource, options: { shape: number[]; layout?: "NCHW" | "NHWC";
  mean?: number | number[]; std?: number | number[]; dtype?: "float32" | "uint8" }): Tensor<Float32Array | Uint8Array>;
/** The tensor of a sound: the mean of its channels at `sampleRate`. */
export function audioTensor(source: AudioBuffer | { channels: Float32Array[]; sampleRate: number },
  options?: { sampleRate?: number; shape?: number[] }): Tensor<Float32Array>;
"""

_README = """\
# tilewright-web

Runs models that [Tilewright](https://github.com/tilewright/tilewright) compiled for the web, in browsers, Node and
Deno: kernels of 128-bit vectors, relaxed SIMD and threads where the engine has them. No dependencies.

    tilewright compile model.onnx -o public/model --target wasm

```js
import { imageTensor, load } from "tilewright-web";

const model = await load("/model/model");            // model.wasm or model.relaxed.wasm, and model.bin
const picture = imageTensor(canvas, { shape: [1, 3, 224, 224], mean: 0.45, std: 0.225 });
const { scores } = await model.run({ image: picture });  // scores.data, scores.shape, scores.dtype
model.close();
```

On a page a model runs in a web worker. Threads need the headers `Cross-Origin-Opener-Policy: same-origin` and
`Cross-Origin-Embedder-Policy: require-corp`; without them it runs on one.

```jsx
import { useEffect, useState } from "react";
import { load } from "tilewright-web";

export function useModel(url) {
  const [state, set] = useState({});
  useEffect(() => {
    let model, left = false;
    load(url).then((made) => (left ? made.close() : set({ model: (model = made) })), (error) => set({ error }));
    return () => { left = true; model?.close(); };
  }, [url]);
  return state;                                      // { model } once it is loaded, or { error }
}
```
"""


def package_files() -> dict[str, str]:
    """The texts of the package by file name."""
    sys.path.insert(0, str(ROOT / "src"))
    from tilewright.runtime.web.package import runtime_text, types_text
    from tilewright.support.version import version

    web = ROOT / "src/tilewright/runtime/web"
    description = {
        "name": NAME,
        "version": version(),
        "description": "Runs models that Tilewright compiled for WebAssembly",
        "type": "module",
        "exports": {".": {"types": "./index.d.mts", "default": "./index.mjs"}},
        "types": "./index.d.mts",
        "files": ["*.mjs", "*.mts"],
        "sideEffects": ["./runtime.mjs"],
        "engines": {"node": ">=20.16"},
        "license": "Apache-2.0",
    }
    tensors = "  [name: string]: Required<Tensor<Data>>;", "  [name: string]: Data | Tensor<Data> | Value;"
    return {
        "package.json": json.dumps(description, indent=2) + "\n",
        "index.mjs": _INDEX,
        "index.d.mts": types_text(f"{NAME} {version()}", tensors[1], tensors[0]) + _TYPES,
        "runtime.mjs": runtime_text("model", "runtime.mjs", version()),
        "tensors.mjs": (web / "tensors.mjs").read_text(encoding="utf-8"),
        "README.md": _README,
        "LICENSE": (ROOT / "LICENSE").read_text(encoding="utf-8"),
    }


def write(folder: Path) -> Path:
    """Write the package as a folder and as an archive for `npm install`, whose path is the result."""
    files = package_files()
    made = folder / NAME
    made.mkdir(parents=True, exist_ok=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in files.items():
            data = text.encode()
            (made / name).write_bytes(data)
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    path = folder / f"{NAME}-{json.loads(files['package.json'])['version']}.tgz"
    path.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=0))
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    archive_path = write(parser.parse_args().folder)
    print(f"{archive_path}: {archive_path.stat().st_size / 1000:.1f} kB")
