// Operators of the host on pictures, regions and signals, and numbers drawn at random.

/** A tensor of floats with elements that a function finds from their coordinates. */
function filled(dtype, shape, value) {
  const steps = stepsOf(shape);
  return tensor(dtype, shape, Array.from({ length: product(shape) }, (_, i) =>
    value(...shape.map((size, axis) => Math.floor(i / steps[axis]) % size))));
}

// --------------------------------------------------------------------------------------------------------- resizing
// An axis is { size, out, scale, start, end }. Coordinates are of float32, as onnxruntime has them.
const f32 = Math.fround;
const halfPixel = ({ scale }, x) => f32(f32(f32(x + 0.5) / f32(scale)) - 0.5);
const cropped = ({ size, out, start, end }, x) => (out > 1
  ? start * (size - 1) + (x * (end - start) * (size - 1)) / (out - 1) : 0.5 * (start + end) * (size - 1));
const COORDINATES = {
  half_pixel: halfPixel,
  half_pixel_symmetric: (axis, x) => {
    const { size, out, scale } = axis;
    return f32((size / 2) * (1 - out / (f32(scale) * size)) + halfPixel(axis, x));
  },
  pytorch_half_pixel: (axis, x) => (axis.out > 1 ? halfPixel(axis, x) : 0),
  align_corners: ({ size, out }, x) => (out > 1 ? f32(f32(x * (size - 1)) / (out - 1)) : 0),
  asymmetric: ({ scale }, x) => f32(x / f32(scale)),
  tf_half_pixel_for_nn: ({ scale }, x) => f32(f32(x + 0.5) / f32(scale)),
  tf_crop_and_resize: (axis, x) => f32(cropped({ ...axis, start: f32(axis.start), end: f32(axis.end) }, x)),
};
const TIE = 1e-5; // how near to the middle of two elements a coordinate counts as it
const ROUNDINGS = {
  round_prefer_floor: (x) => Math.ceil(x - 0.5 - TIE), round_prefer_ceil: (x) => Math.floor(x + 0.5 + TIE),
  floor: Math.floor, ceil: Math.ceil,
};
const linear = (distance) => Math.max(1 - Math.abs(distance), 0);

/** Keys' cubic convolution kernel with the parameter `a`. */
function cubic(distance, a) {
  const t = Math.abs(distance);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((t - 5) * t + 8) * t * a - 4 * a : 0;
}

/** For each position of an axis the elements that it is made of, each with its share. */
function taps(axis, { mode, a, excludes, antialias, coordinates }) {
  const [kernel, radius] = mode === "linear" ? [linear, 1] : [cubic, 2], stretch = antialias ? Math.min(axis.scale, 1)
    : 1;
  const reach = Math.ceil(radius / stretch), offsets = [];
  for (let at = antialias ? -reach : 1 - radius; at <= (antialias ? reach : radius); at++) offsets.push(at);
  return Array.from({ length: axis.out }, (_, x) => {
    const position = COORDINATES[coordinates](axis, x), low = Math.floor(position);
    const shares = offsets.map((offset) => (excludes && !(low + offset >= 0 && low + offset < axis.size) ? 0
      : kernel((low + offset - position) * stretch, a)));
    const total = excludes || antialias ? shares.reduce((all, share) => all + share, 0) : 1;
    const found = offsets.map((offset, i) => [Math.min(Math.max(low + offset, 0), axis.size - 1), shares[i] / total]);
    return antialias ? found.filter(([, share]) => share) : found;
  });
}

/** Float64 values of a shape with an axis interpolated by taps. */
function interpolated(values, shape, axis, found) {
  const [size, inner] = [shape[axis], product(shape.slice(axis + 1))], outer = product(shape.slice(0, axis));
  const result = new Float64Array(outer * found.length * inner);
  for (let i = 0, k = 0; i < outer; i++) {
    for (const row of found) {
      for (let j = 0; j < inner; j++, k++) {
        for (const [at, share] of row) result[k] += values[(i * size + at) * inner + j] * share;
      }
    }
  }
  return result;
}

