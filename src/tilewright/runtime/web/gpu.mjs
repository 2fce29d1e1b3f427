// The third part: models on the browser's GPU, by WebGPU.

// Limits of a device that models come to; as much of each is requested as the adapter has.
const LIMITS = ["maxBufferSize", "maxStorageBufferBindingSize", "maxStorageBuffersPerShaderStage",
  "maxComputeWorkgroupStorageSize", "maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupSizeY", "maxComputeWorkgroupSizeZ", "maxComputeWorkgroupsPerDimension"];
const CLOCK = "timestamp-query"; // a feature that profiling needs
const FEATURES = { "shader-f16": "f16", subgroups: "subgroups" }; // kernels have lines for both, and name it so
const BLOCK = /^ *\/\/#if (\S+)\n([^]*?)^ *\/\/#else\n([^]*?)^ *\/\/#end\n/gm;
const ENDING = ".webgpu.json";
const USAGE = { weights: "STORAGE COPY_SRC COPY_DST", arena: "STORAGE COPY_SRC COPY_DST", inputs: "STORAGE COPY_SRC COPY_DST",
  outputs: "STORAGE COPY_SRC COPY_DST", bounce: "COPY_SRC COPY_DST", results: "COPY_DST MAP_READ", scalars: "UNIFORM",
  value: "COPY_SRC COPY_DST", times: "QUERY_RESOLVE COPY_SRC" };
const SPACES = ["weights", "arena", "inputs", "outputs"]; // by number in the arguments of launches
const SCOPES = ["validation", "out-of-memory"]; // of errors; popped in reverse
const KEPT = 16; // sets of sizes whose steps are kept
const words = (bytes) => Math.max(4, up(bytes, 4));

/** What to do where there is no WebGPU; "" where there is. */
export function obstacle() {
  if (globalThis.navigator?.gpu) return "";
  if (globalThis.isSecureContext === false) {
    return "WebGPU is only there on pages of https or of localhost: serve this page so, or compile with --target wasm";
  }
  return "this engine has no WebGPU (Chrome and Edge 113, Safari 26, Firefox 141 and later have it; on Linux enable " +
    "chrome://flags/#enable-unsafe-webgpu): update it, or compile the model with --target wasm";
}

async function adapterOf() {
  const missing = obstacle();
  if (missing) throw new TilewrightError(missing);
  const adapter = await globalThis.navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
  if (adapter) return adapter;
  throw new TilewrightError("WebGPU finds no GPU here: turn on graphics acceleration in the browser's settings, or " +
    "start Chrome with --enable-unsafe-webgpu --use-webgpu-adapter=swiftshader, which needs no GPU; or compile the " +
    "model with --target wasm");
}

/**
 * Load the model: by default the files beside this one. `source` is the URL of another model, with or without
 * .webgpu.json, or its bytes, `weights` those of its weights. Runs do not block the page.
 */
