// Operators of the host, as `runtime/host_ops` has them in Python: values, shapes that are values, lists, sequences.
//
// A tensor is { data, shape, dtype }: a typed array, or an array of texts. A sequence is an array, an empty optional
// undefined, several results a tuple. No operator writes to what it is given.

/** An object of a data type with the number of its constructor, or a tuple, whose tag is -1. */
class Data {
  constructor(tag, fields) {
    this.tag = tag;
    this.fields = fields;
  }
}

const tuple = (...fields) => new Data(-1, fields);
/** Functions of attributes and values by the operator's name; every quoted name of a property here is one. */
const HOST = {};

/** The operator `name` as a function of values; `source` is the model's node. */
export function hostOperator(name, attrs, source) {
  if (!HOST[name]) throw new TilewrightError(`this file has no operator ${name}: it is of another version`);
  return (...values) => {
    let next = 0;
    const inputs = attrs.given?.map((isPresent) => (isPresent ? values[next++] : undefined)) ?? values;
    try {
      return HOST[name](attrs, ...inputs);
    } catch (error) {
      if (error instanceof TilewrightError) throw error;
      throw new TilewrightError(`${name.replace("onnx.", "")}${source ? ` (node ${source})` : ""} cannot run on ` +
        `${inputs.map(described).join(", ")}: ${error.message}`);
    }
  };
}

function described(value) {
  if (value?.shape) return `${value.dtype}[${value.shape.join(", ")}]`;
  return Array.isArray(value) ? `a sequence of ${value.length}` : "nothing";
}

// ------------------------------------------------------------------------------------------------------- elements
const HALF = { float16: [10, 15], bfloat16: [7, 127] }; // bits of the fraction, bias of the exponent
const isWide = (dtype) => dtype === "int64" || dtype === "uint64";
const isFloat = (dtype) => dtype.includes("float");
const isText = (dtype) => dtype === "string";
const isBits = (dtype) => dtype in HALF && ARRAYS[dtype] === Uint16Array;
const blank = (dtype, count) => (isText(dtype) ? new Array(count).fill("") : new ARRAYS[dtype](count));

/** The number that 16 bits stand for. */
function halfToNumber(bits, [fraction, bias]) {
  const sign = bits >> 15 ? -1 : 1, exponent = (bits & 0x7fff) >> fraction, rest = bits & ((1 << fraction) - 1);
  if (exponent === 2 * bias + 1) return rest ? NaN : sign * Infinity;
  const scale = 2 ** (Math.max(exponent, 1) - bias - fraction);
  return sign * (exponent ? rest + (1 << fraction) : rest) * scale;
}

/** The 16 bits nearest to a number, those of an even fraction in the middle. */
function halfOf(value, [fraction, bias]) {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0, size = Math.abs(value),
    most = (2 * bias + 1) << fraction;
  if (Number.isNaN(value)) return most | (1 << (fraction - 1));
  const exponent = size ? Math.max(Math.floor(Math.log2(size)), 1 - bias) : 1 - bias;
  const units = size / 2 ** (exponent - fraction), low = Math.floor(units), part = units - low;
  const rounded = low + (part > 0.5 || (part === 0.5 && low % 2) ? 1 : 0);
  const bits = rounded + (exponent + bias - 1) * (1 << fraction); // a carry ends in the exponent
  return sign | Math.min(Number.isFinite(size) ? bits : most, most);
}

/** The elements as numbers, or BigInts of 64 bits. */
const numbers = ({ data, dtype }) => (isBits(dtype) ? Float64Array.from(data, (bits) =>
  halfToNumber(bits, HALF[dtype])) : data);
/** All elements, or those of a shape, as plain numbers. */
const ints = (value) => Array.from(numbers(value), Number);
const scalar = (value) => ints(value)[0];

/** A tensor of numbers, which are rounded or wrapped to the type. */
function tensor(dtype, shape, values) {
  if (isText(dtype)) return { data: Array.from(values), shape, dtype };
  const data = blank(dtype, values.length), is = isWide(dtype);
  for (let i = 0; i < data.length; i++) {
    const value = values[i];
    if (is) data[i] = typeof value === "bigint" ? value : BigInt(Number.isFinite(+value) ? Math.trunc(+value) : 0);
    else data[i] = isBits(dtype) ? halfOf(Number(value), HALF[dtype]) : dtype === "bool" ? +Boolean(value)
      : Number(value);
  }
  return { data, shape, dtype };
}

