"""The npm package: its files run models in Node; tensors of pictures and sounds; hostile modules."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from scripts.npm_package import write
from tests.onnx_models import perceptron
from tests.runtime.web.helpers import compiled, in_node, needs_node


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, and a model beside it."""
    folder = tmp_path_factory.mktemp("npm")
    archive = write(folder)
    assert archive.stat().st_size < 60_000
    with tarfile.open(archive) as packed:
        assert {"package/package.json", "package/index.mjs", "package/index.d.mts"} <= set(packed.getnames())
    description = json.loads((folder / "tilewright-web/package.json").read_text())
    assert not description.get("dependencies") and (folder / "tilewright-web" / description["types"]).exists()
    compiled(perceptron()).export_web(folder / "net", "net")
    # the helper of these tests imports the model's own file
    (folder / "model.mjs").write_text('export * from "./tilewright-web/index.mjs";\n')
    return folder


@needs_node
def test_a_model_by_its_url_or_bytes_with_threads_or_in_a_worker(package: Path) -> None:
    script = """
import { readFileSync } from "node:fs";
const here = (name) => new URL(name, import.meta.url), x = Float32Array.from({ length: 8 }, (_, i) => i - 3);
const bytes = { weights: readFileSync(here("net/net.bin")) };
for (const [source, options] of [[here("net/net")], [here("net/net.wasm")], [here("net/net"), { worker: true }],
  [here("net/net.wasm").href, { threads: 2 }], [readFileSync(here("net/net.wasm")), bytes]]) {
  const model = await load(source, options), { y } = await model.run({ x });
  console.log(JSON.stringify([...y.data]));
  model.close();
}"""
    lines = in_node(package, script).splitlines()
    x = np.arange(-3, 5, dtype="float32")[None]
    want = tw.compile(perceptron(), cache=False)(x)
    for line in lines:
        np.testing.assert_allclose(json.loads(line), want[0], rtol=1e-5)
    assert len(lines) == 5


@needs_node
def test_hostile_and_truncated_files_are_errors_with_messages(package: Path) -> None:
    script = """
import { readFileSync } from "node:fs";
const here = (name) => new URL(name, import.meta.url), good = readFileSync(here("net/net.wasm"));
const weights = readFileSync(here("net/net.bin")), x = new Float32Array(8);
let seed = 1, refused = 0, ran = 0;
const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
const attempt = async (bytes) => {
  try {
    const model = await load(bytes, { weights });
    await model.run({ x });
    ran++;
  } catch (error) {
    if (!(error instanceof TilewrightError) || !error.message) throw error;
    refused++;
  }
};
for (let turn = 0; turn < 100; turn++) await attempt(good.subarray(0, random(good.length)));
const description = Buffer.from(good).indexOf("tilewright");
for (let turn = 0; turn < 300; turn++) { // not in the code, which may loop for ever then
  const bytes = Uint8Array.from(good);
  bytes[description + random(good.length - description)] ^= 1 << random(8);
  await attempt(bytes);
}
console.log(refused, ran);"""
    refused, ran = map(int, in_node(package, script).split())
    assert refused > 150 and refused + ran == 400


@needs_node
def test_tensors_of_pictures_and_sounds(package: Path) -> None:
    script = """
import { audioTensor, imageTensor } from "./tilewright-web/index.mjs";
const data = Uint8ClampedArray.from({ length: 4 * 4 * 2 }, (_, i) => (i % 4 === 3 ? 255 : 8 * i));
const picture = { data, width: 4, height: 2 };
const show = ({ data, shape }) => console.log(JSON.stringify([[...data], shape]));
show(imageTensor(picture, { shape: [1, 3, 2, 4] }));
show(imageTensor(picture, { shape: [1, 2, 4, 3], layout: "NHWC", dtype: "uint8" }));
show(imageTensor(picture, { shape: [1, 1, 1, 2], mean: 0.5, std: 0.5 }));
const channels = [Float32Array.of(0, 1, 2, 3), Float32Array.of(0, 3, 6, 9)];
show(audioTensor({ channels, sampleRate: 2 }));
show(audioTensor({ channels, sampleRate: 2 }, { sampleRate: 4, shape: [1, 1, 10] }));
try { imageTensor({}, { shape: [1, 3, 2, 2] }); } catch (error) { console.log(error.message); }"""
    *rows, error = in_node(package, script).splitlines()
    found = [np.reshape(values, shape) for values, shape in map(json.loads, rows)]
    pixels = np.array([[8 * i for i in range(32)]]).reshape(2, 4, 4)[..., :3].clip(0, 255)
    np.testing.assert_allclose(found[0][0], pixels.transpose(2, 0, 1) / 255, rtol=1e-6)
    np.testing.assert_array_equal(found[1][0], pixels)
    grey = pixels @ [0.299, 0.587, 0.114]
    want = grey.reshape(2, 2, 2).mean(axis=(0, 2))
    np.testing.assert_allclose(found[2].ravel(), (want / 255 - 0.5) / 0.5, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[3].ravel(), [0, 2, 4, 6])
    np.testing.assert_allclose(found[4].ravel(), [0, 1, 2, 3, 4, 5, 6, 6, 0, 0])
    assert error.startswith("a picture is ImageData")