function resizedAxes(attrs, { shape }, roi, scales, sizes) {
  const chosen = (attrs.axes ?? [...shape.keys()]).map((axis) => axisOf(axis, shape.length)), count = chosen.length;
  const region = roi?.data.length ? ints(roi) : [...Array(count).fill(0), ...Array(count).fill(1)];
  const extents = chosen.map((axis) => shape[axis]);
  let factors, outs;
  if (scales?.data.length === count) {
    factors = ints(scales);
    outs = extents.map((size, i) => Math.floor(f32(size * f32(factors[i]))));
  } else if (sizes?.data.length === count) {
    outs = ints(sizes);
    factors = outs.map((size, i) => size / extents[i]);
    const policy = attrs.keep_aspect_ratio_policy ?? "stretch";
    if (policy !== "stretch") {
      const scale = policy === "not_larger" ? Math.min(...factors) : Math.max(...factors);
      outs = extents.map((size) => Math.floor(size * scale + 0.5));
      factors = extents.map(() => scale);
    }
  } else fail(`Resize needs scales or sizes for its ${count} axes`);
  if (outs.some((out, i) => !(out >= 0) || (extents[i] && !out))) {
    fail(`a tensor of shape ${listed(shape)} cannot be resized to ${listed(outs)} along the axes ${listed(chosen)}`);
  }
  return chosen.map((axis, i) => ({ axis, size: extents[i], out: outs[i], scale: factors[i], start: region[i],
    end: region[i + count] }));
}

function resize(attrs, data, roi, scales, sizes) {
  if (roi && !scales && !sizes) return upsample(attrs, data, roi); // opset 10 has scales where the region came later
  const coordinates = attrs.coordinate_transformation_mode ?? "half_pixel",
    crops = coordinates === "tf_crop_and_resize";
  const active = resizedAxes(attrs, data, roi, scales, sizes).filter(({ size, out, scale, start, end }) =>
    (crops && (start !== 0 || end !== 1)) || size !== out || Math.abs(scale - 1) >= 1e-6);
  if ((attrs.mode ?? "nearest") === "nearest") {
    const rounding = ROUNDINGS[attrs.nearest_mode ?? "round_prefer_floor"];
    const found = active.reduce((made, axis) => taken(made, Array.from({ length: axis.out }, (_, x) =>
      Math.min(Math.max(rounding(COORDINATES[coordinates](axis, x)), 0), axis.size - 1)), axis.axis), data);
    return crops ? outsideFilled(attrs, found, active) : found;
  }
  const options = { mode: attrs.mode, a: attrs.cubic_coeff_a ?? -0.75, excludes: attrs.exclude_outside,
    antialias: attrs.antialias, coordinates };
  let [values, shape] = [Float64Array.from(numbers(data), Number), data.shape];
  for (const axis of active) {
    values = interpolated(values, shape, axis.axis, taps(axis, options));
    shape = shape.with(axis.axis, axis.out);
  }
  const found = tensor(data.dtype, shape, values);
  return crops ? outsideFilled(attrs, found, active) : found;
}

function outsideFilled({ extrapolation_value: value = 0 }, found, axes) {
  const steps = stepsOf(found.shape), fill = tensor(found.dtype, [], [value]).data[0], data = found.data.slice();
  data.forEach((_, i) => {
    const beyond = axes.some((axis) => {
      const at = cropped(axis, Math.floor(i / steps[axis.axis]) % axis.out);
      return at < 0 || at > axis.size - 1;
    });
    if (beyond) data[i] = fill;
  });
  return { ...found, data };
}

const upsample = (attrs, data, scales) =>
  resize({ ...attrs, coordinate_transformation_mode: "asymmetric", nearest_mode: "floor" }, data, undefined, scales);

// ------------------------------------------------------------------------------------------------- grids and regions
function affineGrid({ align_corners: corners = 0 }, theta, size) {
  const [batch, , ...extents] = ints(size), count = extents.length, values = numbers(theta);
  const line = (extent, i) => (corners ? (extent > 1 ? (2 * i) / (extent - 1) - 1 : 0) : (2 * i + 1) / extent - 1);
  return filled(theta.dtype, [batch, ...extents, count], (n, ...at) => {
    const row = at.pop(), point = [...extents.map((extent, axis) => line(extent, at[axis])).reverse(), 1];
    return point.reduce((all, x, k) => all + x * values[(n * count + row) * (count + 1) + k], 0);
  });
}

