// Operators of the host on elements: arithmetic, reductions, what is found, picked and written by index.

const wraps = (dtype) => !isFloat(dtype);
/** The shape that values are broadcast to, and their elements there. */
function spread(values) {
  const shape = joined(values.map((value) => value.shape));
  return [shape, ...values.map((value) => numbers(broadcast(value, shape)))];
}

/** An operator element by element, with a result of the first value's type, or of `dtype`. */
const elementwise = (run, dtype) => (_, ...values) => {
  const [shape, ...columns] = spread(values), count = product(shape), kind = values[0].dtype;
  const found = new Array(count);
  for (let i = 0; i < count; i++) found[i] = run(columns[0][i], columns[1]?.[i], kind);
  return tensor(dtype ?? kind, shape, found);
};
const joining = (run) => (attrs, ...values) => values.reduce((a, b) => elementwise(run)(attrs, a, b));
const real = (run) => elementwise((x) => run(Number(x)));
const compared = (run) => elementwise(run, "bool");
const isNone = (x) => Number.isNaN(x);
const least = (a, b) => (isNone(a) || isNone(b) ? NaN : a < b ? a : b);
const most = (a, b) => (isNone(a) || isNone(b) ? NaN : a > b ? a : b);
const negated = (x) => -x;

function divided(a, b, kind) {
  if (!wraps(kind)) return a / b;
  if (typeof a === "bigint") return b ? a / b : 0n;
  return b ? Math.trunc(a / b) : 0;
}

/** The nearest integer, the even one in the middle. */
function even(x) {
  const low = Math.floor(x), part = x - low;
  return part < 0.5 || (part === 0.5 && low % 2 === 0) ? low : low + 1;
}

const remainder = (isC) => (a, b, kind) => {
  if (wraps(kind) && !Number(b)) return typeof a === "bigint" ? 0n : 0;
  const rest = a % b;
  return !isC && Number(rest) !== 0 && (rest < 0) !== (b < 0) ? rest + b : rest;
};

function clipped(attrs, data, low, high) {
  const bound = (name, value) => attrs[name] ?? (value ? numbers(value)[0] : undefined);
  const [from, to] = [bound("min", low), bound("max", high)];
  const inside = (x) => {
    const above = from === undefined ? x : most(x, from);
    return to === undefined ? above : least(above, to);
  };
  return tensor(data.dtype, data.shape, Array.from(numbers(data), inside));
}

Object.assign(HOST, {
  "onnx.Add": elementwise((a, b) => a + b),
  "onnx.Sub": elementwise((a, b) => a - b),
  "onnx.Mul": elementwise((a, b, kind) => (kind.endsWith("32") && wraps(kind) ? Math.imul(a, b) : a * b)),
  "onnx.Div": elementwise(divided),
  "onnx.Pow": elementwise((a, b) => (typeof a === typeof b ? a ** b : Number(a) ** Number(b))),
  "onnx.Mod": (attrs, a, b) => elementwise(remainder(attrs.fmod))(attrs, a, b),
  "onnx.Neg": elementwise(negated),
  "onnx.Abs": elementwise((x) => (x < 0 || Object.is(x, -0) ? -x : x)),
  "onnx.Sign": elementwise((x) => (typeof x === "bigint" ? BigInt(x > 0n) - BigInt(x < 0n) : Math.sign(x))),
  "onnx.Floor": real(Math.floor),
  "onnx.Ceil": real(Math.ceil),
  "onnx.Round": real(even),
  "onnx.Sqrt": real(Math.sqrt),
  "onnx.Reciprocal": real((x) => 1 / x),
  "onnx.Exp": real(Math.exp),
  "onnx.Log": real(Math.log),
  "onnx.Sin": real(Math.sin),
  "onnx.Cos": real(Math.cos),
  "onnx.Tan": real(Math.tan),
  "onnx.Tanh": real(Math.tanh),
  "onnx.Relu": elementwise((x) => (x > 0 || isNone(x) ? x : typeof x === "bigint" ? 0n : 0)),
  "onnx.Sigmoid": real((x) => 0.5 * Math.tanh(0.5 * x) + 0.5),
  "onnx.IsNaN": compared(isNone),
  "onnx.Not": compared((x) => !x),
  "onnx.And": compared((a, b) => a && b),
  "onnx.Or": compared((a, b) => a || b),
  "onnx.Xor": compared((a, b) => !a !== !b),
  "onnx.Less": compared((a, b) => a < b),
  "onnx.Greater": compared((a, b) => a > b),
  "onnx.LessOrEqual": compared((a, b) => a <= b),
  "onnx.GreaterOrEqual": compared((a, b) => a >= b),
  "onnx.Equal": compared((a, b) => a === b),
  "onnx.Max": joining(most),
  "onnx.Min": joining(least),
  "onnx.Sum": joining((a, b) => a + b),
  "onnx.Clip": clipped,
  "onnx.Where": (_, condition, x, y) => {
    const shape = joined([condition, x, y].map((value) => value.shape));
    const [c, a, b] = [condition, x, y].map((value) => broadcast(value, shape)), data = a.data.slice();
    data.forEach((_value, i) => {
      if (!c.data[i]) data[i] = b.data[i];
    });
    return { ...a, data };
  },
});

