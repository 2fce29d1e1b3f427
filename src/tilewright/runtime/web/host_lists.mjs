// Operators of the host on lists of loops, { before, rows }, on sequences and optionals.

/** The elements of a list, { before, rows }, as an array. */
function sequenceOf(list) {
  const found = [];
  for (; list; list = list.before) found.push(list.rows);
  return found.reverse().flat();
}

function placeIn(position, count, missing) {
  const at = position ? scalar(position) : missing;
  return at < 0 ? at + count : at;
}

function existing(sequence, position, missing) {
  const count = sequence.length, at = placeIn(position, count, missing);
  return at >= 0 && at < count ? at : fail(`position ${at} is out of range for a sequence of ${count} elements`);
}

function splitToSequence({ axis = 0, keepdims = 1 }, data, sizes) {
  const at = axisOf(axis, data.shape.length), size = data.shape[at];
  let given = sizes?.shape.length ? ints(sizes) : undefined;
  const step = sizes && !given ? scalar(sizes) : 1;
  if (step < 1) fail(`a tensor cannot be split into parts of ${step} elements`);
  given ??= Array.from({ length: Math.max(Math.ceil(size / step), 1) }, (_, i) => Math.min(step, size - i * step));
  if (Math.min(...given) < 0 || given.reduce((a, b) => a + b, 0) !== size) {
    fail(`the sizes ${listed(given)} do not add up to the ${size} elements that are to be split`);
  }
  const made = partsOf(data, given, at);
  return sizes || keepdims ? made : made.map((part) => squeezed(part, [at]));
}

Object.assign(HOST, {
  "list.empty": () => undefined,
  "list.push": (_, list, element) => ({ before: list, rows: [element] }),
  "list.to_sequence": (_, list) => sequenceOf(list),
  "list.stack": ({ axis = 0, shape = [], dtype = "float32" }, list) => {
    const rows = sequenceOf(list);
    if (!rows.length) {
      const sizes = shape.map((size) => Math.max(0, size ?? 0));
      sizes.splice(axis >= 0 ? axis : sizes.length + 1 + axis, 0, 0);
      return { data: blank(dtype, 0), shape: sizes, dtype };
    }
    const shapes = [...new Set(rows.map((row) => listed(row.shape)))].sort();
    if (shapes.length > 1) {
      fail(`the results of a loop's iterations have different shapes and cannot be stacked: ${shapes.join(", ")}`);
    }
    return stacked(rows, axis);
  },
  "onnx.SequenceConstruct": (_, ...elements) => elements,
  "onnx.SequenceEmpty": () => [],
  "onnx.SequenceAt": (_, sequence, position) => sequence[existing(sequence, position, 0)],
  "onnx.SequenceInsert": (_, sequence, element, position) => {
    const count = sequence.length, at = placeIn(position, count, count);
    if (at < 0 || at > count) fail(`position ${at} is out of range for inserting into a sequence of ${count} elements`);
    return sequence.toSpliced(at, 0, element);
  },
  "onnx.SequenceErase": (_, sequence, position) =>
    sequence.toSpliced(existing(sequence, position, sequence.length - 1), 1),
  "onnx.SequenceLength": (_, sequence) => integers([sequence.length], []),
  "onnx.SplitToSequence": splitToSequence,
  "onnx.ConcatFromSequence": ({ axis, new_axis: isNew = 0 }, sequence) => {
    if (!sequence.length) fail("a sequence without elements cannot be joined to a tensor");
    return isNew ? stacked(sequence, axis) : concatenated(sequence, axis);
  },
  "onnx.Optional": (_, value) => value,
  "onnx.OptionalHasElement": (_, value) => tensor("bool", [], [value !== undefined && value !== null]),
  "onnx.OptionalGetElement": (_, value) => value ?? fail("the value of an empty optional is requested"),
});
