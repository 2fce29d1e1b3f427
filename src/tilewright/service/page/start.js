// The start: drop a model, choose what it is compiled for; and the list of jobs.

import { createJob, deleteJob, read, upload } from "./api.js";
import { bytes, h, s, say } from "./dom.js";
import { preview } from "./preview.js";

const GROUPS = [
  ["processor", "Processors"], ["board", "Single-board computers and instances"], ["source", "C source, for boards as well"],
  ["wasm", "WebAssembly"], ["gpu", "GPUs"], ["accelerator", "Accelerators"],
];
const MOST = 6;

/** The page that begins a compilation. */
export async function startPage() {
  const targets = await read("targets"), chosen = new Set(remembered(targets));
  const state = { file: null };
  const list = h("div", { class: "targets" }), picked = h("p", { class: "chips", "aria-live": "polite" });
  const options = optionFields();
  const drop = dropZone((file) => { state.file = file; start(); });
  const work = h("div", { class: "work", hidden: true });
  const draw = () => {
    picked.replaceChildren(...[...chosen].map((name) => {
      const target = targets.find((one) => one.name === name);
      return h("button", { type: "button", class: "chip", title: `Leave out ${target.title}`, onclick: () => { chosen.delete(name); draw(); } }, name, h("span", { "aria-hidden": "true" }, " ×"));
    }));
    if (!chosen.size) picked.append(h("span", { class: "minor" }, "Choose at least one target."));
    for (const box of list.querySelectorAll("input")) box.checked = chosen.has(box.value);
  };
  const filter = h("input", { type: "search", placeholder: "Filter targets", "aria-label": "Filter targets", oninput: () => drawTargets() });
  const drawTargets = () => {
    const wanted = filter.value.trim().toLowerCase();
    const parts = GROUPS.map(([kind, title]) => {
      const some = targets.filter((one) => one.kind === kind && `${one.name} ${one.title} ${title}`.toLowerCase().includes(wanted));
      return some.length ? group(title, some, Boolean(wanted) || kind === "processor") : null;
    }).filter(Boolean);
    list.replaceChildren(...(parts.length ? parts : [h("p", { class: "minor" }, "There is no such target.")]));
    draw();
  };
  const group = (title, some, open) => h("details", { open }, h("summary", {}, title, h("span", { class: "badge" }, String(some.length))),
    h("ul", {}, some.map((target) => h("li", {}, h("label", { class: target.available ? "" : "off", title: target.reason || target.spelling },
      h("input", { type: "checkbox", value: target.name, disabled: !target.available, onchange: (event) => {
        if (event.target.checked && chosen.size < MOST) chosen.add(target.name); else chosen.delete(target.name);
        draw();
      } }), h("span", {}, h("b", {}, target.name), h("span", { class: "minor" }, target.available ? target.title.replace(`${target.name}, `, "") : target.reason)))))));
  const start = async () => {
    if (!chosen.size) { say("Choose at least one target"); filter.focus(); return; }
    const bar = h("progress", { max: 1, value: 0, "aria-label": "Upload" }), words = h("p", {}, `Sending ${state.file.name}, ${bytes(state.file.size)}`);
    work.hidden = false;
    work.replaceChildren(words, bar);
    try {
      remember([...chosen]);
      const sent = upload(state.file, (share) => { bar.value = share; });
      preview.read(state.file).then(() => { if (work.isConnected) work.append(preview.view(null) ?? ""); });
      const model = await sent;
      preview.of(model.id);
      words.textContent = "Beginning to compile";
      const jobs = [];
      for (const name of chosen) jobs.push(await createJob("compile", model.id, name, options.read(targets.find((one) => one.name === name))));
      location.hash = jobs.length === 1 ? `#/job/${jobs[0].id}` : `#/compare/${jobs.map((job) => job.id).join(",")}`;
    } catch (error) {
      work.replaceChildren(h("p", { class: "note bad", role: "alert" }, error.message));
    }
  };
  drawTargets();
  return h("div", { class: "start" },
    h("div", { class: "hero" }, h("h1", {}, "Drop a model. See what the compiler makes of it."),
      h("p", {}, "ONNX, PyTorch, TensorFlow, TFLite, Keras, Core ML, MXNet, Paddle, Caffe, Darknet: the format is found by the contents. Fused kernels, schedules, loops, assembly and memory, for any device."),
      drop, work),
    h("section", { class: "card", "aria-labelledby": "for" }, h("h2", { id: "for" }, "Compile for"), picked, filter, list, options.element));
}