// ----------------------------------------------------------------------------------------------------- reductions
/** The rows that axes make up, with the shape that is left of a tensor. */
function rowsOf(value, axes, keep) {
  const rank = value.shape.length, gone = new Set(axes.map((axis) => axisOf(axis, rank)));
  const order = [...value.shape.keys()], kept = order.filter((axis) => !gone.has(axis));
  const inner = order.filter((axis) => gone.has(axis)), size = product(inner.map((axis) => value.shape[axis]));
  const count = product(kept.map((axis) => value.shape[axis])), flat = numbers(permuted(value, [...kept, ...inner]));
  const shape = keep ? value.shape.map((extent, axis) => (gone.has(axis) ? 1 : extent))
    : kept.map((axis) => value.shape[axis]);
  return [shape, Array.from({ length: count }, (_, i) => flat.slice(i * size, (i + 1) * size))];
}

const zeroOf = (row) => (row instanceof BigInt64Array || row instanceof BigUint64Array ? 0n : 0);
const added = (row, of = (x) => x) => row.reduce((all, x) => all + of(x), zeroOf(row));
const BOUNDS = {
  bool: [0, 1], int8: [-128, 127], uint8: [0, 255], int16: [-32768, 32767], uint16: [0, 65535],
  int32: [-(2 ** 31), 2 ** 31 - 1], uint32: [0, 2 ** 32 - 1], int64: [-(2n ** 63n), 2n ** 63n - 1n],
    uint64: [0n, 2n ** 64n - 1n],
};
const bounds = (dtype) => BOUNDS[dtype] ?? [-Infinity, Infinity];
const reduced = (run) => ({ keepdims = 1, noop_with_empty_axes: noop = 0, ...attrs }, data, axes) => {
  const given = axesOf(attrs, axes), chosen = given?.length ? given : noop ? [] : [...data.shape.keys()];
  const [shape, rows] = rowsOf(data, chosen, keepdims);
  return tensor(data.dtype, shape, rows.map((row) => run(row, data.dtype)));
};

function mean(row, dtype) {
  if (!wraps(dtype)) return added(row) / row.length;
  if (!row.length) return zeroOf(row);
  return typeof row[0] === "bigint" ? added(row) / BigInt(row.length) : Math.trunc(added(row) / row.length);
}

function logSumExp(row) {
  const largest = row.reduce((a, x) => most(a, Number(x)), -Infinity), peak = Number.isFinite(largest) ? largest : 0;
  return Math.log(row.reduce((all, x) => all + Math.exp(Number(x) - peak), 0)) + peak;
}

const absoluteOf = (x) => (x < 0 ? -x : x);

