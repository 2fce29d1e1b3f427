// Times models compiled for the web and the same model in onnxruntime-web, on one thread, in turns in one process.
//
//     node compare.mjs JOB.json    JOB: { folder, inputs: [{ name, dtype, shape, file }], files, seconds, ort, onnx, tfjs }
//
// Prints one JSON object: by engine the least wall time of a run in milliseconds, the least time of the processor in a turn
// for each of its runs, the time from nothing to the first result, and the file that its first output was written to.
// `ort` is the folder of the package onnxruntime-web, or absent; so is `tfjs`: { modules, network, file } for `tfjs.mjs`.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const job = JSON.parse(readFileSync(process.argv[2], "utf8"));
const { load, ARRAYS } = await import(pathToFileURL(`${job.folder}/model.mjs`));
const feeds = Object.fromEntries(job.inputs.map(({ name, dtype, shape, file }) => {
  const bytes = readFileSync(file);
  const data = new ARRAYS[dtype](bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  return [name, { data, shape, dtype }];
}));

async function own(file) {
  const model = await load(pathToFileURL(`${job.folder}/${file}`), { threads: 1 });
  return async () => Object.values(await model.run(feeds)).map(({ data }) => data);
}

async function onnxruntime() {
  const ort = await import(pathToFileURL(`${job.ort}/dist/ort.wasm.min.mjs`));
  ort.env.wasm.numThreads = 1;
  const session = await ort.InferenceSession.create(readFileSync(job.onnx), { graphOptimizationLevel: "all" });
  const given = Object.fromEntries(Object.entries(feeds).map(([name, { data, shape, dtype }]) =>
    [name, new ort.Tensor(dtype, dtype === "bool" ? new Uint8Array(data) : data, shape)]));
  return async () => {
    const made = await session.run(given);
    return session.outputNames.map((name) => made[name].data);
  };
}

const makers = { ...Object.fromEntries(job.files.map((file) => [file, () => own(file)])) };
if (job.ort) makers["onnxruntime-web"] = onnxruntime;
if (job.tfjs) {
  makers.tfjs = async () => {
    const { network } = await import("./tfjs.mjs"), [{ data, shape }] = Object.values(feeds);
    const run = await network(job.tfjs.modules, job.tfjs.network, job.tfjs.file, shape);
    return () => run(data);
  };
}
const BATCH = 40; // milliseconds of runs in a row
const runs = {}, found = {};
for (const [name, make] of Object.entries(makers)) {
  const start = performance.now();
  try {
    runs[name] = await make();
    const outputs = await runs[name]();
    const file = `${job.folder}/${name}.out`;
    writeFileSync(file, new Uint8Array(outputs[0].buffer, outputs[0].byteOffset, outputs[0].byteLength));
    found[name] = { first: performance.now() - start, wall: Infinity, cpu: Infinity, file };
  } catch (error) {
    found[name] = { error: String(error.message ?? error) };
    delete runs[name];
  }
}
for (const [name, run] of Object.entries(runs)) { // warm: an engine's tiers
  const start = performance.now();
  let count = 0;
  for (; performance.now() - start < 300 || count < 1; count++) await run();
  found[name].batch = Math.max(1, Math.round((BATCH * count) / (performance.now() - start)));
}
const end = performance.now() + 1000 * job.seconds;
for (let turn = 0; turn < 2 || performance.now() < end; turn++) {
  for (const [name, run] of Object.entries(runs)) {
    const one = found[name], before = process.cpuUsage();
    for (let i = 0; i < one.batch; i++) {
      const start = performance.now();
      await run();
      one.wall = Math.min(one.wall, performance.now() - start);
    }
    const { user, system } = process.cpuUsage(before); // the share of each is guessed by the kernel
    one.cpu = Math.min(one.cpu, (user + system) / 1000 / one.batch);
  }
}
console.log(JSON.stringify(found));
process.exit(0);
