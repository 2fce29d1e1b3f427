// The second part: models in WebAssembly.

// Endings of modules by what the engine must have, the best first, and a module to ask it by.
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
const PAGE = 65536, MOST = 2 ** 32, WORD = 8, STACK = 2 ** 20;
// Memory of workers (backend/wasm/run_text.py): bytes of a context, and of the words where they meet.
const CONTEXT = 64, TEAM = 320, FAILURE = 256, SPINS = 260, EPOCH = 64, DONE = 192;
const FAULT = -1;
const LOOKS = 20000; // at a word before a worker sleeps, some 20 µs
const SMALL = 2 ** 22; // bytes of weights and memory; a run on less is over before another worker is awake
const OWN = "tilewright"; // the name of workers that run this file
const onPage = "document" in globalThis;
const cores = () => globalThis.navigator?.hardwareConcurrency ?? builtin("node:os")?.availableParallelism() ?? 1;
const canShare = globalThis.crossOriginIsolated ?? "SharedArrayBuffer" in globalThis;
const has = (feature) => WebAssembly.validate(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, ...PROBES[feature]));
/** The feature by which this engine's variant of a model is chosen. */
export const feature = () => VARIANTS.map(([name]) => name).find(has) ?? "";
/** The module's bytes for a memory that threads share: a bit of its import of the memory says so. */
function shared(bytes) {
  const words = [3, ...encoded("env"), 6, ...encoded("memory"), 2], copy = bytes.slice();
  const at = copy.findIndex((_, i) => words.every((byte, j) => copy[i + j] === byte));
  if (at >= 0) copy[at + words.length] |= 2;
  return copy;
}

async function compile(source, isShared) {
  try {
    if (!isShared && !isBytes(source) && source.protocol.startsWith("http")) {
      const response = await get(source), type = response.headers.get("content-type") ?? "";
      if (type.startsWith("application/wasm")) return await WebAssembly.compileStreaming(response);
      return await WebAssembly.compile(await response.arrayBuffer());
    }
    const bytes = await read(source);
    return await WebAssembly.compile(isShared ? shared(bytes) : bytes);
  } catch (error) {
    if (error instanceof TilewrightError) throw error;
    throw new TilewrightError(`${isBytes(source) ? "the module" : source.href} is no WebAssembly module that this ` +
      `engine takes: ${error.message}`);
  }
}

