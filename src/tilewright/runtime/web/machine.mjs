// Programs with branches, loops and functions as values: the bytecode of `runtime/vm/instruction.py`, interpreted
// around segments in WebAssembly and operators of the host.

class Closure {
  constructor(callee, captured) {
    this.callee = callee;
    this.captured = captured;
  }
}

const MOST_FRAMES = 1e6; // calls that may be open at a time
const holds = (value) => Boolean(Number(value?.data ? value.data[0] : value));

/**
 * The value of a program's main function; `packed` are functions of values that return a list of results, or a promise
 * of one: without promises all is done before this returns. `fetched` brings a value to the host.
 */
async function interpret({ functions, main }, packed, constants, given, fetched) {
  const frames = [];
  let current, code, registers, position;
  const enter = (number, values) => {
    current = functions[number];
    [code, registers, position] = [current.code, values, 0];
  };
  const called = (to, number, values) => {
    if (frames.length >= MOST_FRAMES) {
      throw new TilewrightError(`the model's function '${current.name}' calls itself more than ${MOST_FRAMES} times`);
    }
    frames.push([current, registers, position, to]);
    enter(number, values);
  };
  const read = (x, from) => x.slice(from).map((register) => registers[register]);
  const captured = (closure, values) => [closure.callee, [...closure.captured, ...values]];
  enter(main, [...given]);
  for (;;) {
    const x = code[position], at = position++;
    switch (x[0]) {
      case 0: registers[x[1]] = registers[x[2]]; break; // move
      case 1: { // ret
        const value = registers[x[1]];
        if (!frames.length) return value;
        let to;
        [current, registers, position, to] = frames.pop();
        code = current.code;
        registers[to] = value;
        break;
      }
      case 2: called(x[1], x[2], read(x, 3)); break; // invoke
      case 3: called(x[1], ...captured(registers[x[2]], read(x, 3))); break; // invoke_closure
      case 4: { // invoke_packed
        const made = packed[x[1]](read(x, 3 + x[2])), results = made instanceof Promise ? await made : made;
        results.forEach((value, i) => {
          if (i < x[2]) registers[x[3 + i]] = value;
        });
        break;
      }
      case 7: registers[x[1]] = new Data(x[2], read(x, 3)); break; // alloc_adt
      case 8: { // alloc_closure, which may capture itself
        const made = new Closure(x[2]);
        made.captured = x.slice(3).map((register) => (register === x[1] ? made : registers[register]));
        registers[x[1]] = made;
        break;
      }
      case 9: registers[x[1]] = registers[x[2]].fields[x[3]]; break; // get_field
      case 10: if (!holds(fetched ? await fetched(registers[x[1]]) : registers[x[1]])) position = at + x[2]; break; // if
      case 11: registers[x[1]] = constants(x[2]); break; // load_const
      case 12: position = at + x[1]; break; // goto
      case 13: registers[x[1]] = registers[x[2]].tag; break; // get_tag
      case 14: registers[x[1]] = x[2]; break; // load_consti
      case 15: // fatal
        throw new TilewrightError(`the function '${current.name}' of the model matches a value that none of its ` +
          "clauses fits");
      case 17: registers[x[1]] = integers(registers[x[2]].shape); break; // shape_of
      case 20: registers[x[1]] = undefined; break; // kill_register
      case 32: enter(x[1], read(x, 2)); break; // tail_invoke
      case 33: enter(...captured(registers[x[1]], read(x, 2))); break; // tail_invoke_closure
      case 34: if (registers[x[1]].tag !== x[2]) position = at + x[3]; break; // if_tag
      case 35: registers[x[1]] = { value: registers[x[2]] }; break; // alloc_reference
      case 36: registers[x[1]] = registers[x[2]].value; break; // read_reference
      case 37: // write_reference
        registers[x[2]].value = registers[x[3]];
        registers[x[1]] = tuple();
        break;
      default: throw new TilewrightError(`this file has no instruction ${x[0]}: it is of another version`);
    }
  }
}

/** The results of a segment that is repeated while its last one holds; rows that it collects end lists. */
async function repeated(call, { inputs }, carried, given, fetched) {
  const values = given.slice(0, inputs.length);
  const rows = given.slice(inputs.length).map((before) => ({ before, rows: [] }));
  for (;;) {
    const made = call(values), results = made instanceof Promise ? await made : made;
    rows.forEach((list, i) => list.rows.push(results[carried.length + i]));
    if (!holds(fetched ? await fetched(results.at(-1)) : results.at(-1))) return [...results.slice(0, carried.length), ...rows];
    carried.forEach((index, i) => { if (index !== null) values[index] = results[i]; });
  }
}

const leaves = (value) => (value instanceof Data && value.tag < 0 ? value.fields.flatMap(leaves) : [value]);
/** A copy of a value that shares no memory with others. */
function copied(value) {
  if (Array.isArray(value)) return value.map(copied);
  if (value instanceof Data) return { tag: value.tag, fields: value.fields.map(copied) };
  return value?.shape ? { data: value.data.slice(), shape: [...value.shape], dtype: value.dtype } : value;
}

/**
 * The function from a model's inputs to a promise of its outputs; `call` runs a segment, `loaded` reads a constant.
 * `fetched`, where segments have a memory of their own, is a promise of a value, or of a list, in the host's.
 */
function programOf({ program, pieces }, call, loaded, fetched) {
  const kept = [];
  const constants = (number) => kept[number] ??= program.constants[number].offset === undefined
    ? program.constants[number] : loaded(program.constants[number]);
  const packed = program.packed.map(({ segment, loop, host, attrs, source }) => {
    if (segment === undefined) {
      const run = hostOperator(host, attrs, source), readsElements = !["shape_of", "check_shape"].includes(host);
      return fetched && readsElements ? async (values) => [run(...await fetched(values))] : (values) => [run(...values)];
    }
    return (values) => (loop ? repeated((given) => call(segment, given), pieces[segment], loop, values, fetched)
      : call(segment, values));
  });
  return async (values) => {
    try {
      const found = leaves(await interpret(program, packed, constants, values, fetched));
      return (fetched ? await fetched(found) : found).map(copied);
    } catch (error) {
      if (error instanceof TilewrightError) throw error;
      throw new TilewrightError(`the model's program is damaged, or of another version: ${error.message}`);
    }
  };
}