Object.assign(HOST, {
  "onnx.ReduceSum": reduced((row) => added(row)),
  "onnx.ReduceMean": reduced(mean),
  "onnx.ReduceProd": reduced((row) => row.reduce((all, x) => all * x, typeof zeroOf(row) === "bigint" ? 1n : 1)),
  "onnx.ReduceMax": reduced((row, dtype) => row.reduce(most, bounds(dtype)[0])),
  "onnx.ReduceMin": reduced((row, dtype) => row.reduce(least, bounds(dtype)[1])),
  "onnx.ReduceL1": reduced((row) => added(row, absoluteOf)),
  "onnx.ReduceL2": reduced((row) => Math.sqrt(row.reduce((all, x) => all + Number(x) ** 2, 0))),
  "onnx.ReduceSumSquare": reduced((row) => added(row, (x) => x * x)),
  "onnx.ReduceLogSum": reduced((row) => Math.log(row.reduce((all, x) => all + Number(x), 0))),
  "onnx.ReduceLogSumExp": reduced(logSumExp),
  "onnx.CumSum": accumulated((a, b) => a + b, 0),
  "onnx.CumProd": accumulated((a, b) => a * b, 1),
  "onnx.ArgMax": searched((a, b) => a > b),
  "onnx.ArgMin": searched((a, b) => a < b),
});

function accumulated(join, neutral) {
  return ({ exclusive = 0, reverse = 0 }, data, axis) => {
    const at = axisOf(scalar(axis), data.shape.length), size = data.shape[at],
      inner = product(data.shape.slice(at + 1));
    const values = numbers(data), found = values.slice(), first = zeroOf(values) === 0n ? BigInt(neutral) : neutral;
    for (let i = 0; i < product(data.shape.slice(0, at)); i++) {
      for (let j = 0; j < inner; j++) {
        for (let k = 0, all = first; k < size; k++) {
          const position = (i * size + (reverse ? size - 1 - k : k)) * inner + j, next = join(all, values[position]);
          found[position] = exclusive ? all : next;
          all = next;
        }
      }
    }
    return tensor(data.dtype, data.shape, found);
  };
}

function searched(isBetter) {
  return ({ axis = 0, keepdims = 1, select_last_index: last = 0 }, data) => {
    const [shape, rows] = rowsOf(data, [axis], keepdims);
    return integers(rows.map((row) => row.reduce((best, x, i) =>
      (isBetter(x, row[best]) || (isNone(x) && !isNone(row[best])) || (last && x === row[best]) ? i : best), 0)),
        shape);
  };
}

function product2(left, right) {
  const [a, b] = [left, right].map(({ shape }) => shape.length), kind = left.dtype;
  const [x, y] = [a === 1 ? unsqueezed(left, [0]) : left, b === 1 ? unsqueezed(right, [1]) : right];
  const [rows, depth] = x.shape.slice(-2), [inner, columns] = y.shape.slice(-2);
  if (depth !== inner) throw new RangeError(`a product over ${depth} and ${inner} elements`);
  const batch = joined([x.shape.slice(0, -2), y.shape.slice(0, -2)]), count = product(batch), found = [];
  const [p, q] = [numbers(broadcast(x, [...batch, rows, depth])), numbers(broadcast(y, [...batch, depth, columns]))];
  const zero = isWide(kind) ? 0n : 0, times = wraps(kind) && !isWide(kind) ? Math.imul : (u, v) => u * v;
  for (let n = 0; n < count; n++) {
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < columns; j++) {
        let all = zero;
        for (let k = 0; k < depth; k++) all += times(p[(n * rows + i) * depth + k], q[(n * depth + k) * columns + j]);
        found.push(all);
      }
    }
  }
  return tensor(kind, [...batch, ...(a === 1 ? [] : [rows]), ...(b === 1 ? [] : [columns])], found);
}

// -------------------------------------------------------------------------------------------- found in the elements
/** Order of elements: numbers with NaN last, texts by their code points. */
function order(a, b) {
  if (a === b) return 0;
  if (isNone(a) || isNone(b)) return isNone(a) - isNone(b);
  return a < b ? -1 : 1;
}
const sortedBy = (count, compare) => Uint32Array.from({ length: count }, (_, i) => i).sort(compare);