function dropZone(given) {
  const field = h("input", { type: "file", id: "file", class: "hidden", "aria-label": "A model's file", onchange: () => field.files[0] && given(field.files[0]) });
  const zone = h("label", { class: "drop", for: "file" }, field,
    s("svg", { viewBox: "0 0 48 48", width: 44, height: 44, "aria-hidden": "true" }, s("path", { d: "M24 31V9m-9 9 9-9 9 9M7 31v6a4 4 0 0 0 4 4h26a4 4 0 0 0 4-4v-6", fill: "none", stroke: "currentColor", "stroke-width": 3, "stroke-linecap": "round", "stroke-linejoin": "round" })), h("strong", {}, "Drop a model here"), h("span", { class: "minor" }, "or choose a file; a .tar or .zip where the weights are files of their own"));
  let depth = 0;
  const over = (on) => zone.classList.toggle("over", on);
  const whole = document.documentElement;
  const here = () => zone.isConnected;
  for (const [name, act] of [
    ["dragenter", () => { depth += 1; over(true); }], ["dragleave", () => { depth -= 1; if (depth <= 0) over(false); }], ["dragover", () => {}],
    ["drop", (event) => { depth = 0; over(false); if (event.dataTransfer.files[0]) given(event.dataTransfer.files[0]); }],
  ]) whole.addEventListener(name, (event) => { if (here()) { event.preventDefault(); act(event); } });
  return zone;
}

function optionFields() {
  const shapes = h("input", { id: "shapes", placeholder: "x: 1×3×224×224", autocomplete: "off", spellcheck: "false" });
  const precision = h("select", { id: "precision" }, ["float32", "bf16", "tf32-like", "f16"].map((name) => h("option", { value: name }, name)));
  const element = h("details", { class: "options" }, h("summary", {}, "Options"),
    h("div", { class: "fields" }, h("label", { for: "shapes" }, "Sizes of inputs"), shapes, h("label", { for: "precision" }, "Operands of products"), precision));
  return {
    element,
    read: (target) => {
      const found = {};
      if (precision.value !== "float32" && "precision" in (target.options ?? { precision: 1 })) found.precision = precision.value;
      const given = {};
      for (const part of shapes.value.split(";").map((one) => one.trim()).filter(Boolean)) {
        const [, name, sizes] = part.match(/^(.+):\s*([^:]+)$/) ?? [];
        if (!name) throw new Error(`sizes of inputs are written "x: 1×3×224×224; y: 1×8"; got "${part}"`);
        given[name.trim()] = sizes.split(/[×x,*\s]+/).filter(Boolean).map((one) => (/^\d+$/.test(one) ? Number(one) : one));
      }
      if (Object.keys(given).length) found.shapes = given;
      return found;
    },
  };
}

function remembered(targets) {
  let names = [];
  try { names = JSON.parse(localStorage.getItem("targets") ?? "[]"); } catch { /* none */ }
  const known = names.filter((name) => targets.some((one) => one.name === name && one.available));
  return known.length ? known.slice(0, MOST) : targets.filter((one) => one.available).slice(0, 1).map((one) => one.name);
}

function remember(names) {
  try { localStorage.setItem("targets", JSON.stringify(names)); } catch { /* next time anew */ }
}

/** The list of jobs, the newest first; two or more of them can be compared. */
export async function jobsPage() {
  const body = h("tbody"), more = h("button", { type: "button", onclick: () => load() }, "Older jobs");
  const picked = new Set(), compare = h("a", { class: "button", hidden: true }, "Compare");
  const names = new Map((await read("models?limit=100")).items.map((model) => [model.id, model.name]));
  let cursor = null;
  const row = (job) => {
    const able = job.status === "completed" && (job.artifacts ?? []).some((one) => one.name === "report.json");
    const line = h("tr", {},
      h("td", {}, h("input", { type: "checkbox", disabled: !able, "aria-label": `Compare ${names.get(job.model) ?? "this job"} for ${job.target}`, onchange: (event) => {
        if (event.target.checked) picked.add(job.id); else picked.delete(job.id);
        compare.hidden = picked.size < 2;
        compare.href = `#/compare/${[...picked].join(",")}`;
      } })),
      h("td", {}, h("a", { href: `#/job/${job.id}` }, names.get(job.model) ?? "a deleted model")), h("td", {}, job.kind), h("td", {}, job.target),
      h("td", {}, h("span", { class: `status ${job.status}` }, job.status)), h("td", { class: "number" }, new Date(job.created).toLocaleString()),
      h("td", {}, ["completed", "failed", "stopped"].includes(job.status) ? h("button", { type: "button", class: "quiet", "aria-label": `Delete the job of ${names.get(job.model) ?? "a model"} for ${job.target}`, onclick: async () => { await deleteJob(job.id); line.remove(); } }, "×") : null));
    return line;
  };
  const load = async () => {
    const page = await read(`jobs?limit=20${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
    body.append(...page.items.map(row));
    cursor = page.cursor ?? null;
    more.hidden = !cursor;
  };
  await load();
  return h("section", { class: "card" }, h("div", { class: "heading" }, h("h1", {}, "Jobs"), compare),
    body.children.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Jobs" }, h("table", {}, h("thead", {}, h("tr", {}, h("td"), ["Model", "Kind", "Target", "Status", "Created"].map((title) => h("th", { scope: "col" }, title)), h("td"))), body))
      : h("p", {}, "No jobs yet. ", h("a", { href: "#/" }, "Drop a model.")), more);
}