export async function load(source, { weights } = {}) {
  const base = isBytes(source) ? source : source === undefined ? new URL("./$NAME", import.meta.url).href : absolute(source);
  if (isBytes(base)) return Model.open(base, weights);
  const [, path, query] = /^([^?#]*?)(?:\.webgpu\.json)?([?#].*)?$/.exec(base), end = query ?? "";
  return Model.open(new URL(path + ENDING + end), weights ?? new URL(`${path}.bin${end}`));
}

/** A loaded model: `inputs`, `outputs` (name, shape, dtype), `device`, `dispatches` of a run, `run` and `close`. */
export class Model extends Fed {
  static async open(source, weights) {
    const adapter = await adapterOf(); // first: without one nothing is fetched
    let about;
    try {
      about = JSON.parse(new TextDecoder().decode(await read(source)), revived);
      if (about.format !== 3) throw new Error("it is of another version of Tilewright than this file");
    } catch (error) {
      if (error instanceof TilewrightError) throw error;
      throw new TilewrightError(`${source.href ?? "the model"} is no model for WebGPU: ${error.message}`);
    }
    const requiredLimits = Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]]));
    const requiredFeatures = [CLOCK, ...Object.keys(FEATURES)].filter((name) => adapter.features.has(name));
    const model = new Model(about, await adapter.requestDevice({ requiredLimits, requiredFeatures }), adapter.info);
    try {
      await model._build(isBytes(weights) || weights === undefined ? weights : opened(absolute(weights)));
    } catch (error) {
      model.close();
      throw error instanceof TilewrightError ? error
        : new TilewrightError(`${model.device} does not take the model: ${error.message}`);
    }
    return model;
  }

  constructor(about, gpu, info) {
    super();
    this.inputs = about.inputs;
    this.outputs = about.outputs;
    this.threads = 1;
    this.device = `WebGPU (${[info?.vendor, info?.architecture, info?.description].filter(Boolean).join(", ")})`;
    this._about = about;
    this._buffers = {};
    this._laid = new Map(); // by a piece and the shapes of its inputs: steps that are bound to buffers
    this._gpu = gpu;
    this._turn = Promise.resolve();
    gpu.addEventListener("uncapturederror", ({ error }) => { this._lost ??= `${this.device}: an error: ${error.message}`; });
    gpu.lost.then(({ message }) => { this._lost ??= `the GPU stopped: ${message}; load the model again`; });
  }

  /** Buffers, pipelines and bind groups; the weights are uploaded. */
  async _build(weights) {
    for (const kind of SCOPES) this._gpu.pushErrorScope(kind);
    const gpu = this._gpu, { kernels, weights: [size, starts] } = this._about;
    this._weights = parts(size, starts, gpu.limits.maxBufferSize).map(([start, end]) =>
      ({ start, end, buffer: this._buffer("weights", end - start, true) }));
    if (size) await weightsOf(weights, size, (part, position) => this._store(part, position));
    for (const { buffer } of this._weights) buffer.unmap();
    const modules = this._about.sources.map((rest) => gpu.createShaderModule({ code: textFor(this._about.shared + rest, gpu.features) }));
    this._pipelines = await Promise.all(kernels.map(([module, entryPoint]) =>
      gpu.createComputePipelineAsync({ layout: "auto", compute: { module: modules[module], entryPoint } })));
    await this._checked();
    for (const piece of this._about.pieces) {
      if (!piece.open) await this._fixed(piece, piece.inputs.map(({ shape }) => shape));
    }
    if (!this._about.program) return;
    this._program = programOf(this._about, (number, given) => this._called(this._about.pieces[number], given),
      ({ dtype, shape, offset }) => ({ dtype, shape, ...this._stored(offset) }), (value) => this._fetched(value));
  }

  /** The buffer that has the weights from `offset` on, and where there. */
  _stored(offset) {
    const { buffer, start } = this._weights.find((part) => part.start <= offset && offset < Math.max(part.end, 1));
    return { buffer, offset: offset - start };
  }

  /** Raise what went wrong since the scopes for errors were opened. */
  async _checked() {
    for (const what of ["out of its memory", "an error"]) {
      const error = await this._gpu.popErrorScope();
      if (error) throw new TilewrightError(`${this.device}: ${what}: ${error.message}`);
    }
  }

  /** Bytes of the weights from `position` on, into the buffers that have them. */
  _store(bytes, position) {
    for (const part of this._weights) {
      const first = Math.max(position, part.start), last = Math.min(position + bytes.length, part.end);
      part.mapped ??= new Uint8Array(part.buffer.getMappedRange());
      if (first < last) part.mapped.set(bytes.subarray(first - position, last - position), first - part.start);
    }
  }

  /** Sizes, offsets and bound steps of a piece for inputs of these shapes. Buffers grow; what is bound to smaller ones is dropped. */
  async _fixed(piece, shapes) {
    const { pieces, kernels } = this._about, key = `${pieces.indexOf(piece)}: ${shapes.join(";")}`, found = this._laid.get(key);
    if (found) return found;
    const fixed = piece.open ? fixedFor(piece, kernels, shapes) : { ...piece, shapes: piece.outputs.map(({ shape }) => shape) };
    for (const kind of SCOPES) this._gpu.pushErrorScope(kind);
    for (const [name, size] of Object.entries(fixed.sizes)) {
      if (this._buffers[name]?.size >= words(size)) continue;
      this._buffers[name]?.destroy();
      this._buffers[name] = this._buffer(name, size);
      this._laid.clear();
    }
    if (this._laid.size >= KEPT + pieces.length) this._laid.delete(this._laid.keys().next().value);
    const dispatches = fixed.steps.filter((step) => step.length > 3).length;
    if (!this._about.program) this.dispatches = dispatches;
    const bound = { ...fixed, dispatches, steps: fixed.steps.map((step) => this._step(step)) };
    await this._checked();
    this._laid.set(key, bound);
    return bound;
  }

  _buffer(name, size, mappedAtCreation = false) {
    this._limit("maxBufferSize", size, `the model's ${name} in bytes`);
    const usage = USAGE[name].split(" ").reduce((all, flag) => all | GPUBufferUsage[flag], 0);
    return this._gpu.createBuffer({ size: words(size), usage, mappedAtCreation });
  }

  _limit(name, count, what) {
    const most = this._gpu.limits[name];
    if (count <= most) return;
    throw new TilewrightError(`${this.device}: ${what}: ${count}; its limit is ${most} (${name}). Use a smaller ` +
      "batch or model, or compile with --target wasm");
  }

  /** A function that encodes a launch [kernel, grid, ranges, scalars], or a copy of a range [from, to, bytes]. */
  _step(step) {
    const resource = ([space, offset, size]) => {
      if (space) return { buffer: this._buffers[SPACES[space]], offset, size: words(size) };
      return { ...this._stored(offset), size: words(size) };
    };
    if (step.length === 3) {
      const [from, to] = [resource(step[0]), resource(step[1])], size = words(step[2]);
      return { copy: (encoder) => {
        const { bounce } = this._buffers, isWithin = from.buffer === to.buffer; // WebGPU does not copy within a buffer
        if (isWithin) encoder.copyBufferToBuffer(from.buffer, from.offset, bounce, 0, size);
        const [source, start] = isWithin ? [bounce, 0] : [from.buffer, from.offset];
        encoder.copyBufferToBuffer(source, start, to.buffer, to.offset, size);
      } };
    }
    const [kernel, grid, ranges, scalars] = step, pipeline = this._pipelines[kernel], name = this._about.kernels[kernel][1];
    this._limit("maxComputeWorkgroupsPerDimension", Math.max(...grid), `blocks of ${name}`);
    const resources = ranges.map(resource);
    for (const { size } of resources) this._limit("maxStorageBufferBindingSize", size, `bytes of an array of ${name}`);
    if (scalars.length) {
      const buffer = this._buffer("scalars", scalars.length, true);
      new Uint8Array(buffer.getMappedRange()).set(scalars);
      buffer.unmap();
      resources.push({ buffer });
    }
    const entries = resources.map((one, binding) => ({ binding, resource: one }));
    const group = this._gpu.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
    return { launch: (pass) => {
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(...grid);
    } };
  }

  /** Run once on typed arrays, or tensors { data, shape }, by the inputs' names. Results are tensors by name. */
  async run(feeds) {
    const values = this._values(feeds);
    const turn = this._turn.then(() => this._run(values)); // one after the other: they share memory
    this._turn = turn.catch(() => {});
    return turn;
  }

  async _run(values) {
    if (this._lost) throw new TilewrightError(this._lost);
    if (this._program) return this._interpreted(values);
    const [piece] = this._about.pieces, { offsets, sizes, steps, shapes } = this._last = await this._fixed(piece,
      values.map(({ shape }) => shape));
    values.forEach((value, i) => this._write(this.inputs[i], value, offsets.inputs[i]));
    const encoder = this._gpu.createCommandEncoder();
    encode(encoder, steps);
    const found = await this._read(encoder, this._buffers.outputs, 0, sizes.outputs, this._buffers.results);
    return Object.fromEntries(this.outputs.map(({ name, dtype }, i) => [name, { dtype, shape: [...shapes[i]],
      data: new ARRAYS[dtype](found, offsets.outputs[i], product(shapes[i])).slice() }]));
  }

  /** The elements of an input to where its piece reads it. */
  _write(spec, { data }, offset) {
    if (data instanceof BigInt64Array || data instanceof BigUint64Array) narrow(spec, data);
    const bytes = asBytes(data), rest = bytes.length % 4;
    const whole = rest ? new Uint8Array(words(bytes.length)) : bytes;
    if (rest) whole.set(bytes);
    this._gpu.queue.writeBuffer(this._buffers.inputs, offset, whole);
  }

  /** Submit what was encoded, and a copy of bytes of a buffer to `results`, which are returned. */
  async _read(encoder, buffer, offset, size, results) {
    encoder.copyBufferToBuffer(buffer, offset, results, 0, words(size));
    this._gpu.queue.submit([encoder.finish()]);
    try {
      await results.mapAsync(GPUMapMode.READ, 0, words(size));
    } catch (error) {
      throw new TilewrightError(this._lost ?? `${this.device}: the results cannot be read: ${error.message}`);
    }
    if (this._lost) throw new TilewrightError(this._lost);
    const found = results.getMappedRange(0, words(size)).slice(0);
    results.unmap();
    return found;
  }

  /** The results of a program, whose values stay on the GPU until an operator of the host reads them. */
  async _interpreted(values) {
    [this._kept, this.dispatches, this.copies] = [[], 0, { toDevice: 0, toHost: 0 }];
    try {
      const found = await this._program(values);
      return Object.fromEntries(found.map((value, i) => [this.outputs[i].name, value]));
    } finally {
      for (const buffer of this._kept) buffer.destroy();
    }
  }

  /** The results of a piece of a program, in buffers of their own: { dtype, shape, buffer, offset }. */
  async _called(piece, values) {
    piece.inputs.forEach((spec, i) => {
      const { dtype, shape } = values[i] ?? {};
      if (dtype === spec.dtype && suits(shape, spec.shape)) return;
      throw new TilewrightError(`a part of the model takes ${spelled(spec)}, and gets ${dtype}[${shape}]`);
    });
    const { offsets, steps, shapes, dispatches } = await this._fixed(piece, values.map(({ shape }) => shape));
    const encoder = this._gpu.createCommandEncoder(), { inputs, outputs } = this._buffers;
    this.dispatches += dispatches;
    values.forEach((value, i) => {
      const to = offsets.inputs[i], size = words(sizeInBytes(value));
      if (value.buffer) return encoder.copyBufferToBuffer(value.buffer, value.offset, inputs, to, size);
      this.copies.toDevice += 1;
      return this._write(piece.inputs[i], value, to);
    });
    encode(encoder, steps);
    const found = piece.outputs.map(({ dtype }, i) => {
      const value = { dtype, shape: [...shapes[i]], offset: 0 }, size = words(sizeInBytes(value));
      this._kept.push(value.buffer = this._buffer("value", size));
      encoder.copyBufferToBuffer(outputs, offsets.outputs[i], value.buffer, 0, size);
      return value;
    });
    this._gpu.queue.submit([encoder.finish()]);
    return found;
  }

  /** A value of a program in the memory of the host, with the values that it has. */
  async _fetched(value) {
    if (Array.isArray(value)) return Promise.all(value.map((one) => this._fetched(one)));
    if (value instanceof Data) return new Data(value.tag, await this._fetched(value.fields));
    if (value?.rows) return { before: await this._fetched(value.before), rows: await this._fetched(value.rows) };
    if (!value?.buffer) return value;
    const { dtype, shape, buffer, offset } = value, size = sizeInBytes(value);
    value.read ??= (async () => { // once, whoever asks
      const results = this._buffer("results", size);
      this.copies.toHost += 1;
      const found = await this._read(this._gpu.createCommandEncoder(), buffer, offset, size, results);
      results.destroy();
      return { dtype, shape, data: new ARRAYS[dtype](found, 0, product(shape)) };
    })();
    return value.read;
  }

  /** The least milliseconds of each step by the GPU's clock, of `repeat` runs on what the last inputs left there. */
  async profile(repeat) {
    if (!this._gpu.features.has(CLOCK)) {
      throw new TilewrightError(`${this.device} has no clock for kernels (${CLOCK}): profile on another, or by --target wasm`);
    }
    if (this._program) throw new TilewrightError("a model with parts on the host has no list of launches to time");
    const { steps } = this._last, count = 2 * steps.length, size = 8 * count, least = new Array(steps.length).fill(Infinity);
    const querySet = this._gpu.createQuerySet({ type: "timestamp", count });
    const [times, results] = ["times", "results"].map((name) => this._buffer(name, size));
    for (let turn = 0; turn < repeat; turn++) {
      const encoder = this._gpu.createCommandEncoder();
      encode(encoder, steps, querySet);
      encoder.resolveQuerySet(querySet, 0, count, times, 0);
      encoder.copyBufferToBuffer(times, 0, results, 0, size);
      this._gpu.queue.submit([encoder.finish()]);
      await results.mapAsync(GPUMapMode.READ);
      const found = new BigInt64Array(results.getMappedRange());
      least.forEach((time, i) => { least[i] = Math.min(time, Number(found[2 * i + 1] - found[2 * i]) / 1e6); });
      results.unmap();
    }
    for (const one of [querySet, times, results]) one.destroy();
    return least;
  }

  /** Free the GPU's memory; the model cannot be run any more. */
  close() {
    this._lost ??= "the model was closed: load it again";
    this._gpu.destroy();
  }
}