function maxUnpool(attrs, data, indices, shape) {
  const kernel = attrs.kernel_shape, rank = kernel.length, strides = attrs.strides ?? kernel.map(() => 1);
  const pads = attrs.pads ?? Array(2 * rank).fill(0), found = [...data.shape.slice(0, 2), ...kernel.map((size, axis) =>
    (data.shape[axis + 2] - 1) * strides[axis] + size - pads[axis] - pads[axis + rank])];
  const result = { data: blank(data.dtype, product(found)), shape: found, dtype: data.dtype };
  ints(indices).forEach((at, i) => {
    if (!(at >= 0 && at < result.data.length)) {
      fail(`MaxUnpool: an index is out of range for the shape ${listed(found)}`);
    }
    result.data[at] = data.data[i];
  });
  return shape ? within(result, ints(shape), found.map(() => 0), blank(data.dtype, 1)[0]) : result;
}

function col2im(attrs, data, image, block) {
  const [sizes, kernel] = [ints(image), ints(block)], rank = sizes.length, ones = Array(rank).fill(1);
  const { strides = ones, dilations = ones, pads = Array(2 * rank).fill(0) } = Object.fromEntries(
    Object.entries(attrs).filter(([, value]) => value !== null));
  const whole = sizes.map((size, axis) => size + pads[axis] + pads[axis + rank]);
  const steps = whole.map((size, axis) =>
    Math.floor((size - dilations[axis] * (kernel[axis] - 1) - 1) / strides[axis]) + 1);
  const planes = (data.shape[0] * data.shape[1]) / product(kernel), by = stepsOf(whole), values = numbers(data);
  const sum = new Float64Array(planes * product(whole)), tapAt =
    positions(kernel, by.map((step, i) => step * dilations[i]));
  const stepAt = positions(steps, by.map((step, i) => step * strides[i]));
  for (let plane = 0, k = 0; plane < planes; plane++) {
    for (const tap of tapAt) for (const step of stepAt) sum[plane * product(whole) + tap + step] += Number(values[k++]);
  }
  const lead = [data.shape[0], data.shape[1] / product(kernel)];
  return cut(tensor(data.dtype, [...lead, ...whole], sum), sizes.map((size, axis) =>
    [axis + 2, pads[axis], pads[axis] + size, 1]));
}

/** The two pixels beside a position with their shares. */
function beside(position, size) {
  const inside = +(position >= -1 && position <= size), at = Math.max(position, 0),
    low = Math.min(Math.trunc(at), size - 1);
  const part = low >= size - 1 ? 0 : at - low;
  return [[low, (1 - part) * inside], [Math.min(low + 1, size - 1), part * inside]];
}

function roiAlign(attrs, data, rois, batch) {
  const { coordinate_transformation_mode: mode = "half_pixel", spatial_scale: scale = 1, sampling_ratio: ratio = 0 } =
    attrs;
  const shift = mode === "half_pixel" ? 0.5 : 0, bins = [attrs.output_height ?? 1, attrs.output_width ?? 1];
  const [, channels, height, width] = data.shape, values = numbers(data), boxes = ints(rois), images = ints(batch),
    found = [];
  for (let number = 0; number < rois.shape[0]; number++) {
    const [x1, y1, x2, y2] = boxes.slice(4 * number, 4 * number + 4).map((x) => x * scale - shift);
    const lines = [[y1, y2, bins[0], height], [x1, x2, bins[1], width]].map(([low, high, count, size]) => {
      const step = (shift ? high - low : Math.max(high - low, 1)) / count, samples = ratio > 0 ? ratio
        : Math.max(Math.ceil(step), 1);
      return Array.from({ length: count }, (_, bin) => Array.from({ length: samples }, (_, i) =>
        beside(low + step * (bin + (i + 0.5) / samples), size)));
    });
    for (let channel = 0; channel < channels; channel++) {
      const plane = (images[number] * channels + channel) * height * width;
      for (const rows of lines[0]) for (const columns of lines[1]) found.push(pooled(attrs, values, plane, width, rows,
        columns));
    }
  }
  return tensor(data.dtype, [rois.shape[0], channels, ...bins], found);
}

/** The samples of one bin: their mean, or the largest weighted neighbour. */
function pooled({ mode = "avg" }, values, plane, width, rows, columns) {
  let [sum, largest] = [0, -Infinity];
  for (const ys of rows) for (const xs of columns) for (const [y, v] of ys) for (const [x, u] of xs) {
    const part = v * u === 0 ? 0 : values[plane + y * width + x] * v * u;
    sum += part;
    largest = most(largest, part);
  }
  return mode === "max" ? largest : sum / (rows.length * columns.length);
}