/** The first module of a list that is there. */
async function first([source, ...others], isShared) {
  try {
    return await compile(source, isShared);
  } catch (error) {
    if (error.isMissing && others.length) return first(others, isShared);
    throw error;
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

function imports(module, memory) {
  const env = { memory };
  for (const { name, kind } of WebAssembly.Module.imports(module)) {
    if (kind === "memory") continue;
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

/** Modules to try, and the weights: bytes, or URLs as text. */
function located(source, weights) {
  if (isBytes(source)) {
    return { modules: [source], weights: isBytes(weights) || weights === undefined ? weights : absolute(weights) };
  }
  const base = source === undefined ? new URL("./$NAME", import.meta.url).href : absolute(source);
  const stem = base.replace(/(\.relaxed)?\.wasm(?=$|[?#])/, "");
  const usable = VARIANTS.filter(([feature]) => has(feature));
  if (!usable.length) throw new TilewrightError(`this engine has no ${NEEDS[VARIANTS.at(-1)[0]]}`);
  const [, path, query] = /^([^?#]*)(.*)$/.exec(stem);
  const modules = stem !== base ? [base] : usable.map(([, ending]) => path + ending + query);
  if (weights === undefined) return { modules, weights: `${path}.bin${query}` };
  return { modules, weights: isBytes(weights) ? weights : absolute(weights) };
}

/**
 * Load the model: by default the module and the weights beside this file, the best variant for this engine.
 * `source` is the URL of another model, with or without .wasm, or the bytes of a module, `weights` those of its
 * weights. On a page the model runs in a web worker, so that the page stays responsive, unless `worker` is false;
 * `threads` share the work where the engine lets them share memory.
 */
export async function load(source, { weights, threads, worker = onPage } = {}) {
  const files = located(source, weights);
  if (threads > 1 && !canShare) {
    throw new TilewrightError("threads need SharedArrayBuffer: serve the page over https with the headers " +
      "Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp, or leave threads out");
  }
  if (worker) return Remote.open({ files, threads });
  if (threads > 1 && onPage) throw new TilewrightError("a page cannot wait for threads: leave out { worker: false }");
  return Model.open(files, onPage ? 1 : threads);
}

/** A loaded model in this thread: `inputs`, `outputs` (name, shape, dtype), `threads`, `run` and `close`. */
export class Model extends Fed {
  static async open({ modules, weights }, threads) {
    const isShared = canShare && threads !== 1;
    const module = await first(modules.map(opened), isShared);
    try {
      const [section] = WebAssembly.Module.customSections(module, "tilewright");
      if (!section) throw new TilewrightError("the module is no model of Tilewright: it has no description");
      const about = JSON.parse(new TextDecoder().decode(section), revived);
      if (about.format !== 3) throw new TilewrightError("it is of another version of Tilewright than this file");
      const arena = Math.max(0, ...about.pieces.map((piece) => piece.arena));
      const usual = about.weights + arena < SMALL ? 1 : Math.min(4, cores());
      const model = new Model(about, isShared ? Math.min(threads ?? usual, about.workers) : 1, isShared);
      await model._start(module);
      await model._fill(opened(weights));
      return model;
    } catch (error) {
      if (error instanceof TilewrightError) throw error;
      throw new TilewrightError(`the module is damaged, or of another version of Tilewright: ${error.message}`);
    }
  }

  constructor(about, threads, isShared) {
    super();
    ({ inputs: this.inputs, outputs: this.outputs } = about.program ? about : about.pieces[0]);
    this.threads = threads;
    this._about = about;
    this._helpers = [];
    const pieces = this._pieces = about.pieces, most = (count) => Math.max(0, ...pieces.map(count));
    const slots = most((piece) => piece.inputs.length + piece.outputs.length + 3 + (piece.plan ? 1 : 0));
    this._weights = up(about.heap, about.alignment);
    this._slots = up(this._weights + about.weights + WORD, about.alignment); // the number of a piece lies before them
    this._dims = this._slots + WORD * slots;
    this._plan = this._dims + WORD * most((piece) => piece.dims?.length ?? 0);
    this._contexts = up(this._plan + WORD * most((piece) => piece.plan ?? 0), CONTEXT);
    this._team = this._contexts + CONTEXT * threads;
    this._stacks = up(this._team + TEAM, about.alignment);
    this._free = this._stacks + STACK * (threads - 1);
    const isFixed = pieces.every((piece) => !piece.plan);
    const end = Math.max(this._free, ...pieces.filter((piece) => !piece.plan).map((piece) => this._fixed(piece).end));
    if (!(end <= MOST)) throw new TilewrightError(`the model needs ${end} bytes of 32-bit addresses`);
    const initial = Math.ceil(end / PAGE), maximum = isShared && isFixed ? initial : MOST / PAGE;
    try {
      this._memory = new WebAssembly.Memory({ initial, maximum, shared: isShared });
    } catch (error) {
      throw new TilewrightError(`the model needs ${initial / 16} MiB of memory, which this engine does not give: ` +
        error.message);
    }
    if (!about.program) return;
    if (typeof programOf === "undefined") {
      throw new TilewrightError("the module is a program, which this file of a model without one cannot run: load it " +
        "with its own, or with tilewright-web");
    }
    this._program = programOf(about, (number, values) => this._call(number, values), ({ dtype, shape, offset }) => {
      const data = new ARRAYS[dtype](this._memory.buffer, this._weights + offset, product(shape)).slice();
      return { data, shape, dtype };
    });
  }

  /** The instance, and those of helpers in workers of their own. */
  async _start(module) {
    this._exports = (await WebAssembly.instantiate(module, imports(module, this._memory))).exports;
    for (let worker = 0; worker < this.threads; worker++) {
      new Int32Array(this._memory.buffer, this._contexts + CONTEXT * worker, 3).set([worker, this.threads, this._team]);
    }
    new Int32Array(this._memory.buffer, this._team + SPINS, 1)[0] = this.threads > cores() ? 0 : LOOKS;
    for (let worker = 1; worker < this.threads; worker++) {
      const helper = await spawn();
      this._helpers.push(helper);
      await helper.ask({ help: { module, memory: this._memory, slots: this._slots, team: this._team,
        context: this._contexts + CONTEXT * worker, stack: this._stacks + STACK * worker } });
    }
  }

  /** End the threads; the model cannot be run any more. */
  close() {
    this._exports = undefined;
    for (const helper of this._helpers.splice(0)) helper.end();
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

  /** The layout of a piece of fixed sizes. */
  _fixed(piece) {
    const shapes = [piece.inputs, piece.outputs].map((specs) => specs.map(({ shape }) => shape));
    return piece.layout ??= this._addresses(piece, ...shapes, piece.arena, piece.scratch);
  }

  /** Addresses of inputs, outputs, arena and scratch for shapes. */
  _addresses(piece, inputs, outputs, arena, scratch) {
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
    const given = piece.inputs.map((spec, i) => tensor(spec, inputs[i]));
    const made = piece.outputs.map((spec, i) => tensor(spec, outputs[i]));
    const isPlanned = Boolean(piece.plan);
    return { given, made, arena: take(arena), scratch: take(scratch * this.threads), end, isPlanned };
  }

  /** Addresses in the slots, where the module finds them. */
  _lay_out(number, { given, made, arena, scratch, end, isPlanned }) {
    const addresses = [...given, ...made].map((one) => one.address).concat(this._weights, arena, scratch);
    if (isPlanned) addresses.push(this._plan);
    this._reach(end);
    const words = new BigUint64Array(this._memory.buffer, this._slots - WORD, addresses.length + 1);
    [number, ...addresses].forEach((address, i) => { words[i] = BigInt(address); });
  }

  /** The weights, streamed into the module's memory. */
  async _fill(source) {
    const { weights } = this._about;
    if (!weights) return;
    await weightsOf(source, weights, (part, position) => {
      new Uint8Array(this._memory.buffer, this._weights + position, part.length).set(part);
    });
  }

  /**
   * Run once on typed arrays, or tensors { data, shape }, by the inputs' names. Results are tensors by name.
   */
  async run(feeds) {
    const values = this._values(feeds);
    if (!this._exports) throw new TilewrightError("the model was closed, or stopped with a fault: load it again");
    const found = this._program ? await this._program(values) : this._call(0, values);
    return Object.fromEntries(found.map((value, i) => [this.outputs[i].name, value]));
  }

  /** The results of a piece; what it took from the same tensors before is still in the memory. */
  _call(number, values) {
    const piece = this._pieces[number], held = this._held?.number === number ? this._held : undefined;
    this._held = undefined;
    if (this._program) this._fitting(piece, values);
    const isSame = held?.values.every(({ shape }, i) => shape.every((size, axis) => size === values[i].shape[axis]));
    const layout = isSame ? held.layout : piece.plan ? this._planned(number, values) : this._fixed(piece);
    if (!isSame) this._lay_out(number, layout);
    layout.given.forEach(({ array, count, address }, i) => {
      if (!isSame || values[i] !== held.values[i]) new array(this._memory.buffer, address, count).set(values[i].data);
    });
    let code;
    try {
      code = this._exports.run(this._slots, this._contexts);
    } catch (error) {
      if (this.threads > 1) this.close();
      throw new TilewrightError(`the model stopped with a fault; please report it with the model: ${error.message}`);
    }
    if (code === FAULT) {
      this.close();
      throw new TilewrightError("the model stopped with a fault in a thread; please report it with the model");
    }
    if (code) throw new TilewrightError(`the model stopped: ${this._about.messages[code - 1] ?? `code ${code}`}`);
    this._held = { number, layout, values: [...values] };
    return layout.made.map(({ spec, array, shape, count, address }) =>
      ({ data: new array(this._memory.buffer, address, count).slice(), shape: [...shape], dtype: spec.dtype }));
  }

  /** Values of a program that a segment takes, of the type and the sizes that it knows. */
  _fitting({ inputs }, values) {
    inputs.forEach((spec, i) => {
      const { dtype, shape } = values[i] ?? {};
      if (dtype === spec.dtype && suits(shape, spec.shape)) return;
      throw new TilewrightError(`a part of the model takes ${spelled(spec)}, and gets ${dtype}[${shape}]`);
    });
  }

  /** The layout for symbolic sizes, which the module plans. */
  _planned(number, values) {
    const piece = this._pieces[number], { inputs, dims, equal, checks, plan, table, stride } = piece;
    const known = Object.fromEntries(dims.map(([name, input, axis]) => [name, values[input].shape[axis]]));
    for (const [input, axis, value] of equal) {
      const wanted = size(value, known), got = values[input].shape[axis];
      if (wanted === got) continue;
      throw new TilewrightError(`${spelled(inputs[input])}: axis ${axis} is ${got}, not ${wanted}`);
    }
    const words = new BigInt64Array(this._memory.buffer, this._dims, dims.length);
    dims.forEach(([name], i) => { words[i] = BigInt(known[name]); });
    const code = this._exports[`plan${number}`](this._dims, this._plan, 0);
    if (code) throw new TilewrightError(`the sizes do not fit the model: ${checks[code - 1] ?? `code ${code}`}`);
    const found = Array.from(new BigInt64Array(this._memory.buffer, this._plan, plan), Number);
    const rest = found.slice(table + 1);
    const outputs = piece.outputs.map(({ shape }) => rest.splice(0, shape.length));
    return this._addresses(piece, values.map(({ shape }) => shape), outputs, found[table], found[stride]);
  }
}

/** The life of a helper: its shares of all runs. */
async function assist({ module, memory, slots, team, context, stack }, begun) {
  const { exports } = await WebAssembly.instantiate(module, imports(module, memory));
  exports.__stack_pointer.value = stack;
  begun();
  try {
    exports.serve(slots, context);
  } catch { // let nobody wait for this worker
    const words = new Int32Array(memory.buffer, team, TEAM / 4);
    Atomics.store(words, FAILURE / 4, FAULT);
    for (const word of [EPOCH, DONE]) {
      Atomics.add(words, word / 4, 1);
      Atomics.notify(words, word / 4);
    }
  }
}
