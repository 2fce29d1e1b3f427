// The runtime of models for the web, by Tilewright $VERSION.

const builtin = (name) => globalThis.process?.getBuiltinModule?.(name);
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

const isBytes = (value) => value instanceof ArrayBuffer || ArrayBuffer.isView(value);
const asBytes = (value) => ArrayBuffer.isView(value)
  ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : new Uint8Array(value);
const encoded = (text) => new TextEncoder().encode(text);
const up = (value, step) => Math.ceil(value / step) * step;
const product = (shape) => shape.reduce((all, size) => all * size, 1);
const spelled = ({ name, dtype, shape, type }) =>
  `${name}: ${type ?? `${dtype}[${shape.map((size) => size ?? "?").join(", ")}]`}`;
const suits = (shape, wanted) => shape.length === wanted.length
  && wanted.every((size, i) => typeof size !== "number" || size === shape[i]);

/** JSON's numbers that are no plain ones: { number: text } of integers beyond 2**53, NaN and infinities. */
const revived = (_, value) => (typeof value?.number !== "string" ? value
  : /^-?\d+$/.test(value.number) ? BigInt(value.number) : Number(value.number));

/** The file at a URL as chunks of bytes. */
async function* chunks(url) {
  const fs = url.protocol === "file:" && builtin("node:fs");
  let parts;
  try {
    parts = fs ? fs.createReadStream(url, { highWaterMark: 1 << 20 }) : await body(url);
    yield* parts;
  } catch (error) {
    if (error instanceof TilewrightError) throw error;
    const failure = new TilewrightError(`${url.href} cannot be read: ${error.message}`);
    throw Object.assign(failure, { isMissing: error.code === "ENOENT" });
  }
}

async function* body(url) {
  const response = await get(url);
  const reader = response.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
}

async function get(url) {
  const response = await fetch(url);
  if (response.ok) return response;
  const error = new TilewrightError(`${url.href} cannot be read: ${response.status} ${response.statusText}`);
  throw Object.assign(error, { isMissing: response.status === 404 });
}

async function read(source) {
  if (isBytes(source)) return asBytes(source);
  const parts = [];
  for await (const part of chunks(source)) parts.push(part);
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

const absolute = (url) => new URL(url, globalThis.location?.href ?? import.meta.url).href;
const opened = (source) => (typeof source === "string" ? new URL(source) : source);

/** The bytes of a source of weights, part by part, each with its position. */
async function weightsOf(source, wanted, take) {
  if (source === undefined) throw new TilewrightError("a module given as bytes needs { weights }: bytes or a URL");
  let position = 0;
  for await (const part of isBytes(source) ? [asBytes(source)] : chunks(source)) {
    if (position + part.length <= wanted) take(part, position);
    position += part.length;
  }
  if (position === wanted) return;
  throw new TilewrightError(`the weights have ${position} bytes and the module needs ${wanted}: they are of another ` +
    "compilation, or cut short; copy all files of the folder");
}

/** A value of a type that is no tensor of known rank: an array for a sequence, undefined for an empty optional. */
function valueOf(type, value, name) {
  const [, kind, inner] = /^(\w+)\[(.*)\]$/.exec(type) ?? [];
  if (kind === "Optional") return value === undefined || value === null ? undefined : valueOf(inner, value, name);
  if (kind === "Sequence" && Array.isArray(value)) return value.map((one) => valueOf(inner, one, name));
  const dtype = inner?.split(" ").at(-1), array = dtype === "string" ? Array : ARRAYS[dtype];
  const { data, shape } = ArrayBuffer.isView(value) ? { data: value, shape: [value.length] } : value ?? {};
  const isTensor = kind !== "Sequence" && array && data instanceof array && product(shape) === data.length;
  if (isTensor) return { data, shape, dtype };
  throw new TilewrightError(`${name}: a value of the type ${type} is needed`);
}

/** What models of all kinds have: `inputs`, `outputs` (name, shape, dtype), and a check of what is fed. */
class Fed {
  /** The tensors given for all inputs, checked. */
  _values(feeds) {
    const values = this.inputs.map((spec) => this._value(spec, feeds));
    const unknown = Object.keys(feeds).find((name) => !this.inputs.some((spec) => spec.name === name));
    if (unknown) throw new TilewrightError(`there is no input ${unknown}; the model takes ${this._takes()}`);
    return values;
  }

  _takes() {
    return this.inputs.map(spelled).join(", ") || "nothing";
  }

  /** The tensor given for an input, checked. */
  _value(spec, feeds) {
    const value = feeds?.[spec.name];
    if (value === undefined && !spec.type?.startsWith("Optional")) {
      throw new TilewrightError(`the input ${spec.name} is missing; the model takes ${this._takes()}`);
    }
    if (spec.type) return valueOf(spec.type, value, spec.name);
    const { data, shape = spec.shape } = ArrayBuffer.isView(value) || Array.isArray(value) ? { data: value } : value;
    const array = spec.dtype === "string" ? Array : ARRAYS[spec.dtype];
    if (!(data instanceof array)) {
      const got = data?.constructor?.name ?? typeof data;
      throw new TilewrightError(`${spelled(spec)}: give a ${array.name}, not a ${got}`);
    }
    if (!suits(shape, spec.shape)) throw new TilewrightError(`${spelled(spec)}: got the shape [${shape.join(", ")}]`);
    if (shape.some((size) => !Number.isInteger(size) || size < 0)) {
      throw new TilewrightError(`${spelled(spec)} has open sizes: give { data, shape }`);
    }
    if (product(shape) !== data.length) {
      throw new TilewrightError(`${spelled(spec)}: ${product(shape)} elements are wanted, ${data.length} given`);
    }
    return { data, shape, dtype: spec.dtype };
  }
}