Object.assign(HOST, {
  "onnx.Resize": resize,
  "onnx.Upsample": upsample,
  "onnx.AffineGrid": affineGrid,
  "onnx.MaxUnpool": maxUnpool,
  "onnx.Col2Im": col2im,
  "onnx.RoiAlign": roiAlign,
});

// ---------------------------------------------------------------------------------------------- matrices and signals
function determinant(rows) {
  let found = 1;
  for (let k = 0; k < rows.length; k++) {
    let pivot = k;
    for (let i = k + 1; i < rows.length; i++) if (Math.abs(rows[i][k]) > Math.abs(rows[pivot][k])) pivot = i;
    if (!rows[pivot][k]) return 0;
    if (pivot !== k) [rows[pivot], rows[k], found] = [rows[k], rows[pivot], -found];
    found *= rows[k][k];
    for (let i = k + 1; i < rows.length; i++) {
      const factor = rows[i][k] / rows[k][k];
      for (let j = k; j < rows.length; j++) rows[i][j] -= factor * rows[k][j];
    }
  }
  return found;
}

/** The discrete Fourier transform of complex numbers [real, imaginary], by halves as long as their count is even. */
function fourier(values, sign) {
  const count = values.length, turn = (k) => [Math.cos((2 * Math.PI * k) / count),
    (sign * Math.sin((2 * Math.PI * k) / count))];
  if (count > 1 && count % 2 === 0) {
    const [even, odd] = [0, 1].map((first) => fourier(values.filter((_, i) => i % 2 === first), sign));
    return values.map((_, k) => {
      const at = k % (count / 2), [c, s] = turn(k), [x, y] = odd[at];
      return [even[at][0] + c * x - s * y, even[at][1] + c * y + s * x];
    });
  }
  return values.map((_, k) => values.reduce(([re, im], [x, y], i) => {
    const [c, s] = turn((i * k) % count);
    return [re + c * x - s * y, im + c * y + s * x];
  }, [0, 0]));
}

/** The numbers that the last axis of a tensor holds, real or with an imaginary part, by rows along an axis. */
function complexRows(data, axis) {
  const width = data.shape.at(-1), turned = moved(data, axis, -2), size = turned.shape.at(-2), values = numbers(turned);
  if (width !== 1 && width !== 2) throw new RangeError(`the last axis holds 1 or 2 parts, not ${width}`);
  const at = (row, i) => [values[(row * size + i) * width], width === 2 ? values[(row * size + i) * width + 1] : 0];
  return [turned.shape.slice(0, -2), Array.from({ length: product(turned.shape.slice(0, -2)) }, (_, row) =>
    Array.from({ length: size }, (_, i) => at(row, i)))];
}

function dft(attrs, data, length, axis) {
  const at = axisOf(axis ? scalar(axis) : attrs.axis ?? -2, data.shape.length), [lead, rows] = complexRows(data, at);
  const given = data.shape[at], isHalf = attrs.inverse && attrs.onesided;
  const count = length ? scalar(length) : isHalf ? 2 * (given - 1) : given;
  const found = rows.map((row) => {
    const whole = Array.from({ length: count }, (_, i) => {
      if (!isHalf || i <= count / 2) return row[i] ?? [0, 0];
      const [re, im] = row[count - i] ?? [0, 0];
      return [re, -im];
    });
    const turned = fourier(whole, attrs.inverse ? 1 : -1).map((x) => (attrs.inverse ? x.map((one) => one / count) : x));
    if (isHalf) return turned.map(([re]) => [re]);
    return attrs.onesided ? turned.slice(0, Math.floor(count / 2) + 1) : turned;
  });
  return moved(tensor(data.dtype, [...lead, found[0].length, isHalf ? 1 : 2], found.flat(2)), -2, at);
}

