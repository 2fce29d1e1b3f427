// The service's API: requests with the key of this tab, uploads with progress, events of jobs as they happen.

const BASE = new URL("../v1/", location.href).pathname;
const key = {
  get: () => { try { return sessionStorage.getItem("key") ?? ""; } catch { return ""; } },
  set: (value) => { try { sessionStorage.setItem("key", value); } catch { /* kept nowhere */ } },
};

/** An answer that is no success; `status` is that of HTTP. */
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

const headers = (more = {}) => (key.get() ? { Authorization: `Bearer ${key.get()}`, ...more } : more);

/** Asks the reader for a key; true once there is one. */
export function askForKey() {
  const dialog = document.getElementById("key-dialog"), field = document.getElementById("key-field");
  document.getElementById("key").hidden = false;
  field.value = key.get();
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => {
    const given = field.value.trim();
    if (given) key.set(given);
    done(Boolean(given));
  }, { once: true }));
}

async function refused(response) {
  const text = await response.text();
  let told = text;
  try {
    const problem = JSON.parse(text);
    told = [problem.title, problem.detail].filter(Boolean).join(": ") || text;
  } catch { /* no JSON */ }
  return new Refused(response.status, told || `the service answered ${response.status}`);
}

async function ask(path, options = {}) {
  const send = () => fetch(BASE + path, { ...options, headers: headers(options.headers) });
  let response = await send();
  if (response.status === 401 && (await askForKey())) response = await send();
  if (!response.ok) throw await refused(response);
  return response;
}

/** What a path has, as JSON. */
export const read = async (path) => (await ask(path)).json();

/** Makes a job; the job. */
export const createJob = async (kind, model, target, options = {}) => (await ask("jobs", {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ kind, model, target, options }),
})).json();

export const cancelJob = (id) => ask(`jobs/${id}/cancel`, { method: "POST" });
export const deleteJob = (id) => ask(`jobs/${id}`, { method: "DELETE" });

/** An artifact of a job. */
export const artifact = async (id, name) => (await ask(`jobs/${id}/artifacts/${encodeURIComponent(name)}`)).blob();
export const artifactJson = async (id, name) => JSON.parse(await (await artifact(id, name)).text());

/** Sends a model; `progress(share)` is called meanwhile. The model as the service has it. */
export async function upload(file, progress) {
  const send = () => new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    request.open("POST", `${BASE}models?name=${encodeURIComponent(file.name)}`);
    for (const [name, value] of Object.entries(headers({ "Content-Type": "application/octet-stream" }))) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    request.onload = () => done(new Response(request.responseText, { status: request.status }));
    request.onerror = () => failed(new Error("the connection to the service broke"));
    request.send(file);
  });
  let response = await send();
  if (response.status === 401 && (await askForKey())) response = await send();
  if (!response.ok) throw await refused(response);
  return response.json();
}

/**
 * Follows a job until it has ended: `heard(event, data)` for each event. A stream that breaks is taken up where it was.
 * EventSource cannot send a key, so the stream is read here.
 */
export async function follow(id, heard, signal) {
  let last = "", tries = 0;
  while (!signal.aborted && tries < 6) {
    try {
      const response = await fetch(`${BASE}jobs/${id}/events`, { headers: headers(last ? { "Last-Event-ID": last } : {}), signal });
      if (!response.ok) throw await refused(response);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        rest += value;
        const blocks = rest.split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) {
          const fields = Object.fromEntries(block.split("\n").filter((line) => !line.startsWith(":") && line.includes(":"))
            .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]));
          if (fields.id) last = fields.id;
          if (!fields.event) continue;
          tries = 0;
          heard(fields.event, JSON.parse(fields.data));
          if (fields.event === "result") return;
        }
      }
    } catch (error) {
      if (signal.aborted || (error instanceof Refused && error.status < 500)) throw error;
    }
    tries += 1;
    await new Promise((done) => setTimeout(done, 500 * tries));
  }
}