const integers = (values, shape = [values.length]) => tensor("int64", shape, values);
const constant = (dtype, shape, value) => {
  const one = tensor(dtype, [], [value]).data[0];
  return { data: blank(dtype, product(shape)).fill(one), shape, dtype };
};
const cast = (value, dtype) => (dtype === value.dtype ? value : tensor(dtype, value.shape, numbers(value)));

// --------------------------------------------------------------------------------------------------------- shapes
const fail = (text) => {
  throw new TilewrightError(text);
};
const listed = (sizes) => `[${sizes.join(", ")}]`;

function axisOf(axis, rank) {
  if (!(axis >= -rank && axis < rank)) throw new RangeError(`there is no axis ${axis} of ${rank}`);
  return axis < 0 ? axis + rank : axis;
}

/** The distance in elements between neighbours along each axis. */
function stepsOf(shape) {
  const steps = new Array(shape.length).fill(1);
  for (let axis = shape.length - 2; axis >= 0; axis--) steps[axis] = steps[axis + 1] * shape[axis + 1];
  return steps;
}

/** The positions of the elements of a shape in memory with these steps, in order. */
function positions(shape, steps, offset = 0) {
  let found = Int32Array.of(offset);
  shape.forEach((size, axis) => {
    const next = new Int32Array(found.length * size);
    for (let i = 0, k = 0; i < found.length; i++) {
      for (let j = 0, at = found[i]; j < size; j++, at += steps[axis]) next[k++] = at;
    }
    found = next;
  });
  return found;
}

/** The tensor of elements at positions of another. */
function picked({ data, dtype }, shape, at) {
  const found = blank(dtype, at.length);
  for (let i = 0; i < at.length; i++) found[i] = data[at[i]];
  return { data: found, shape, dtype };
}

const strided = (value, shape, steps, offset) => picked(value, shape, positions(shape, steps, offset));

function reshaped(value, shape) {
  if (product(shape) !== value.data.length || shape.some((size) => size < 0)) {
    fail(`a tensor of shape ${listed(value.shape)} does not reshape to ${listed(shape)}`);
  }
  return { ...value, shape };
}

function permuted(value, order) {
  const steps = stepsOf(value.shape);
  return strided(value, order.map((axis) => value.shape[axis]), order.map((axis) => steps[axis]));
}

/** The tensor with an axis moved to another position. */
function moved(value, from, to) {
  const order = value.shape.map((_, axis) => axis), rank = order.length;
  order.splice(axisOf(to, rank), 0, ...order.splice(axisOf(from, rank), 1));
  return permuted(value, order);
}

/** The shape that shapes are broadcast to. */
function joined(shapes) {
  const rank = Math.max(0, ...shapes.map((shape) => shape.length));
  return Array.from({ length: rank }, (_, axis) => {
    const sizes = shapes.map((shape) => shape[axis - rank + shape.length] ?? 1).filter((size) => size !== 1);
    if (sizes.every((size) => size === sizes[0])) return sizes[0] ?? 1;
    return fail(`the shapes ${shapes.map(listed).join(" and ")} do not broadcast`);
  });
}

function broadcast(value, shape) {
  if (listed(value.shape) === listed(shape)) return value;
  if (listed(joined([value.shape, shape])) !== listed(shape)) {
    fail(`a tensor of shape ${listed(value.shape)} does not expand to ${listed(shape)}`);
  }
  const steps = stepsOf(value.shape), first = shape.length - value.shape.length;
  return strided(value, shape, shape.map((_, axis) => (axis < first || value.shape[axis - first] === 1 ? 0
    : steps[axis - first])));
}

/** The slices of a tensor along an axis at indices. */
function taken(value, indices, axis) {
  const { shape } = value, inner = product(shape.slice(axis + 1)), size = shape[axis],
    outer = product(shape.slice(0, axis));
  const at = new Int32Array(outer * indices.length * inner);
  for (let i = 0, k = 0; i < outer; i++) {
    for (const given of indices) {
      const index = given < 0 ? given + size : given;
      if (!(index >= 0 && index < size)) fail(`an index is out of range for an axis of size ${size}: ${given}`);
      for (let j = 0, from = (i * size + index) * inner; j < inner; j++) at[k++] = from + j;
    }
  }
  return picked(value, [...shape.slice(0, axis), indices.length, ...shape.slice(axis + 1)], at);
}