/** Kernels for a GPU with these features: of each block of lines for one, and others for the rest, one remains. */
function textFor(code, features) {
  const used = Object.keys(FEATURES).filter((name) => features.has(name) && code.includes(`//#if ${name}\n`));
  return used.map((name) => `enable ${FEATURES[name]};\n`).join("") +
    code.replace(BLOCK, (_, name, own, others) => (features.has(name) ? own : others));
}

/** Encode steps; with `querySet` each launch in a pass of its own, between two of its timestamps. */
function encode(encoder, steps, querySet) {
  let pass;
  const end = () => { pass = pass?.end(); };
  steps.forEach(({ launch, copy }, i) => {
    if (copy || querySet) end();
    if (copy) copy(encoder);
    else if (querySet) {
      pass = encoder.beginComputePass({
        timestampWrites: { querySet, beginningOfPassWriteIndex: 2 * i, endOfPassWriteIndex: 2 * i + 1 },
      });
    }
    if (launch) launch(pass ??= encoder.beginComputePass());
  });
  end();
}

const sizeInBytes = ({ dtype, shape }) => product(shape) * ARRAYS[dtype].BYTES_PER_ELEMENT;

/** Ranges [start, end] of the weights, cut where a tensor starts, each no longer than `most` where that can be. */
function parts(size, starts, most) {
  const found = [[0, 0]];
  for (const end of [...starts.filter((start) => start > 0), size]) {
    const last = found.at(-1);
    if (end - last[0] > most && last[1] > last[0]) found.push([last[1], end]);
    else last[1] = end;
  }
  return found;
}

/** Refuse integers of 64 bits that kernels, which compute with their low words, would change. */
function narrow(spec, data) {
  const as = data instanceof BigInt64Array ? BigInt.asIntN : BigInt.asUintN;
  const wide = data.find((value) => as(32, value) !== value);
  if (wide === undefined) return;
  throw new TilewrightError(`${spelled(spec)}: WebGPU computes in 32 bits, which ${wide} does not fit; compile with ` +
    "--target wasm");
}
