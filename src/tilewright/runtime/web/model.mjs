// $NAME: a model compiled by Tilewright $VERSION for $TARGET.
//
//     import { load } from "./$NAME.mjs";
//     const model = await load();
//     const { $OUTPUT } = await model.run({ $INPUT: new $ARRAY($COUNT) });   // $OUTPUT.data, $OUTPUT.shape
//
// Kernels, plan and run loop are in the module of WebAssembly, weights in $NAME.bin. It needs no other file.

// Modules by what the engine must have, the best first, and a module to ask it by.
const VARIANTS = $VARIANTS;
const PROBES = {
  "": [],
  simd128: [1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11],
  "relaxed-simd": [1, 8, 1, 96, 3, 123, 123, 123, 1, 123, 3, 2, 1, 0, 10, 13, 1, 11, 0, 32, 0, 32, 1, 32, 2, 253, 133,
    2, 11],
};
const NEEDS = {
  simd128: "128-bit vectors of WebAssembly (Chrome 91, Firefox 89, Safari 16.4 and later have them); update it, or " +
    'compile the model with --target "wasm -mattr=-simd128"',
  "relaxed-simd": "relaxed SIMD of WebAssembly (Chrome 114, Firefox 145 and later have it); update it, or compile " +
    "the model with --target wasm",
};
const PAGE = 65536, MOST = 2 ** 32, WORD = 8;
/** The typed array of each type of elements. */
export const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array, bool: Uint8Array,
  int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array,
  uint64: BigUint64Array, float16: globalThis.Float16Array ?? Uint16Array, bfloat16: Uint16Array,
};

/** An error whose message says what to do. */
export class TilewrightError extends Error {
  name = "TilewrightError";
}

const has = (feature) => WebAssembly.validate(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, ...PROBES[feature]));
const isBytes = (value) => value instanceof ArrayBuffer || ArrayBuffer.isView(value);
const asBytes = (value) => ArrayBuffer.isView(value)
  ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : new Uint8Array(value);
const up = (value, step) => Math.ceil(value / step) * step;
const product = (shape) => shape.reduce((all, size) => all * size, 1);
const spelled = ({ name, dtype, shape }) => `${name}: ${dtype}[${shape.join(", ")}]`;

/** The file at a URL as chunks of bytes. */
async function* chunks(url) {
  const fs = url.protocol === "file:" && globalThis.process?.getBuiltinModule?.("node:fs");
  let parts;
  try {
    parts = fs ? fs.createReadStream(url, { highWaterMark: 1 << 20 }) : await body(url);
    yield* parts;
  } catch (error) {
    if (error instanceof TilewrightError) throw error;
    throw new TilewrightError(`${url.href} cannot be read: ${error.message}`);
  }
}

async function* body(url) {
  const response = await get(url);
  const reader = response.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
}

async function get(url) {
  const response = await fetch(url);
  if (!response.ok) throw new TilewrightError(`${url.href} cannot be read: ${response.status} ${response.statusText}`);
  return response;
}

async function compile(source) {
  try {
    if (isBytes(source)) return await WebAssembly.compile(source);
    if (source.protocol.startsWith("http")) {
      const response = await get(source);
      const type = response.headers.get("content-type") ?? "";
      return await (type.startsWith("application/wasm")
        ? WebAssembly.compileStreaming(response) : WebAssembly.compile(await response.arrayBuffer()));
    }
    const parts = [];
    for await (const part of chunks(source)) parts.push(part);
    return await WebAssembly.compile(await new Blob(parts).arrayBuffer());
  } catch (error) {
    if (error instanceof TilewrightError) throw error;
    throw new TilewrightError(`${isBytes(source) ? "the module" : source.href} is no WebAssembly module that this ` +
      `engine takes: ${error.message}`);
  }
}

// Functions of the C library by name, which float64 mathematics calls.
const LIBRARY = {
  fmod: (a, b) => a % b,
  erf: (x) => { // Maclaurin's series, and the continued fraction of erfc from 3 on
    const t = Math.abs(x);
    if (t > 6) return Math.sign(x);
    let sum = t, term = t;
    if (t < 3) {
      for (let n = 1; Math.abs(term) > 1e-17 * sum; n++) sum += (term *= -t * t / n) / (2 * n + 1);
      return Math.sign(x) * sum * 2 / Math.sqrt(Math.PI);
    }
    let tail = 0;
    for (let n = 60; n > 0; n--) tail = n / 2 / (t + tail);
    return Math.sign(x) * (1 - Math.exp(-t * t) / (t + tail) / Math.sqrt(Math.PI));
  },
};