/** The tensors one behind the other along an axis. */
function concatenated(values, given) {
  const first = values[0], axis = axisOf(given, first.shape.length);
  const size = values.reduce((all, { shape }) => all + shape[axis], 0);
  for (const { shape } of values) {
    if (shape.length !== first.shape.length || shape.some((extent, i) => i !== axis && extent !== first.shape[i])) {
      const shapes = values.map((one) => listed(one.shape)).join(", ");
      fail(`tensors of the shapes ${shapes} are not joined along axis ${given}`);
    }
  }
  const shape = first.shape.with(axis, size), data = blank(first.dtype, product(shape)),
    outer = product(shape.slice(0, axis));
  let start = 0;
  for (const value of values) {
    const run = product(value.shape.slice(axis));
    for (let i = 0; i < outer; i++) {
      for (let j = 0, to = i * product(shape.slice(axis)) + start; j < run; j++) data[to + j] = value.data[i * run + j];
    }
    start += run;
  }
  return { data, shape, dtype: first.dtype };
}

function stacked(values, axis) {
  const rank = values[0].shape.length + 1, at = axisOf(axis, rank);
  return concatenated(values.map((value) => ({ ...value, shape: value.shape.toSpliced(at, 0, 1) })), at);
}

/** Python's slice of one axis: the first index, the step, and how many. */
function sliced(size, start, end, step) {
  if (!step) throw new RangeError("a slice has a step of 0");
  const [least, most] = step < 0 ? [-1, size - 1] : [0, size];
  const inside = (index) => Math.min(Math.max(index < 0 ? index + size : index, least), most);
  const stop = end === null || (step < 0 && end < -size) ? (step < 0 ? -1 : size) : inside(end);
  const first = inside(start);
  return [first, step, Math.max(Math.ceil((stop - first) / step), 0)];
}

/** The part of a tensor that slices of axes leave: [axis, start, end, step] each. */
function cut(value, slices) {
  const shape = [...value.shape], steps = stepsOf(shape);
  let offset = 0;
  for (const [given, start, end, step] of slices) {
    const axis = axisOf(given, shape.length), own = stepsOf(value.shape)[axis];
    const [first, by, count] = sliced(value.shape[axis], start, end, step);
    offset += first * own;
    shape[axis] = count;
    steps[axis] = by * own;
  }
  return strided(value, shape, steps, product(shape) ? offset : 0);
}

/** Parts of these sizes along an axis. */
function partsOf(value, sizes, axis) {
  let start = 0;
  return sizes.map((size) => cut(value, [[axis, start, start += size, 1]]));
}

/** A tensor of `sizes` that has `value` at `corner`, as much of it as lies inside, and else `fill`. */
function within(value, sizes, corner, fill) {
  const result = { data: blank(value.dtype, product(sizes)).fill(fill), shape: sizes, dtype: value.dtype };
  const low = corner.map((at) => Math.max(-at, 0));
  const shape = sizes.map((size, i) => Math.max(0, Math.min(corner[i] + value.shape[i], size) - Math.max(corner[i],
    0)));
  if (!product(shape)) return result;
  const at = (steps, from) => positions(shape, steps, from.reduce((all, first, axis) => all + first * steps[axis], 0));
  const to = at(stepsOf(sizes), corner.map((one) => Math.max(one, 0))), from = at(stepsOf(value.shape), low);
  for (let i = 0; i < to.length; i++) result.data[to[i]] = value.data[from[i]];
  return result;
}

/** Indices along an axis of `size` with a margin, for the modes of NumPy's pad. */
function margin(size, low, high, mode) {
  return Array.from({ length: low + size + high }, (_, i) => {
    const at = i - low, period = mode === "reflect" ? 2 * (size - 1) : size;
    if (mode === "edge") return Math.min(Math.max(at, 0), size - 1);
    const turn = period ? ((at % period) + period) % period : 0;
    return mode === "reflect" && turn >= size ? period - turn : turn;
  });
}

