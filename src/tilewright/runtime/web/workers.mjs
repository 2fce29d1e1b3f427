
// The third part: a model in a worker of its own, and helpers that share a run.

/** A model in a web worker, with the interface of `Model`. */
class Remote {
  static async open({ files, threads }) {
    const worker = await spawn();
    try {
      return new Remote(worker, await worker.ask({ load: { files, threads } }));
    } catch (error) {
      worker.end();
      throw error;
    }
  }

  constructor(worker, about) {
    Object.assign(this, about);
    this._worker = worker;
  }

  async run(feeds) {
    const isPart = (value) => ArrayBuffer.isView(value) && value.byteLength < value.buffer.byteLength;
    const whole = (value) => { // messages carry whole buffers
      if (Array.isArray(value)) return value.map(whole);
      return value?.data ? { data: whole(value.data), shape: value.shape } : isPart(value) ? value.slice() : value;
    };
    const sent = Object.entries(feeds ?? {}).map(([name, value]) => [name, whole(value)]);
    return this._worker.ask({ run: Object.fromEntries(sent) });
  }

  close() { this._worker.end(); }
}

/** A worker that runs this file: `ask` it something, `end` it. */
async function spawn() {
  const file = new URL("./$FILE", import.meta.url), threads = builtin("node:worker_threads");
  const waiting = new Map();
  const take = ({ id, value, error }) => {
    const [resolve, reject] = waiting.get(id) ?? [];
    waiting.delete(id);
    if (error === undefined) resolve?.(value); else reject?.(new TilewrightError(error));
  };
  const fail = (reason) => [...waiting.keys()].forEach((id) => take({ id, error: `the worker stopped: ${reason}` }));
  let worker, isOver = "";
  if (threads) {
    worker = new threads.Worker(file, { workerData: { [OWN]: true } });
    worker.on("message", take).on("error", ({ message }) => fail(message)).on("exit", () => fail(isOver || "it left"));
    worker.unref();
  } else {
    const isForeign = file.origin !== globalThis.location.origin; // a worker must be of the page's origin
    const url = isForeign ? URL.createObjectURL(new Blob([`import ${JSON.stringify(file.href)};`],
      { type: "text/javascript" })) : file;
    worker = new Worker(url, { type: "module", name: OWN });
    worker.onmessage = ({ data }) => take(data);
    worker.onerror = ({ message }) => fail(message ?? `${file.href} cannot be loaded`);
  }
  let last = 0;
  return {
    ask: (what) => new Promise((resolve, reject) => {
      if (isOver) throw new TilewrightError(`the worker stopped: ${isOver}`);
      worker.ref?.();
      const done = (settle) => (value) => {
        if (!waiting.size) worker.unref?.();
        settle(value);
      };
      waiting.set(++last, [done(resolve), done(reject)]);
      worker.postMessage({ id: last, ...what });
    }),
    end: () => {
      isOver = "the model was closed";
      worker.terminate();
      fail(isOver);
    },
  };
}

/** The memory of values, which a message hands on. */
const buffers = (value) => (Array.isArray(value) ? value.flatMap(buffers) : value?.data?.buffer ?? []);

/** The life of a worker of this file: a model that others load and run, or a helper of one. */
function work(answer) {
  let model;
  return async ({ id, load: loaded, run, help }) => {
    try {
      if (loaded) {
        model = await Model.open(loaded.files, loaded.threads);
        answer({ id, value: { inputs: model.inputs, outputs: model.outputs, threads: model.threads } });
      } else if (run) {
        const value = await model.run(run);
        answer({ id, value }, buffers(Object.values(value)));
      } else await assist(help, () => answer({ id }));
    } catch (error) {
      answer({ id, error: error.message });
    }
  };
}

const NODE = builtin("node:worker_threads");
if (NODE?.workerData?.[OWN]) {
  NODE.parentPort.on("message", work((value, moved) => NODE.parentPort.postMessage(value, moved)));
} else if (!NODE && !onPage && globalThis.name === OWN) {
  const handle = work((value, moved = []) => globalThis.postMessage(value, moved));
  globalThis.onmessage = ({ data }) => handle(data);
}