function imports(module) {
  const env = {};
  for (const { name } of WebAssembly.Module.imports(module)) {
    const plain = name in LIBRARY || name in Math ? name : name.replace(/f$/, "");
    env[name] = LIBRARY[plain] ?? Math[plain];
    if (!env[name]) throw new TilewrightError(`the module needs a function ${name}, which this file does not have`);
  }
  return { env };
}

/** A size: a number, the name of a dimension, or an operator with two sizes. */
function size(value, dims) {
  if (typeof value === "number") return value;
  if (typeof value === "string") return dims[value];
  const [a, b] = [size(value[1], dims), size(value[2], dims)];
  return { "+": a + b, "-": a - b, "*": a * b, "//": Math.floor(a / b), "%": a - b * Math.floor(a / b),
    min: Math.min(a, b), max: Math.max(a, b) }[value[0]] ?? NaN;
}

/**
 * Load the model: by default the module and the weights beside this file, the best variant for this engine.
 * `source` is the URL or the bytes of another module, `weights` those of its weights.
 */
export async function load(source, { weights } = {}) {
  let chosen = source;
  if (source === undefined) {
    const found = VARIANTS.find(([feature]) => has(feature));
    if (!found) throw new TilewrightError(`this engine has no ${NEEDS[VARIANTS.at(-1)[0]]}`);
    chosen = new URL(found[1], import.meta.url);
  }
  if (!isBytes(chosen)) chosen = new URL(chosen, globalThis.location?.href ?? import.meta.url);
  if (weights === undefined && !isBytes(chosen)) weights = new URL(chosen.href.replace(/(\.relaxed)?\.wasm/, ".bin"));
  if (typeof weights === "string") weights = new URL(weights, globalThis.location?.href ?? import.meta.url);
  const module = await compile(chosen);
  const [section] = WebAssembly.Module.customSections(module, "tilewright");
  if (!section) throw new TilewrightError("the module is no model of Tilewright: it has no description");
  const about = JSON.parse(new TextDecoder().decode(section));
  if (about.format !== 1) throw new TilewrightError("the module is of another version of Tilewright than this file");
  const instance = await WebAssembly.instantiate(module, imports(module));
  const model = new Model(about, instance.exports);
  await model._fill(weights);
  return model;
}

/** A loaded model: `inputs`, `outputs` (name, shape, dtype) and `run`. */
export class Model {
  constructor(about, exports) {
    this.inputs = about.inputs;
    this.outputs = about.outputs;
    this._about = about;
    this._exports = exports;
    this._memory = exports.memory;
    const slots = about.inputs.length + about.outputs.length + 3 + (about.plan ? 1 : 0);
    this._weights = up(exports.__heap_base.value, about.alignment);
    this._slots = up(this._weights + about.weights, about.alignment);
    this._dims = this._slots + WORD * slots;
    this._plan = this._dims + WORD * (about.dims?.length ?? 0);
    this._free = up(this._plan + WORD * (about.plan ?? 0), about.alignment);
    if (!about.plan) {
      this._layout = this._lay_out(about.inputs.map(({ shape }) => shape), about.outputs.map(({ shape }) => shape),
        about.arena, about.scratch);
    } else this._reach(this._free);
  }

  /** Memory up to byte `end`. */
  _reach(end) {
    const missing = Math.ceil((end - this._memory.buffer.byteLength) / PAGE);
    try {
      if (end > MOST) throw new RangeError("addresses have 32 bits");
      if (missing > 0) this._memory.grow(missing);
    } catch (error) {
      throw new TilewrightError(`the model needs ${Math.ceil(end / 2 ** 20)} MiB of memory, which this engine does ` +
        `not give: ${error.message}`);
    }
  }

  /** Addresses of inputs, outputs, arena and scratch for shapes, written into the slots. */
  _lay_out(inputs, outputs, arena, scratch) {
    let end = this._free;
    const take = (bytes) => {
      const start = end;
      end = up(end + bytes, this._about.alignment);
      return start;
    };
    const tensor = (spec, shape) => {
      const array = ARRAYS[spec.dtype], count = product(shape);
      return { spec, array, shape, count, address: take(count * array.BYTES_PER_ELEMENT) };
    };
    const given = this.inputs.map((spec, i) => tensor(spec, inputs[i]));
    const made = this.outputs.map((spec, i) => tensor(spec, outputs[i]));
    const addresses = [...given.map((one) => one.address), ...made.map((one) => one.address), this._weights,
      take(arena), take(scratch)];
    if (this._about.plan) addresses.push(this._plan);
    this._reach(end);
    const words = new BigUint64Array(this._memory.buffer, this._slots, addresses.length);
    addresses.forEach((address, i) => { words[i] = BigInt(address); });
    return { given, made };
  }