function stft(attrs, data, step, window, length) {
  const hop = scalar(step), size = length ? scalar(length) : window.data.length, shares = window && numbers(window);
  if (shares && shares.length !== size) {
    throw new RangeError(`a window of ${shares.length} elements does not fit frames of ${size}`);
  }
  const count = Math.floor((data.shape[1] - size) / hop) + 1, [, rows] = complexRows(data, 1);
  const lines = attrs.onesided ?? 1 ? Math.floor(size / 2) + 1 : size;
  const found = rows.map((row) => Array.from({ length: count }, (_, frame) =>
    fourier(row.slice(frame * hop, frame * hop + size).map((x, i) => x.map((one) => one * (shares?.[i] ?? 1))),
      -1).slice(0, lines)));
  return tensor(data.dtype, [data.shape[0], count, lines, 2], found.flat(3));
}

function melWeights({ result_dtype: dtype }, ...given) {
  const [bands, length, rate, low, high] = given.map(scalar), lines = Math.floor(length / 2) + 1;
  const [from, to] = [low, high].map((hertz) => 2595 * Math.log10(1 + hertz / 700));
  const edges = Array.from({ length: bands + 2 }, (_, i) =>
    Math.floor(((length + 1) * (700 * (10 ** ((from + i * ((to - from) / (bands + 2))) / 2595) - 1))) / rate));
  return filled(dtype, [lines, bands], (line, band) => {
    const [left, centre, right] = edges.slice(band, band + 3);
    if (line >= centre && line < right) return (right - line) / (right - centre);
    if (centre === left) return +(line === centre);
    return line >= left && line <= centre ? (line - left) / (centre - left) : 0;
  });
}

/** A window as a sum of cosines, a - b cos(t) + c cos(2t). */
const cosines = (a, b, c) => ({ periodic = 1, result_dtype: dtype }, size) => filled(dtype, [scalar(size)], (i) => {
  const angle = (2 * Math.PI * i) / Math.max(periodic ? scalar(size) : scalar(size) - 1, 1);
  return a - b * Math.cos(angle) + c * Math.cos(2 * angle);
});

/** Numbers from 0 to 1 by the Mersenne Twister (Matsumoto and Nishimura, 1998), as NumPy's `RandomState` has them. */
function twister(seed) {
  const state = new Uint32Array(624), word = () => {
    if (next === 624) {
      for (let i = 0; i < 624; i++) {
        const y = (state[i] & 0x80000000) | (state[(i + 1) % 624] & 0x7fffffff);
        state[i] = state[(i + 397) % 624] ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
      }
      next = 0;
    }
    let y = state[next++];
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  };
  let next = 624;
  state[0] = seed;
  for (let i = 1; i < 624; i++) state[i] = Math.imul(1812433253, state[i - 1] ^ (state[i - 1] >>> 30)) + i;
  return () => ((word() >>> 5) * 67108864 + (word() >>> 6)) / 9007199254740992;
}

const drawing = ({ seed }) => (seed === undefined || seed === null ? Math.random : twister(Math.trunc(seed) >>> 0));

function dropout(attrs, data, ratio, training) {
  const share = ratio ? scalar(ratio) : attrs.ratio ?? 0.5, { shape, dtype } = data;
  if (!training || !scalar(training) || share === 0) return tuple(data, constant("bool", shape, 1));
  const draw = drawing(attrs), mask = tensor("bool", shape, Array.from(data.data, () => draw() >= share));
  return tuple(tensor(dtype, shape, Array.from(numbers(data), (x, i) => x * mask.data[i] * (1 / (1 - share)))), mask);
}

function uniform({ low = 0, high = 1, shape, result_dtype: dtype, ...attrs }, like) {
  const draw = drawing(attrs);
  return filled(dtype, like?.shape ?? shape, () => low + (high - low) * draw());
}

Object.assign(HOST, {
  "onnx.Det": (_, data) => {
    const size = data.shape.at(-1), values = numbers(data), shape = data.shape.slice(0, -2);
    return tensor(data.dtype, shape, Array.from({ length: product(shape) }, (_, n) => determinant(
      Array.from({ length: size }, (_, i) => Array.from(values.slice((n * size + i) * size,
        (n * size + i + 1) * size))))));
  },
  "onnx.DFT": dft,
  "onnx.STFT": stft,
  "onnx.MelWeightMatrix": melWeights,
  "onnx.HannWindow": cosines(0.5, 0.5, 0),
  "onnx.HammingWindow": cosines(25 / 46, 21 / 46, 0),
  "onnx.BlackmanWindow": cosines(0.42, 0.5, 0.08),
  "onnx.Dropout": dropout,
  "onnx.RandomUniform": uniform,
  "onnx.RandomUniformLike": uniform,
});