function nonZero(data) {
  const rank = Math.max(data.shape.length, 1), steps = stepsOf(data.shape), values = numbers(data), found = [];
  for (let i = 0; i < values.length; i++) if (values[i] != 0) found.push(i); // eslint-disable-line eqeqeq
  return Array.from({ length: rank }, (_, axis) =>
    found.map((at) => Math.floor(at / (steps[axis] ?? 1)) % (data.shape[axis] ?? 1)));
}

/** First positions, the way back and counts of distinct slices along an axis, sorted or as they first occur. */
function distinct(data, isSorted) {
  const count = data.shape[0], size = product(data.shape.slice(1)), values = numbers(data);
  const compare = (a, b) => {
    for (let i = 0; i < size; i++) {
      const found = order(values[a * size + i], values[b * size + i]);
      if (found) return found;
    }
    return 0;
  };
  const groups = [], of = new Array(count);
  for (const slice of sortedBy(count, compare)) {
    if (!groups.length || compare(groups.at(-1)[0], slice)) groups.push([]);
    groups.at(-1).push(slice);
  }
  if (!isSorted) groups.sort((a, b) => a[0] - b[0]);
  groups.forEach((group, i) => group.forEach((slice) => { of[slice] = i; }));
  return [groups.map((group) => group[0]), of, groups.map((group) => group.length)];
}

function unique({ axis, sorted = 1 }, data) {
  const whole = axis === undefined || axis === null ? reshaped(data, [data.data.length]) : data;
  const at = axis ? axisOf(axis, data.shape.length) : 0, [first, back, counts] = distinct(moved(whole, at, 0), sorted);
  return tuple(taken(whole, first, at), ...[first, back, counts].map((values) => integers(values)));
}

/** The positions of the `count` first elements along the last axis in order; equal ones as they come. */
function best(data, count, isLargest) {
  const size = data.shape.at(-1), values = numbers(data), found = [];
  for (let row = 0; row < values.length / (size || 1); row++) {
    const at = (i) => values[row * size + i];
    found.push(...sortedBy(size, (a, b) => (isLargest ? order(at(b), at(a)) : order(at(a), at(b)))).subarray(0, count));
  }
  return found;
}

function topK(data, given, count, isLargest) {
  const axis = axisOf(given, data.shape.length), turned = moved(data, axis, -1), size = data.shape[axis];
  const indices = best(turned, count, isLargest), shape = turned.shape.with(-1, count);
  const at = Int32Array.from(indices, (index, i) => Math.floor(i / count) * size + index);
  return [moved(picked(turned, shape, at), -1, axis), moved(integers(indices, shape), -1, axis)];
}

function oneHot({ axis = -1 }, indices, depth, values) {
  const count = scalar(depth), at = axisOf(axis, indices.shape.length + 1), given = ints(indices);
  if (count < 1) throw new RangeError(`a depth of ${count}`);
  const shape = indices.shape.toSpliced(at, 0, count), inner = product(indices.shape.slice(at));
  const places = Int32Array.from({ length: product(shape) }, (_, i) => {
    const index = given[Math.floor(i / (count * inner)) * inner + (i % inner)];
    return +((index < 0 ? index + count : index) === Math.floor(i / inner) % count);
  });
  return picked(values, shape, places);
}

/** Corners (low, low, high, high) of boxes [n, 4]. */
function corners(values, isCentred) {
  return Array.from({ length: values.length / 4 }, (_, i) => {
    const [a, b, c, d] = values.subarray(4 * i, 4 * i + 4);
    if (isCentred) return [a - c / 2, b - d / 2, a + c / 2, b + d / 2].map(Math.fround);
    return [Math.min(a, c), Math.min(b, d), Math.max(a, c), Math.max(b, d)];
  });
}

