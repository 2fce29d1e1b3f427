// A model compiled to WebAssembly, run in the page: its inputs from an image, random or zero; its outputs and the time.

import { artifact, artifactJson } from "./api.js";
import { facts, h, say, seconds } from "./dom.js";

const ARRAYS = { float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array };
const BEST = 5;

/** The module in memory: `run(arrays)` takes a typed array an input, and yields one an output. */
async function load(module, about, weights) {
  const { exports } = (await WebAssembly.instantiate(module)).instance;
  let end = exports.__heap_base.value;
  const take = (size) => { const start = Math.ceil(end / 64) * 64; end = start + size; return start; };
  const weightsAt = take(about.weights), workspace = take(about.workspace), tensors = [...about.inputs, ...about.outputs];
  const at = tensors.map((tensor) => take(tensor.bytes)), table = take(4 * tensors.length);
  const missing = Math.ceil((end - exports.memory.buffer.byteLength) / 65536);
  if (missing > 0) exports.memory.grow(missing);
  const memory = exports.memory.buffer;
  new Uint32Array(memory, table, at.length).set(at);
  if (about.weights) { new Uint8Array(memory).set(weights, weightsAt); exports.set_weights(weightsAt); }
  const view = (i) => new (ARRAYS[tensors[i].dtype] ?? Uint8Array)(memory, at[i], tensors[i].shape.reduce((a, b) => a * b, 1));
  return (arrays) => {
    arrays.forEach((array, i) => view(i).set(array));
    const code = exports.run(table, workspace, 1);
    if (code) throw new Error(`the model failed with code ${code}`);
    return about.outputs.map((_, i) => view(about.inputs.length + i).slice());
  };
}

const isImage = ({ shape, dtype }) => dtype === "float32" && shape.length === 4 && shape[0] === 1 && ([1, 3].includes(shape[1]) || [1, 3].includes(shape[3]));

/** The pixels of an image file for an input, from 0 to 1, by channels first or last. */
async function pixels(file, { shape }) {
  const last = ![1, 3].includes(shape[1]), [channels, height, width] = last ? [shape[3], shape[1], shape[2]] : shape.slice(1);
  const pen = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d");
  pen.drawImage(await createImageBitmap(file), 0, 0, width, height);
  const { data } = pen.getImageData(0, 0, width, height), found = new Float32Array(channels * height * width);
  for (let i = 0; i < height * width; i += 1) for (let c = 0; c < channels; c += 1) {
    found[last ? i * channels + c : c * height * width + i] = (channels === 1 ? (data[4 * i] + data[4 * i + 1] + data[4 * i + 2]) / 3 : data[4 * i + c]) / 255;
  }
  return found;
}

function filled(tensor, random) {
  const Kind = ARRAYS[tensor.dtype] ?? Uint8Array, array = new Kind(tensor.shape.reduce((a, b) => a * b, 1));
  if (random && /^float/.test(tensor.dtype)) for (let i = 0; i < array.length; i += 1) array[i] = Math.random() * 2 - 1;
  return array;
}

function shown(tensor, array) {
  const numbers = Array.from(array, Number), order = numbers.map((_, i) => i).sort((a, b) => numbers[b] - numbers[a]).slice(0, BEST);
  let least = Infinity, most = -Infinity;
  for (const one of numbers) { least = Math.min(least, one); most = Math.max(most, one); }
  return [h("h3", {}, tensor.name), facts([["result", `${tensor.shape.join("×")} ${tensor.dtype}`], ["from", `${least.toPrecision(5)} to ${most.toPrecision(5)}`],
    ["largest", order.map((i) => `[${i}] ${numbers[i].toPrecision(5)}`).join(", ")]])];
}

/** The panel of a job whose artifact is a module. */
export function tryIt(job) {
  const panel = h("section", { class: "card" }, h("p", {}, "Loading the module…"));
  begin(job, panel).catch((error) => panel.replaceChildren(h("p", { class: "note bad", role: "alert" }, error.message)));
  return panel;
}

async function begin(job, panel) {
  const about = await artifactJson(job.id, "model.json");
  const [module, weights] = await Promise.all([artifact(job.id, "model.wasm"), about.weights ? artifact(job.id, "model.weights") : new Blob()].map(async (one) => (await one).arrayBuffer()));
  const run = await load(module, about, new Uint8Array(weights)), files = new Map(), results = h("div", { "aria-live": "polite" });
  const ways = about.inputs.map((tensor, i) => {
    const way = h("select", { "aria-label": `Values of ${tensor.name}` }, h("option", { value: "random" }, "random"), h("option", { value: "zero" }, "zeros"), isImage(tensor) ? h("option", { value: "image" }, "an image") : null);
    const file = isImage(tensor) ? h("input", { type: "file", accept: "image/*", "aria-label": `Image for ${tensor.name}`, onchange: () => { files.set(i, file.files[0]); way.value = "image"; } }) : null;
    return { tensor, way, line: h("p", { class: "try" }, h("b", {}, tensor.name), h("span", { class: "minor" }, `${tensor.shape.join("×")} ${tensor.dtype}`), way, file) };
  });
  const go = async () => {
    const arrays = await Promise.all(ways.map(({ tensor, way }, i) => (way.value === "image" && files.get(i) ? pixels(files.get(i), tensor) : filled(tensor, way.value === "random"))));
    const before = performance.now(), made = run(arrays), took = (performance.now() - before) / 1e3;
    results.replaceChildren(h("p", {}, "One thread, in this page: ", h("b", {}, seconds(took))), ...made.flatMap((array, i) => shown(about.outputs[i], array)));
    say(`It took ${seconds(took)}`);
  };
  panel.replaceChildren(h("h2", {}, "In this page"), h("p", { class: "minor" }, "The module runs here, on this machine; nothing is sent. Pixels of images are from 0 to 1."), ...ways.map((one) => one.line),
    h("button", { type: "button", class: "main", onclick: () => go().catch((error) => results.replaceChildren(h("p", { class: "note bad" }, error.message))) }, "Run"), results);
}