function padded(value, before, after, mode, fill) {
  const sizes = value.shape.map((size, axis) => size + before[axis] + after[axis]);
  if (sizes.some((size) => size < 0)) fail(`pads leave nothing of a tensor of shape ${listed(value.shape)}`);
  if (mode === "constant") return within(value, sizes, before, fill);
  const inner = cut(value, value.shape.map((size, axis) =>
    [axis, Math.max(-before[axis], 0), size - Math.max(-after[axis], 0), 1]));
  return inner.shape.reduce((made, size, axis) =>
    taken(made, margin(size, Math.max(before[axis], 0), Math.max(after[axis], 0), mode), axis), inner);
}

function tiled(value, counts) {
  const rank = Math.max(counts.length, value.shape.length), fit = (sizes) =>
    [...Array(rank - sizes.length).fill(1), ...sizes];
  const [shape, times] = [fit(value.shape), fit(counts)], steps = stepsOf(shape);
  const doubled = strided(value, shape.flatMap((size, i) => [times[i], size]), steps.flatMap((step) => [0, step]));
  return reshaped(doubled, shape.map((size, i) => size * times[i]));
}

const axesOf = (attrs, axes) => (axes ? ints(axes) : attrs.axes ?? undefined);

function squeezed(value, axes) {
  const chosen = axes?.map((axis) => axisOf(axis, value.shape.length)) ?? [...value.shape.keys()].filter((i) =>
    value.shape[i] === 1);
  const gone = new Set(chosen);
  for (const axis of gone) {
    if (value.shape[axis] !== 1) throw new RangeError(`axis ${axis} has ${value.shape[axis]} elements`);
  }
  return { ...value, shape: value.shape.filter((_, axis) => !gone.has(axis)) };
}

function unsqueezed(value, axes) {
  const rank = value.shape.length + axes.length, added = new Set(axes.map((axis) => axisOf(axis, rank)));
  const rest = [...value.shape];
  return { ...value, shape: Array.from({ length: rank }, (_, axis) => (added.has(axis) ? 1 : rest.shift())) };
}

function onnxReshape({ allowzero = 0 }, data, shape) {
  const wanted = ints(shape), copied = wanted.map((size, axis) => size === 0 && !allowzero && axis);
  const target = wanted.map((size, axis) => (copied[axis] === false ? size : data.shape[axis]
    ?? fail(`the shape ${listed(wanted)} copies axis ${axis}, which a tensor of shape ${listed(data.shape)} lacks`)));
  const open = wanted.indexOf(-1);
  if (open >= 0) {
    const others = wanted.filter((size, axis) => copied[axis] === false && axis !== open);
    const own = product(data.shape.filter((_, axis) => copied[axis] === undefined || copied[axis] === false));
    const rest = product(target.toSpliced(open, 1));
    target[open] = data.data.length ? data.data.length / rest : product(others) ? own / product(others) : 0;
  }
  return reshaped(data, target);
}

function onnxSplit(attrs, data, sizes) {
  const axis = axisOf(attrs.axis ?? 0, data.shape.length), size = data.shape[axis], count = attrs.outputs;
  const part = Math.ceil(size / count), given = sizes ? ints(sizes) : attrs.split;
  const found = given ?? Array.from({ length: count }, (_, i) => Math.max(0, Math.min(part, size - i * part)));
  if (found.length !== count || Math.min(...found) < 0 || found.reduce((a, b) => a + b, 0) !== size) {
    fail(`Split: ${count} parts of the sizes ${listed(found)} are not the ${size} of axis ${axis}`);
  }
  return tuple(...partsOf(data, found, axis));
}

function onnxSlice(attrs, data, starts, ends, axes, steps) {
  const list = (value, name) => (value ? ints(value) : attrs[name] ?? undefined);
  const [from, to] = starts && ends ? [ints(starts), ints(ends)] : [attrs.starts, attrs.ends];
  const along = list(axes, "axes") ?? from.map((_, axis) => axis), by = steps ? ints(steps) : from.map(() => 1);
  return cut(data, along.map((axis, i) => [axis, from[i], to[i], by[i]]));
}

