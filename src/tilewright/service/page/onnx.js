// The graph of an ONNX file, read in the page (https://onnx.ai, onnx.proto3), to be looked at while the service compiles.

const TYPES = ["", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "float64", "uint32", "uint64", "complex64", "complex128", "bfloat16"];
const text = new TextDecoder();

/** The fields of a message: a list of values for each number; of the second kind the bytes. Throws for what is none. */
function fields(bytes) {
  const found = {}, view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = bytes[at++];
      if (byte === undefined) break;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asIntN(64, value);
    }
    throw new Error("no number ends here");
  };
  while (at < bytes.length) {
    const tag = Number(varint()), kind = tag & 7;
    let value;
    if (kind === 0) value = Number(varint());
    else if (kind === 1) { value = view.getFloat64(at, true); at += 8; }
    else if (kind === 5) { value = view.getFloat32(at, true); at += 4; }
    else if (kind === 2) {
      const size = Number(varint());
      if (size < 0 || at + size > bytes.length) throw new Error("a field is longer than its message");
      value = bytes.subarray(at, (at += size));
    } else throw new Error("this is no ONNX model");
    (found[tag >> 3] ??= []).push(value);
  }
  return found;
}

const all = (message, number) => message[number] ?? [];
const word = (message, number) => (message[number] ? text.decode(message[number].at(-1)) : "");

/** Numbers that may be packed into one field. */
function numbers(message, number) {
  return all(message, number).flatMap((one) => {
    if (typeof one === "number") return [one];
    const found = [];
    for (let at = 0; at < one.length;) {
      let value = 0, scale = 1, byte;
      do { byte = one[at++]; value += (byte & 127) * scale; scale *= 128; } while (byte >= 128 && at < one.length);
      found.push(value >= 2 ** 63 ? value - 2 ** 64 : value);
    }
    return found;
  });
}

const typed = (sizes, kind) => `${sizes.join("×") || "scalar"} ${TYPES[kind] ?? "?"}`;

function typeOf(value) {
  const tensor = all(fields(all(value, 2)[0] ?? new Uint8Array()), 1)[0];
  if (!tensor) return "";
  const parts = fields(tensor), shape = all(parts, 2)[0];
  const sizes = shape ? all(fields(shape), 1).map((one) => { const size = fields(one); return size[1]?.[0] ?? (word(size, 2) || "?"); }) : ["?"];
  return typed(sizes, parts[1]?.[0]);
}

function attributesOf(node) {
  return Object.fromEntries(all(node, 5).map((one) => {
    const part = fields(one), many = numbers(part, 8);
    const value = many.length ? many.join("×") : part[7] && typeof part[7][0] === "number" ? part[7].join(", ") : part[4] ? word(part, 4) : part[3]?.[0] ?? part[2]?.[0] ?? (part[5] ? "a tensor" : part[6] ? "a graph" : "");
    return [word(part, 1), String(value).slice(0, 80)];
  }));
}

/** {nodes, edges} of a file's bytes, as reports have them; null where it is no ONNX model. */
export function readOnnx(buffer) {
  try {
    const model = fields(new Uint8Array(buffer)), body = all(model, 7)[0];
    if (!body || !all(fields(body), 1).length) return null;
    return graphOf(fields(body));
  } catch {
    return null;
  }
}

/** The type of a node that only names a tensor of the file; null of others. */
function constantOf(node, reads, weights) {
  const op = word(node, 4);
  if (op === "Identity" && weights.has(reads[0])) return weights.get(reads[0]);
  if (op !== "Constant") return null;
  const tensor = all(node, 5).map((one) => fields(one)[5]?.[0]).find(Boolean);
  return tensor ? typed(numbers(fields(tensor), 1), fields(tensor)[2]?.[0]) : "constant";
}

function graphOf(graph) {
  const nodes = [], edges = [], from = new Map(), types = new Map(), weights = new Map();
  for (const one of all(graph, 5)) { const tensor = fields(one); weights.set(word(tensor, 8), typed(numbers(tensor, 1), tensor[2]?.[0])); }
  for (const one of [...all(graph, 13), ...all(graph, 11), ...all(graph, 12)]) { const value = fields(one); types.set(word(value, 1), typeOf(value)); }
  const add = (node) => nodes.push({ id: nodes.length, ...node }) - 1;
  for (const one of all(graph, 11)) {
    const name = word(fields(one), 1);
    if (!weights.has(name)) from.set(name, add({ op: "input", name, type: types.get(name) }));
  }
  for (const one of all(graph, 1)) {
    const node = fields(one), reads = all(node, 1).map((name) => text.decode(name)), makes = all(node, 2).map((name) => text.decode(name));
    const held = constantOf(node, reads, weights);
    if (held !== null) { for (const name of makes) weights.set(name, held); continue; }
    const own = reads.filter((name) => weights.has(name)).map((name) => weights.get(name));
    const id = add({ op: word(node, 4), name: word(node, 3), type: types.get(makes[0]) ?? "", attrs: attributesOf(node), ...(own.length ? { weights: own } : {}) });
    for (const name of new Set(reads)) if (from.has(name)) edges.push([from.get(name), id]);
    for (const name of makes) from.set(name, id);
  }
  for (const one of all(graph, 12)) {
    const name = word(fields(one), 1), id = add({ op: "output", name, type: types.get(name) });
    if (from.has(name)) edges.push([from.get(name), id]);
  }
  return { nodes, edges };
}