function suppressed(boxes, given, overlap, limit) {
  const area = ([a, b, c, d]) => Math.fround(Math.fround(c - a) * Math.fround(d - b)), kept = [];
  for (let rest = given; rest.length && kept.length < limit;) {
    const [first, ...others] = rest, box = boxes[first];
    kept.push(first);
    rest = others.filter((other) => {
      const [a, b, c, d] = boxes[other], side = (low, high) => Math.max(Math.fround(high - low), 0);
      const shared = Math.fround(side(Math.max(a, box[0]), Math.min(c, box[2])) * side(Math.max(b, box[1]),
        Math.min(d, box[3])));
      const union = Math.fround(Math.fround(area(boxes[other]) + area(box)) - shared);
      return !(union > 0 && shared > Math.fround(overlap * union));
    });
  }
  return kept;
}

function nonMaxSuppression(attrs, boxes, scores, limit, iou, score) {
  const [batches, classes, count] = scores.shape, [all, values] = [numbers(boxes), numbers(scores)], rows = [];
  if (listed(boxes.shape) !== listed([batches, count, 4])) {
    throw new RangeError(`boxes of shape ${listed(boxes.shape)}, and not ${listed([batches, count, 4])}`);
  }
  for (let batch = 0; batch < batches; batch++) {
    const found = corners(all.subarray(4 * count * batch, 4 * count * (batch + 1)), attrs.center_point_box);
    for (let kind = 0; kind < classes; kind++) {
      const row = values.subarray((batch * classes + kind) * count, (batch * classes + kind + 1) * count);
      let given = [...sortedBy(count, (a, b) => order(-row[a], -row[b]))];
      if (score) given = given.filter((i) => row[i] > scalar(score));
      for (const box of suppressed(found, given, iou ? scalar(iou) : 0, limit ? scalar(limit) : 0)) rows.push(batch,
        kind, box);
    }
  }
  return integers(rows, [rows.length / 3, 3]);
}

Object.assign(HOST, {
  "onnx.MatMul": (_, a, b) => product2(a, b),
  "onnx.NonZero": (_, data) => {
    const rows = nonZero(data);
    return integers(rows.flat(), [rows.length, rows[0].length]);
  },
  "argwhere": (_, data) => {
    const rows = nonZero(data), [rank, count] = [data.shape.length, rows[0].length];
    return tensor("int32", [count, rank], Array.from({ length: count * rank }, (_, i) =>
      rows[i % rank][Math.floor(i / rank)]));
  },
  "onnx.Compress": ({ axis }, data, condition) => {
    const given = ints(condition), chosen = given.map((_, i) => i).filter((i) => given[i]);
    if (axis === undefined || axis === null) return taken(reshaped(data, [data.data.length]), chosen, 0);
    return taken(data, chosen, axisOf(axis, data.shape.length));
  },
  "onnx.Unique": unique,
  "unique": ({ sorted, return_counts: counted }, data) => {
    const [values, ...rest] = unique({ sorted }, data).fields,
      [first, back, counts] = rest.map((one) => cast(one, "int32"));
    const size = tensor("int32", [1], [values.data.length]);
    return tuple(values, first, back, size, ...(counted ? [counts] : []));
  },
  "onnx.TopK": ({ axis = -1, largest = 1 }, data, k) => {
    const [count, size] = [scalar(k), data.shape.at(axis)];
    if (!(count >= 0 && count <= size)) fail(`cannot take ${count} of ${size} elements`);
    return tuple(...topK(data, axis, count, largest));
  },
  "dyn.topk": ({ axis, is_ascend: ascends, dtype, ret_type: wanted }, data, k) => {
    const size = data.shape.at(axis), given = scalar(k), count = given < 1 ? size : Math.min(given, size);
    const [values, indices] = topK(data, axis, count, !ascends), places = cast(indices, dtype);
    return { both: tuple(values, places), values, indices: places }[wanted];
  },
  "onnx.OneHot": oneHot,
  "dyn.one_hot": ({ axis, dtype }, indices, on, off, depth) =>
    oneHot({ axis }, indices, depth, cast(concatenated([reshaped(off, [1]), reshaped(on, [1])], 0), dtype)),
  "onnx.NonMaxSuppression": nonMaxSuppression,
  "onnx.Gather": ({ axis = 0 }, data, indices) => {
    const at = axisOf(axis, data.shape.length), found = taken(data, ints(indices), at);
    return { ...found, shape: data.shape.toSpliced(at, 1, ...indices.shape) };
  },
  "onnx.ReverseSequence": ({ batch_axis: batch = 1, time_axis: time = 0 }, data, lengths) => {
    const steps = stepsOf(data.shape), given = ints(lengths), along = (i, axis) =>
      Math.floor(i / steps[axis]) % data.shape[axis];
    const samples = data.shape[batch];
    if (given.length !== samples) throw new RangeError(`${given.length} lengths for ${samples} samples`);
    return picked(data, data.shape, Int32Array.from(data.data, (_, i) => {
      const [at, length] = [along(i, time), given[along(i, batch)]];
      return at < length ? i + (length - 1 - 2 * at) * steps[time] : i;
    }));
  },
});