function onnxPad({ mode = "constant" }, data, pads, value, axes) {
  const rank = data.shape.length, chosen = axes ? ints(axes).map((axis) => axisOf(axis, rank)) : [...data.shape.keys()];
  const given = ints(pads), [before, after] = [Array(rank).fill(0), Array(rank).fill(0)];
  if (given.length !== 2 * chosen.length) throw new RangeError(`pads of ${given.length}, and not ${2 * chosen.length}`);
  chosen.forEach((axis, i) => {
    before[axis] = given[i];
    after[axis] = given[i + chosen.length];
  });
  return padded(data, before, after, mode, value ? value.data[0] : blank(data.dtype, 1)[0]);
}

function centerCropPad({ axes }, data, shape) {
  return ints(shape).reduce((made, wanted, i) => {
    const axis = axisOf(axes ? axes[i] : i, data.shape.length), size = made.shape[axis];
    const low = Math.floor(Math.abs(wanted - size) / 2);
    if (wanted < size) return cut(made, [[axis, low, low + wanted, 1]]);
    const sizes = made.shape.with(axis, wanted);
    return within(made, sizes, sizes.map((_, i) => (i === axis ? low : 0)), blank(data.dtype, 1)[0]);
  }, data);
}

function range(attrs, start, limit, delta) {
  const [first, last, step] = [start, limit, delta].map((value) => numbers(value)[0]);
  if (!Number(step)) fail("a range in steps of 0 does not end");
  const count = Math.max(Math.ceil(Number(last - first) / Number(step)), 0);
  const at = isWide(start.dtype) ? BigInt : Number, rounded = (value) => tensor(start.dtype, [], [value]).data[0];
  if (isBits(start.dtype)) return tensor(start.dtype, [count],
    Array.from({ length: count }, (_, i) => first + i * step));
  return tensor(start.dtype, [count], Array.from({ length: count }, (_, i) => first + rounded(at(i) * step)));
}

function triangle({ upper = 1 }, data, diagonal) {
  const [rows, columns] = data.shape.slice(-2), k = diagonal ? scalar(diagonal) : 0, result = data.data.slice();
  const zero = blank(data.dtype, 1)[0];
  result.forEach((_, i) => {
    const [row, column] = [Math.floor(i / columns) % rows, i % columns];
    if (upper ? column - row < k : column - row > k) result[i] = zero;
  });
  return { ...data, data: result };
}

function blocks(data, { blocksize: b, mode = "DCR" }, isDeep) {
  const [n, c, h, w] = data.shape, deep = c / b ** 2;
  if (!isDeep) {
    const apart = reshaped(data, [n, c, h / b, b, w / b, b]);
    return reshaped(permuted(apart, mode === "DCR" ? [0, 3, 5, 1, 2, 4] : [0, 1, 3, 5, 2, 4]),
      [n, c * b * b, h / b, w / b]);
  }
  const apart = mode === "DCR" ? reshaped(data, [n, b, b, deep, h, w]) : reshaped(data, [n, deep, b, b, h, w]);
  return reshaped(permuted(apart, mode === "DCR" ? [0, 3, 4, 1, 5, 2] : [0, 1, 4, 2, 5, 3]), [n, deep, h * b, w * b]);
}

