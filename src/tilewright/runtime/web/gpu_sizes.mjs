// The second part, for the browser's GPU: the steps of a run for given sizes, where a model's sizes are open.

const OPERATORS = {
  "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b,
  "//": (a, b) => Math.floor(a / (b || 1)), "%": (a, b) => a - (b || 1) * Math.floor(a / (b || 1)),
  min: Math.min, max: Math.max, "<": (a, b) => a < b, "<=": (a, b) => a <= b, "==": (a, b) => a === b,
  "!=": (a, b) => a !== b, and: (a, b) => a && b, or: (a, b) => a || b,
};

/** The value of a number, a name, or [operator, ...operands]. */
function sizeOf(expression, values) {
  if (typeof expression === "number") return expression;
  if (typeof expression === "string") return values[expression];
  const [operator, ...operands] = expression;
  if (operator === "select") return sizeOf(operands[sizeOf(operands[0], values) ? 1 : 2], values);
  return Number(OPERATORS[operator](...operands.map((one) => sizeOf(one, values))));
}

/** Offsets of buffers [bytes, first step, last step] such that none overlap that live at once, and their end. */
function packedAt(buffers) {
  const offsets = [], placed = [];
  const order = [...buffers.keys()].sort((i, j) => buffers[j][0] - buffers[i][0] || buffers[i][1] - buffers[j][1]);
  for (const i of order) {
    const [size, first, last] = buffers[i];
    offsets[i] = 0;
    for (const [start, end, from, to] of placed) {
      if (from > last || to < first) continue;
      if (start - offsets[i] >= size) break;
      offsets[i] = Math.max(offsets[i], end);
    }
    placed.push([offsets[i], offsets[i] + size, first, last]);
    placed.sort(([a], [b]) => a - b);
  }
  return [offsets, Math.max(0, ...placed.map(([, end]) => end))];
}

/** What a piece of fixed sizes has (`sizes`, `offsets`, `steps`) for inputs of these shapes, and outputs' `shapes`. */
function fixedFor({ open, inputs, outputs }, kernels, shapes) {
  const { dims, checks, equal, buffers, values, workspaces, functions, calls, alignment } = open;
  const named = Object.fromEntries(dims.map(([name, input, axis]) => [name, shapes[input][axis]]));
  const value = (expression) => sizeOf(expression, named), aligned = (bytes) => up(Math.max(1, bytes), alignment);
  const known = Object.entries(named).map((pair) => pair.join(" = ")).join(", ");
  for (const [input, axis, size] of checks) {
    if (shapes[input][axis] === value(size)) continue;
    throw new TilewrightError(`${spelled(inputs[input])}: its size along axis ${axis} must be ${value(size)} where ${known}`);
  }
  for (const [a, b, needed] of equal) {
    if (value(a) !== value(b)) throw new TilewrightError(`${needed}, which does not hold where ${known}`);
  }
  const lives = buffers.map(([size, ...life]) => [aligned(value(size)), ...life]), [slots, end] = packedAt(lives);
  const arena = end + Math.max(0, ...workspaces.map((size) => up(value(size), alignment)));
  const table = [...Object.values(named), ...slots, end, 0, ...values.map(value)];
  const results = open.shapes.map((shape) => shape.map((size) => Math.max(0, value(size))));
  const bytes = (specs, all) => specs.map(({ dtype }, i) => product(all[i]) * ARRAYS[dtype].BYTES_PER_ELEMENT);
  const sizes = [[], [], bytes(inputs, shapes), bytes(outputs, results)];
  const offsets = sizes.map((all) => {
    let next = 0;
    return all.map((size) => (next += aligned(size)) - aligned(size));
  });
  const total = (space) => aligned((offsets[space].at(-1) ?? 0) + (sizes[space].at(-1) ?? 0));
  const at = ([, offset, ...entries]) => entries.reduce((sum, entry) => sum + table[entry], offset);
  const range = (where, size) => {
    const [space, number] = where;
    if (space > 1) return [space, offsets[space][number], Math.max(1, sizes[space][number])];
    // of a size that the kernel computes: the whole buffer, as ranges that a launch writes may not overlap
    const most = () => lives[where[2] - dims.length][0] - where[1];
    return [space, size === 0 ? 0 : at(where), Math.max(1, size ?? most())];
  };
  const steps = [], numbers = Object.fromEntries(kernels.map(([, name], i) => [name, i]));

  /** The launches of steps of a function, whose loops are written out. */
  const follow = (list, ranges, scalars, unread) => {
    const sized = (expression) => sizeOf(expression, scalars.values);
    for (const step of list) {
      if (step.kernel) {
        const grid = step.grid.map(sized), given = step.args.filter((name) => name in ranges);
        const numbered = step.args.filter((name) => !(name in ranges));
        const words = numbered.flatMap((name) => asWords(scalars.values[name], scalars.sizes[name]));
        if (Math.min(...grid) > 0 && !step.writes.every((name) => unread.includes(name))) {
          steps.push([numbers[step.kernel], grid, given.map((name) => ranges[name]), [...new Uint8Array(new Int32Array(words).buffer)]]);
        }
      } else if (step.loop) {
        const first = sized(step.min), more = { ...scalars.sizes, [step.loop]: step.dtype.endsWith("64") ? 8 : 4 };
        for (let i = first; i < first + sized(step.extent); i++) {
          follow(step.body, ranges, { values: { ...scalars.values, [step.loop]: i }, sizes: more }, unread);
        }
      } else follow(step[sized(step.if) ? "then" : "else"], ranges, scalars, unread);
    }
  };

  for (const [name, args, unread] of calls) {
    const made = functions[name];
    if (!made) { // a copy of as many bytes as its name, or its third argument, says
      const size = /^\d+$/.exec(name.split("_").at(-1)) ? Number(name.split("_").at(-1)) : table[args[2][1]];
      if (size) steps.push([range(args[0], size), range(args[1], size), size]);
      continue;
    }
    const scalars = { values: {}, sizes: {} }, ranges = {};
    made.params.forEach(([param, size, shape], i) => {
      if (shape) return;
      scalars.values[param] = table[args[i][1]];
      scalars.sizes[param] = size;
    });
    made.params.forEach(([param, size, shape], i) => {
      if (!shape) return;
      const extents = shape.map((one) => (one === null ? NaN : sizeOf(one, scalars.values)));
      ranges[param] = range(args[i], Number.isNaN(product(extents)) ? undefined : product(extents) * size);
    });
    const workspace = args[made.params.length];
    let offset = workspace ? at(workspace) : 0;
    for (const [temporary, size, elements] of made.temporaries) {
      const count = sizeOf(elements, scalars.values), needed = Math.max(1, count) * size;
      ranges[temporary] = [1, count ? offset : 0, needed];
      offset += up(needed, alignment);
    }
    follow(made.steps, ranges, scalars, unread);
  }
  const bounce = Math.max(0, ...steps.map(([from, to, size]) => (size > 0 && from[0] === to[0] ? size : 0)));
  return { steps, shapes: results, offsets: { inputs: offsets[2], outputs: offsets[3] },
    sizes: { arena, inputs: total(2), outputs: total(3), bounce, results: total(3) } };
}

/** A number as words of 32 bits, the low one first. */
const asWords = (value, size) => (size > 4 ? [value | 0, Math.floor(value / 2 ** 32)] : [value | 0]);