// -------------------------------------------------------------------------------------------- read and write by index
const JOINS = { none: (_, b) => b, add: (a, b) => a + b, mul: (a, b) => a * b, max: most, min: least };

/** The tensor with updates at positions; several floats at one are joined in float64. */
function written({ reduction = "none" }, data, at, updates) {
  const result = isFloat(data.dtype) ? Float64Array.from(numbers(data)) : data.data.slice(), values = numbers(updates);
  at.forEach((position, i) => { result[position] = JOINS[reduction](result[position], values[i]); });
  return tensor(data.dtype, data.shape, result);
}

function inRange(index, size) {
  if (!(index >= -size && index < size)) fail(`an index is out of range for an axis of size ${size}`);
  return index < 0 ? index + size : index;
}

/** Positions in `data` of the elements that indices along an axis stand for. */
function alongAxis({ axis = 0 }, data, indices) {
  const at = axisOf(axis, data.shape.length), steps = stepsOf(data.shape), given = ints(indices);
  const rest = positions(indices.shape, steps.with(at, 0));
  return rest.map((position, i) => position + inRange(given[i], data.shape[at]) * steps[at]);
}

/** Positions of the slices that the last axis of `indices` names, behind `batch` axes that both have. */
function atCoordinates(data, indices, batch) {
  const steps = stepsOf(data.shape), depth = indices.shape.at(-1), given = ints(indices),
    lead = indices.shape.slice(0, -1);
  const first = positions(lead, lead.map((_, axis) => (axis < batch ? steps[axis] : 0)));
  const inner = data.shape.slice(batch + depth), offsets = positions(inner, steps.slice(batch + depth)), found = [];
  first.forEach((start, i) => {
    for (let k = 0; k < depth; k++) start += inRange(given[i * depth + k], data.shape[batch + k]) * steps[batch + k];
    for (const offset of offsets) found.push(start + offset);
  });
  return [[...lead, ...inner], found];
}

function fits({ shape }, wanted) {
  const [given, needed] = [listed(shape), listed(wanted)];
  if (given !== needed) throw new RangeError(`updates of shape ${given}, not ${needed}`);
}

function scatterElements(attrs, data, indices, updates) {
  fits(updates, indices.shape);
  return written(attrs, data, alongAxis(attrs, data, indices), updates);
}

Object.assign(HOST, {
  "onnx.GatherElements": (attrs, data, indices) => picked(data, indices.shape, alongAxis(attrs, data, indices)),
  "onnx.ScatterElements": scatterElements,
  "onnx.Scatter": scatterElements,
  "onnx.GatherND": ({ batch_dims: batch = 0 }, data, indices) => picked(data, ...atCoordinates(data, indices, batch)),
  "onnx.ScatterND": (attrs, data, indices, updates) => {
    const [shape, at] = atCoordinates(data, indices, 0);
    fits(updates, shape);
    return written(attrs, data, at, updates);
  },
});
