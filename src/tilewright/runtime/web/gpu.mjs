// The second part: models on the browser's GPU, by WebGPU.

// Limits of a device that models come to; as much of each is requested as the adapter has.
const LIMITS = ["maxBufferSize", "maxStorageBufferBindingSize", "maxStorageBuffersPerShaderStage",
  "maxComputeWorkgroupStorageSize", "maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupSizeY", "maxComputeWorkgroupSizeZ", "maxComputeWorkgroupsPerDimension"];
const ENDING = ".webgpu.json";
const USAGE = { weights: "STORAGE COPY_SRC COPY_DST", arena: "STORAGE COPY_SRC COPY_DST", inputs: "STORAGE COPY_SRC COPY_DST",
  outputs: "STORAGE COPY_SRC COPY_DST", bounce: "COPY_SRC COPY_DST", results: "COPY_DST MAP_READ", scalars: "UNIFORM" };
const SPACES = ["weights", "arena", "inputs", "outputs"]; // by number in the arguments of launches
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
      about = JSON.parse(new TextDecoder().decode(await read(source)));
      if (about.format !== 1) throw new Error("it is of another version of Tilewright than this file");
    } catch (error) {
      if (error instanceof TilewrightError) throw error;
      throw new TilewrightError(`${source.href ?? "the model"} is no model for WebGPU: ${error.message}`);
    }
    const requiredLimits = Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]]));
    const model = new Model(about, await adapter.requestDevice({ requiredLimits }), adapter.info);
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
    this.dispatches = about.steps.filter((step) => step.length > 3).length;
    this._about = about;
    this._gpu = gpu;
    this._turn = Promise.resolve();
    gpu.lost.then(({ message }) => { this._lost ??= `the GPU stopped: ${message}; load the model again`; });
  }

  /** Buffers, pipelines and bind groups; the weights are uploaded. */
  async _build(weights) {
    const gpu = this._gpu, { sizes, kernels, steps } = this._about;
    gpu.pushErrorScope("validation");
    gpu.pushErrorScope("out-of-memory");
    this._buffers = Object.fromEntries(Object.entries(sizes).map(([name, size]) => [name,
      this._buffer(name, size, name === "weights")]));
    if (sizes.weights) {
      const whole = new Uint8Array(this._buffers.weights.getMappedRange());
      await weightsOf(weights, sizes.weights, (part, position) => whole.set(part, position));
    }
    this._buffers.weights.unmap();
    const modules = this._about.sources.map((rest) => gpu.createShaderModule({ code: this._about.shared + rest }));
    const pipelines = await Promise.all(kernels.map(([module, entryPoint]) =>
      gpu.createComputePipelineAsync({ layout: "auto", compute: { module: modules[module], entryPoint } })));
    this._steps = steps.map((step) => this._step(step, pipelines));
    for (const what of ["out of its memory", "an error"]) {
      const error = await gpu.popErrorScope();
      if (error) throw new TilewrightError(`${this.device}: ${what}: ${error.message}`);
    }
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
  _step(step, pipelines) {
    const resource = ([space, offset, size]) => ({ buffer: this._buffers[SPACES[space]], offset, size: words(size) });
    if (step.length === 3) {
      const [from, to] = [resource(step[0]), resource(step[1])], size = words(step[2]);
      return { copy: (encoder) => {
        const { bounce } = this._buffers, isWithin = from.buffer === to.buffer; // WebGPU does not copy within a buffer
        if (isWithin) encoder.copyBufferToBuffer(from.buffer, from.offset, bounce, 0, size);
        const [source, start] = isWithin ? [bounce, 0] : [from.buffer, from.offset];
        encoder.copyBufferToBuffer(source, start, to.buffer, to.offset, size);
      } };
    }
    const [kernel, grid, ranges, scalars] = step, pipeline = pipelines[kernel], name = this._about.kernels[kernel][1];
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
    const gpu = this._gpu, { results, outputs, inputs } = this._buffers, { offsets, sizes } = this._about;
    values.forEach(({ data }, i) => {
      if (data instanceof BigInt64Array || data instanceof BigUint64Array) narrow(this.inputs[i], data);
      const bytes = asBytes(data), rest = bytes.length % 4;
      const whole = rest ? new Uint8Array(words(bytes.length)) : bytes;
      if (rest) whole.set(bytes);
      gpu.queue.writeBuffer(inputs, offsets.inputs[i], whole);
    });
    const encoder = gpu.createCommandEncoder();
    let pass;
    for (const { launch, copy } of this._steps) {
      if (launch) launch(pass ??= encoder.beginComputePass());
      else {
        pass?.end();
        pass = undefined;
        copy(encoder);
      }
    }
    pass?.end();
    encoder.copyBufferToBuffer(outputs, 0, results, 0, words(sizes.outputs));
    gpu.queue.submit([encoder.finish()]);
    try {
      await results.mapAsync(GPUMapMode.READ);
    } catch (error) {
      throw new TilewrightError(this._lost ?? `${this.device}: the results cannot be read: ${error.message}`);
    }
    const found = results.getMappedRange().slice(0);
    results.unmap();
    return Object.fromEntries(this.outputs.map(({ name, dtype, shape }, i) => [name,
      { data: new ARRAYS[dtype](found, offsets.outputs[i], product(shape)).slice(), shape: [...shape], dtype }]));
  }

  /** Free the GPU's memory; the model cannot be run any more. */
  close() {
    this._lost ??= "the model was closed: load it again";
    this._gpu.destroy();
  }
}

/** Refuse integers of 64 bits that kernels, which compute with their low words, would change. */
function narrow(spec, data) {
  const as = data instanceof BigInt64Array ? BigInt.asIntN : BigInt.asUintN;
  const wide = data.find((value) => as(32, value) !== value);
  if (wide === undefined) return;
  throw new TilewrightError(`${spelled(spec)}: WebGPU computes in 32 bits, which ${wide} does not fit; compile with ` +
    "--target wasm");
}
