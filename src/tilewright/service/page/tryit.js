// A model compiled to WebAssembly, run in the page: its inputs from an image, random or zero; its outputs and the time.

import { artifact } from "./api.js";
import { facts, h, say, seconds } from "./dom.js";

const BEST = 5;

/** The job's module that this browser takes, the one with more features first, by the loader that is downloaded too. */
async function loaded(job) {
  const { load } = await import("./model.mjs"), has = (name) => job.artifacts.some((one) => one.name === name);
  const contents = async (name) => (await artifact(job.id, name)).arrayBuffer();
  const weights = has("model.bin") ? await contents("model.bin") : new ArrayBuffer();
  if (has("model.relaxed.wasm")) {
    try { return await load(await contents("model.relaxed.wasm"), { weights }); } catch { /* an older browser */ }
  }
  return load(await contents("model.wasm"), { weights });
}

const fixed = (shape) => shape.map((size) => (typeof size === "number" ? size : 1)), length = (shape) => shape.reduce((a, b) => a * b, 1);
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

function filled(arrays, tensor, random) {
  const array = new arrays[tensor.dtype](length(tensor.shape));
  if (random && /^float/.test(tensor.dtype)) for (let i = 0; i < array.length; i += 1) array[i] = Math.random() * 2 - 1;
  return array;
}

function shown(name, { data, shape, dtype }) {
  const numbers = Array.from(data, Number), order = numbers.map((_, i) => i).sort((a, b) => numbers[b] - numbers[a]).slice(0, BEST);
  let least = Infinity, most = -Infinity;
  for (const one of numbers) { least = Math.min(least, one); most = Math.max(most, one); }
  return [h("h3", {}, name), facts([["result", `${shape.join("×")} ${dtype}`], ["from", `${least.toPrecision(5)} to ${most.toPrecision(5)}`],
    ["largest", order.map((i) => `[${i}] ${numbers[i].toPrecision(5)}`).join(", ")]])];
}

/** The panel of a job whose artifact is a module. */
export function tryIt(job) {
  const panel = h("section", { class: "card" }, h("p", {}, "Loading the module…"));
  begin(job, panel).catch((error) => panel.replaceChildren(h("p", { class: "note bad", role: "alert" }, error.message)));
  return panel;
}

async function begin(job, panel) {
  const [model, { ARRAYS }] = await Promise.all([loaded(job), import("./model.mjs")]);
  const files = new Map(), results = h("div", { "aria-live": "polite" }), inputs = model.inputs.map((one) => ({ ...one, shape: fixed(one.shape) }));
  const ways = inputs.map((tensor, i) => {
    const way = h("select", { "aria-label": `Values of ${tensor.name}` }, h("option", { value: "random" }, "random"), h("option", { value: "zero" }, "zeros"), isImage(tensor) ? h("option", { value: "image" }, "an image") : null);
    const file = isImage(tensor) ? h("input", { type: "file", accept: "image/*", "aria-label": `Image for ${tensor.name}`, onchange: () => { files.set(i, file.files[0]); way.value = "image"; } }) : null;
    return { tensor, way, line: h("p", { class: "try" }, h("b", {}, tensor.name), h("span", { class: "minor" }, `${tensor.shape.join("×")} ${tensor.dtype}`), way, file) };
  });
  const go = async () => {
    const arrays = await Promise.all(ways.map(({ tensor, way }, i) => (way.value === "image" && files.get(i) ? pixels(files.get(i), tensor) : filled(ARRAYS, tensor, way.value === "random"))));
    const feeds = Object.fromEntries(inputs.map(({ name, shape }, i) => [name, { data: arrays[i], shape }]));
    const before = performance.now(), made = await model.run(feeds), took = (performance.now() - before) / 1e3;
    results.replaceChildren(h("p", {}, "One thread, in this page: ", h("b", {}, seconds(took))), ...model.outputs.flatMap(({ name }) => shown(name, made[name])));
    say(`It took ${seconds(took)}`);
  };
  panel.replaceChildren(h("h2", {}, "In this page"), h("p", { class: "minor" }, "The module runs here, on this machine; nothing is sent. Pixels of images are from 0 to 1, open sizes 1."), ...ways.map((one) => one.line),
    h("button", { type: "button", class: "main", onclick: () => go().catch((error) => results.replaceChildren(h("p", { class: "note bad" }, error.message))) }, "Run"), results);
}