Object.assign(HOST, {
  "onnx.Reshape": onnxReshape,
  "onnx.Stretched": ({ axes }, ...values) => {
    const shape = joined(values.map((value) => value.shape));
    return tuple(...values.map((value, i) => broadcast(value, value.shape.map((size, axis) =>
      (axes[i].includes(axis - value.shape.length) ? shape[axis - value.shape.length + shape.length] : size)))));
  },
  "onnx.Expand": (_, data, shape) => broadcast(data, joined([data.shape, ints(shape)])),
  "onnx.Tile": (_, data, counts) => tiled(data, ints(counts)),
  "onnx.Slice": onnxSlice,
  "onnx.Pad": onnxPad,
  "onnx.CenterCropPad": centerCropPad,
  "onnx.ConstantOfShape": ({ value = 0, value_dtype: dtype = "float32" }, shape) => constant(dtype, ints(shape), value),
  "onnx.Range": range,
  "onnx.Squeeze": (attrs, data, axes) => squeezed(data, axesOf(attrs, axes)),
  "onnx.Unsqueeze": (attrs, data, axes) => unsqueezed(data, axesOf(attrs, axes) ?? []),
  "onnx.Split": onnxSplit,
  "onnx.Trilu": triangle,
  "onnx.EyeLike": ({ k = 0, result_dtype: dtype }, { shape: [rows, columns] }) => tensor(dtype, [rows, columns],
    Array.from({ length: rows * columns }, (_, i) => +((i % columns) - Math.floor(i / columns) === k))),
  "onnx.Size": (_, { shape }) => integers([product(shape)], []),
  "onnx.Shape": ({ start = 0, end }, { shape }) => integers(shape.slice(start, end ?? shape.length)),
  "onnx.Identity": (_, value) => value,
  "onnx.Fail": ({ message }) => fail(`the inputs lead into a branch of the model that cannot run on them: ${message}`),
  "onnx.Concat": ({ axis = 1 }, ...values) => concatenated(values, axis),
  "onnx.Transpose": ({ perm }, data) => permuted(data, perm ?? [...data.shape.keys()].reverse()),
  "onnx.Flatten": ({ axis = 1 }, data) => {
    const at = axis < 0 ? axis + data.shape.length : axis;
    return reshaped(data, [product(data.shape.slice(0, at)), product(data.shape.slice(at))]);
  },
  "onnx.DepthToSpace": (attrs, data) => blocks(data, attrs, true),
  "onnx.SpaceToDepth": (attrs, data) => blocks(data, attrs, false),
  "shape_of": ({ dtype }, { shape }) => tensor(dtype || "int64", [shape.length], shape),
  "vm.shape_of": ({ dtype }, { shape }) => tensor(dtype || "int64", [shape.length], shape),
  "check_shape": ({ shape, callee, argument }, value) => {
    if (shape.every((size, i) => size === null || size === value.shape[i])) return value;
    return fail(`${callee} is called with a tensor of shape ${listed(value.shape)} as its argument ${argument}, ` +
      `where it declares ${listed(shape.map((size) => size ?? "?"))}`);
  },
  "check_indices": ({ axes, coordinates, from_back: fromBack, label }, indices, data) => {
    const sizes = axes.length ? axes.map((axis) => data.shape.at(axis)) : [data.data.length], given = ints(indices);
    given.forEach((index, i) => {
      const size = coordinates ? sizes[Math.floor(i / (given.length / sizes.length))] : sizes[0];
      if (index >= (fromBack ? -size : 0) && index < size) return;
      fail(`${label}: the index ${index} is out of range for data of shape ${listed(data.shape)}, whose extent is ` +
        size);
    });
    return indices;
  },
});

// ------------------------------------------------------------------------------- shapes given by values, by Relay
Object.assign(HOST, {
  "dyn.reshape": (_, data, shape) => onnxReshape({}, data, shape),
  "dyn.broadcast_to": (_, data, shape) => broadcast(data, ints(shape)),
  "dyn.expand_dims": ({ num_newaxis: count }, data, axis) => {
    const first = axisOf(scalar(axis), data.shape.length + 1);
    return { ...data, shape: data.shape.toSpliced(first, 0, ...Array(count).fill(1)) };
  },
  "dyn.squeeze": (_, data, axis) => squeezed(data, ints(axis)),
  "dyn.full": ({ dtype }, value, shape) => constant(dtype || value.dtype, ints(shape), numbers(value)[0]),
  "dyn.ones": ({ dtype }, shape) => constant(dtype, ints(shape), 1),
  "dyn.zeros": ({ dtype }, shape) => constant(dtype, ints(shape), 0),
  "dyn.tile": (_, data, counts) => tiled(data, ints(counts)),
  "dyn.strided_slice": ({ slice_mode: mode }, data, begin, end, strides) => {
    const [from, to, by] = [begin, end, strides].map(ints);
    return cut(data, from.map((start, axis) => {
      if (mode !== "size") return [axis, start, to[axis], by[axis] ?? 1];
      const first = start < 0 ? start + data.shape[axis] : start;
      return [axis, first, to[axis] === -1 ? data.shape[axis] : first + to[axis], 1];
    }));
  },
  "dyn.nn.pad": ({ pad_mode: mode }, data, widths, value) => {
    const given = ints(widths), side = (which) => data.shape.map((_, axis) => given[2 * axis + which]);
    return padded(data, side(0), side(1), mode, cast(value, data.dtype).data[0]);
  },
  "vm.reshape_tensor": (_, data, shape) => reshaped(data, ints(shape)),
});