  /** The weights, streamed into the module's memory. */
  async _fill(source) {
    const { weights } = this._about;
    if (!weights) return;
    if (source === undefined) throw new TilewrightError("a module given as bytes needs { weights }: bytes or a URL");
    let position = 0;
    for await (const part of isBytes(source) ? [asBytes(source)] : chunks(source)) {
      if (position + part.length <= weights) {
        new Uint8Array(this._memory.buffer, this._weights + position, part.length).set(part);
      }
      position += part.length;
    }
    if (position !== weights) {
      throw new TilewrightError(`the weights have ${position} bytes and the module needs ${weights}: they are of ` +
        "another compilation, or cut short; copy all files of the folder");
    }
  }

  /**
   * Run once on typed arrays, or tensors { data, shape }, by the inputs' names. Results are tensors by name.
   */
  async run(feeds) {
    const values = this.inputs.map((spec) => this._value(spec, feeds));
    const unknown = Object.keys(feeds).find((name) => !this.inputs.some((spec) => spec.name === name));
    if (unknown) throw new TilewrightError(`there is no input ${unknown}; the model takes ${this._takes()}`);
    const { given, made } = this._layout ?? this._planned(values);
    given.forEach(({ array, count, address }, i) => new array(this._memory.buffer, address, count).set(values[i].data));
    let code;
    try {
      code = this._exports.run(this._slots);
    } catch (error) {
      throw new TilewrightError(`the model stopped with a fault; please report it with the model: ${error.message}`);
    }
    if (code) throw new TilewrightError(`the model stopped: ${this._about.messages[code - 1] ?? `code ${code}`}`);
    return Object.fromEntries(made.map(({ spec, array, shape, count, address }) => [spec.name,
      { data: new array(this._memory.buffer, address, count).slice(), shape: [...shape], dtype: spec.dtype }]));
  }

  _takes() {
    return this.inputs.map(spelled).join(", ") || "nothing";
  }

  /** The tensor given for an input, checked. */
  _value(spec, feeds) {
    const value = feeds?.[spec.name];
    if (value === undefined) throw new TilewrightError(`the input ${spec.name} is missing; the model takes ${this._takes()}`);
    const { data, shape = spec.shape } = ArrayBuffer.isView(value) ? { data: value } : value;
    const array = ARRAYS[spec.dtype];
    if (!(data instanceof array)) {
      throw new TilewrightError(`${spelled(spec)}: give a ${array.name}, not a ${data?.constructor?.name ?? typeof data}`);
    }
    const fits = shape.length === spec.shape.length
      && spec.shape.every((size, i) => typeof size !== "number" || size === shape[i]);
    if (!fits) throw new TilewrightError(`${spelled(spec)}: got the shape [${shape.join(", ")}]`);
    if (shape.some((size) => !Number.isInteger(size) || size < 0)) {
      throw new TilewrightError(`${spelled(spec)} has open sizes: give { data, shape }`);
    }
    if (product(shape) !== data.length) {
      throw new TilewrightError(`${spelled(spec)}: ${product(shape)} elements are wanted, ${data.length} given`);
    }
    return { data, shape };
  }

  /** The layout for symbolic sizes, which the module plans. */
  _planned(values) {
    const { dims, equal, checks, plan, table, stride } = this._about;
    const known = Object.fromEntries(dims.map(([name, input, axis]) => [name, values[input].shape[axis]]));
    for (const [input, axis, value] of equal) {
      const wanted = size(value, known), got = values[input].shape[axis];
      if (wanted !== got) throw new TilewrightError(`${spelled(this.inputs[input])}: axis ${axis} is ${got}, not ${wanted}`);
    }
    const words = new BigInt64Array(this._memory.buffer, this._dims, dims.length + plan);
    dims.forEach(([name], i) => { words[i] = BigInt(known[name]); });
    const code = this._exports.plan(this._dims, this._plan, 0);
    if (code) throw new TilewrightError(`the sizes do not fit the model: ${checks[code - 1] ?? `code ${code}`}`);
    const found = Array.from(words.subarray(dims.length), Number);
    const rest = found.slice(table + 1);
    const outputs = this.outputs.map(({ shape }) => rest.splice(0, shape.length));
    return this._lay_out(values.map(({ shape }) => shape), outputs, found[table], found[stride]);
  }
}
