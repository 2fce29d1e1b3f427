// Runs a model for `process.py`, in Node and on a page: asks the server for commands until there is none.

const node = globalThis.process?.getBuiltinModule?.("node:process");
const base = node ? node.argv[2] : globalThis.location.origin;
const { load, feature = () => model.device, ARRAYS } = await import(node ? node.argv[3] : "/model/model.mjs");
const ask = (path, body) => fetch(base + path, body === undefined ? {} : { method: "POST", body });
const now = () => performance.now();
let model, feeds;

/** A value as `process.py` describes it: elements by the number of a file, or texts. */
async function received(value) {
  if (value === null) return undefined;
  if (Array.isArray(value)) return Promise.all(value.map(received));
  const { dtype, shape, number, texts } = value;
  return { shape, data: texts ?? new ARRAYS[dtype](await (await ask(`/input/${number}`)).arrayBuffer()) };
}

/** The description of a value whose elements are sent as files with numbers of `next`. */
async function sent(value, next) {
  if (value === undefined || value === null) return null;
  if (Array.isArray(value)) return Promise.all(value.map((one) => sent(one, next)));
  const { dtype, shape, data, tag, fields } = value;
  if (fields) return { tag, fields: await sent(fields, next) };
  if (dtype === "string") return { shape, texts: data };
  const number = next();
  await ask(`/output/${number}`, data);
  return { dtype, shape, number };
}

const commands = {
  async load({ options }) {
    model = await load(undefined, options);
    const browser = /Chrome\/[\d.]+/.exec(globalThis.navigator?.userAgent)?.[0].replace("Chrome/", "Chromium ");
    return { version: node ? `Node ${node.version}` : browser, threads: model.threads, feature: feature() };
  },
  /** Fetch the inputs, run once, send the outputs back. */
  async run({ inputs }) {
    feeds = {};
    for (const [name, value] of Object.entries(inputs)) feeds[name] = await received(value);
    const begin = now(), results = await model.run(feeds), milliseconds = now() - begin, outputs = [];
    let count = 0;
    for (const value of Object.values(results)) outputs.push(await sent(value, () => count++));
    return { outputs, milliseconds };
  },
  /** Milliseconds of further runs on the last inputs. */
  async time({ repeat }) {
    const times = [];
    while (times.length < repeat) {
      const begin = now();
      await model.run(feeds);
      times.push(now() - begin);
    }
    return { times };
  },
  /** The least milliseconds of each region, by calls one after the other for at least the clock's resolution. */
  async profile({ regions, repeat }) {
    if (model.profile) return { times: await model.profile(repeat) };
    const only = new Int32Array(model._memory.buffer, model._contexts, 4), times = new Array(regions).fill(Infinity);
    for (let turn = 0; turn < repeat; turn++) {
      for (let region = 0; region < regions; region++) {
        only[3] = region + 1;
        const begin = now();
        let calls = 0, spent = 0;
        for (; spent < 1; spent = now() - begin, calls++) model._exports.run(model._slots, model._contexts);
        times[region] = Math.min(times[region], spent / calls);
      }
    }
    only[3] = 0;
    return { times };
  },
};

for (let command = await (await ask("/next")).json(); command; command = await (await ask("/next")).json()) {
  let answer;
  try {
    answer = await commands[command.kind](command);
  } catch (error) {
    answer = { error: error.message };
  }
  await ask("/answer", JSON.stringify(answer));
}
if (node) node.exit(0);
