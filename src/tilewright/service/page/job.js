// A job: its progress, then what the compiler made: graph, kernels, roofline, memory, what it did not support, the artifact.

import { artifact, artifactJson, cancelJob, createJob, follow, read } from "./api.js";
import { memory, roofline } from "./charts.js";
import { bytes, count, facts, h, percent, save, say, seconds, tabs } from "./dom.js";
import { graphView } from "./graph.js";
import { kernelsView } from "./kernel.js";
import { preview } from "./preview.js";
import { tryIt } from "./tryit.js";

const ENDED = ["completed", "failed", "stopped"];

/** The page of a job. `signal` is aborted when the reader leaves it. */
export async function jobPage(id, signal) {
  const holder = h("div", { class: "job" });
  const job = await read(`jobs/${id}`);
  const [model, targets] = await Promise.all([read(`models/${job.model}`).catch(() => ({ name: "a deleted model" })), read("targets").catch(() => [])]);
  const target = targets.find((one) => one.name === job.target) ?? { title: job.target };
  if (ENDED.includes(job.status)) ended(holder, job, model, target);
  else watch(holder, job, model, target, signal);
  return holder;
}

function heading(job, model, target, ...actions) {
  return h("div", { class: "heading" },
    h("div", {}, h("h1", {}, model.name), h("p", { class: "minor" }, `${job.kind} for ${target.title}`, model.bytes ? ` · ${bytes(model.bytes)}` : "", model.format ? ` · ${model.format}` : "")),
    h("div", { class: "actions" }, h("span", { class: `status ${job.status}` }, job.status), actions));
}

function watch(holder, job, model, target, signal) {
  const began = performance.now();
  const bar = h("progress", { max: 1, "aria-label": "Progress of the job" }), stage = h("span", {}, job.stage || "waiting"), time = h("span", { class: "number" });
  const log = h("pre", { class: "log", tabindex: "0", "aria-label": "Log", hidden: true }), stages = h("ol", { class: "stages" });
  const stop = h("button", { type: "button", onclick: () => cancelJob(job.id) }, "Stop");
  holder.replaceChildren(heading(job, model, target, stop), h("section", { class: "card progress", "aria-live": "off" }, h("p", { class: "stage" }, stage, time), bar, stages, log), preview.view(job.model) ?? "");
  const clock = setInterval(() => { time.textContent = `${((performance.now() - began) / 1000).toFixed(0)} s`; }, 500);
  signal.addEventListener("abort", () => clearInterval(clock));
  let last = "";
  follow(job.id, (event, data) => {
    if (event === "status") holder.querySelector(".status").textContent = data.status;
    if (event === "stage") {
      stage.textContent = data.stage || "running";
      if (data.progress > 0) bar.value = data.progress; else bar.removeAttribute("value");
      if (data.stage && data.stage !== last) {
        last = data.stage;
        say(data.stage);
        stages.append(h("li", {}, `${data.stage} `, h("span", { class: "minor" }, `${((performance.now() - began) / 1000).toFixed(1)} s`)));
      }
    }
    if (event === "log") { log.hidden = false; log.append(`${data.line}\n`); log.scrollTop = log.scrollHeight; }
    if (event === "result") { say(`The job is ${data.status}`); ended(holder, data, model, target); }
  }, signal).catch((error) => signal.aborted || holder.append(h("p", { class: "note bad" }, error.message))).finally(() => clearInterval(clock));
}

async function ended(holder, job, model, target) {
  const made = job.artifacts ?? [], has = (name) => made.some((one) => one.name === name);
  const again = (kind, title) => h("button", { type: "button", onclick: async () => { location.hash = `#/job/${(await createJob(kind, job.model, job.target, kind === job.kind ? job.options : pick(job.options))).id}`; } }, title);
  const actions = [];
  const main = made.find((one) => /^(model\.(tw|wasm|c|onnx)|libmodel\.so)$/.test(one.name));
  if (main) actions.push(h("button", { type: "button", class: "main", onclick: async () => save(await artifact(job.id, main.name), main.name) }, `Download ${main.name}`));
  if (job.kind === "compile" && job.status === "completed" && target.runs_here) actions.push(again("profile", "Measure"));
  if (job.status === "completed" && has("report.json")) actions.push(h("a", { class: "button", href: `#/compare/${job.id}` }, "Compare"));
  if (job.status !== "completed") actions.push(again(job.kind, "Try again"));
  const parts = [heading(job, model, target, actions)];
  const report = has("report.json") ? await artifactJson(job.id, "report.json").catch(() => null) : null;
  if (job.status !== "completed" && !report) parts.push(h("section", { class: "card" }, h("h2", {}, job.status === "failed" ? "Not compiled" : "Stopped"), h("pre", { class: "reason" }, job.reason || "no reason was given")));
  if (report) parts.push(...reported(report, job, made));
  else if (made.length) parts.push(h("section", { class: "card" }, downloads(job, made)), snippets(job, made));
  const rest = Object.entries(job.result ?? {}).filter(([name, value]) => !["inputs", "outputs", "artifacts", "measures", "internal", "reason"].includes(name) && typeof value !== "object");
  if (rest.length) parts.push(h("section", { class: "card" }, h("h2", {}, "Result"), facts(rest.map(([name, value]) => [name.replaceAll("_", " "), String(value)]))));
  holder.replaceChildren(...parts);
}

const pick = ({ shapes, precision } = {}) => Object.fromEntries(Object.entries({ shapes, precision }).filter(([, value]) => value !== undefined));

function reported(report, job, made) {
  if (!report.model) return [h("section", { class: "card" }, h("h2", {}, "Not supported"), unsupported(report))];
  const share = new Map(report.kernels.flatMap((kernel) => kernel.calls.map((call) => [call.group, call.seconds])));
  const total = [...share.values()].reduce((sum, one) => sum + one, 0) || 1;
  for (const [group, value] of share) share.set(group, value / total);
  let bar, kernels = null;
  const openKernel = (name) => { bar.show("kernels"); kernels.choose(name, true); };
  const graphs = graphsView(report, share, openKernel);
  const openGroup = (group) => { bar.show("graph"); graphs.open(group); };
  const list = [
    ["graph", "Graph", (panel) => { panel.append(graphs.element); graphs.start(); }],
    ["kernels", "Kernels", (panel) => { kernels = kernelsView(report, openGroup); panel.append(kernels.element); }, String(report.kernels.length)],
    ["roofline", "Roofline", (panel) => panel.append(h("section", { class: "card" }, rooflineNote(report), roofline([{ name: "", report }], (point) => openKernel(point.kernel))))],
    ["memory", "Memory", (panel) => panel.append(h("section", { class: "card" }, memory(report, openGroup)))],
    ["unsupported", "Not supported", (panel) => panel.append(h("section", { class: "card" }, unsupported(report))), String(report.unsupported.length)],
    ["use", "Use it", (panel) => panel.append(h("section", { class: "card" }, downloads(job, made)), snippets(job, made))],
  ];
  if (Object.keys(report.device_texts ?? {}).length) list.splice(2, 0, ["device", "Device", (panel) => panel.append(...Object.entries(report.device_texts).map(([stage, text]) => h("details", { class: "card", open: stage === "schedule" }, h("summary", {}, stage), h("pre", { class: "log", tabindex: "0", "aria-label": stage }, text))))]);
  if (made.some((one) => one.name === "model.wasm")) list.splice(-1, 0, ["try", "Try it", (panel) => panel.append(tryIt(job))]);
  bar = tabs(list, "graph");
  return [summary(report, job, total), bar.bar, ...bar.panels];
}

/** Figures of the whole model. */
export function figures(report, job) {
  const sum = (name) => report.kernels.reduce((all, one) => all + (one[name] ?? 0), 0), file = (job.artifacts ?? []).find((one) => /^(model\.(tw|wasm|c|onnx)|libmodel\.so)$/.test(one.name));
  return [
    [report.measured ? "measured time" : "predicted time", seconds(sum("seconds"))], ["operations", count(sum("flops"))],
    ["kernels", `${report.kernels.length} in ${report.kernels.reduce((all, one) => all + one.calls.length, 0)} calls`], ["nodes", String(report.model.nodes.filter((node) => !["input", "output"].includes(node.op)).length)],
    ["weights", bytes(report.memory.weights)], ["memory", report.memory.arena === null ? "symbolic" : bytes(report.memory.arena)], ["artifact", file ? bytes(file.bytes) : null],
  ].filter(([, value]) => value !== null);
}

function summary(report, job) {
  return h("dl", { class: "figures" }, figures(report, job).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function rooflineNote(report) {
  const { machine } = report;
  return h("p", { class: "minor" }, `${report.measured ? "Measured" : "Predicted"} times against the figures of ${report.measured ? "the table for " : ""}${machine.name}${machine.peak ? `: ${count(machine.peak)}FLOP/s${machine.vector_bits ? " on one core" : ""}` : ", whose peak is not known"}. Operations are those of the definition: Winograd does fewer and may pass the roof. The area of a point is its share of the time.`);
}

function unsupported(report) {
  if (!report.unsupported.length) return h("p", {}, "Nothing: every operator of this model became code for the target.");
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "What was not supported" }, h("table", {}, h("thead", {}, h("tr", {}, ["Node", "Operator", "Reason"].map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, report.unsupported.map((row) => h("tr", {}, h("td", {}, row.node || "–"), h("td", {}, h("code", {}, row.operator || "–")), h("td", {}, row.reason))))));
}

function downloads(job, made) {
  return [h("h2", {}, "Files"), h("ul", { class: "files" }, made.map((one) => h("li", {}, h("button", { type: "button", class: "link", onclick: async () => save(await artifact(job.id, one.name), one.name) }, one.name), ` ${bytes(one.bytes)} `, h("code", { class: "digest", title: "SHA-256" }, one.sha256.slice(0, 16)))))];
}

function snippets(job, made) {
  const section = h("section", { class: "card" });
  if (!made.some((one) => one.name === "snippets.json")) return section.hidden = true, section;
  artifactJson(job.id, "snippets.json").then((found) => {
    const titles = { python: "Python", c: "C", javascript: "JavaScript" };
    const known = Object.keys(titles).filter((name) => found[name]);
    if (!known.length) { section.hidden = true; return; }
    const { bar, panels } = tabs(known.map((name) => [`snippet-${name}`, titles[name], (panel) => panel.append(
      h("button", { type: "button", class: "copy", onclick: async (event) => { await navigator.clipboard.writeText(found[name]); event.target.textContent = "Copied"; say("Copied"); } }, "Copy"),
      h("pre", { class: "log snippet", tabindex: "0", "aria-label": `${titles[name]} program` }, found[name]))]), `snippet-${known[0]}`);
    section.append(h("h2", {}, "A program that runs it"), bar, ...panels);
  });
  return section;
}

/** The graph before and after, with a search, and what is known of the chosen node. */
function graphsView(report, share, openKernel) {
  const detail = h("aside", { class: "detail", "aria-label": "Chosen node" }, hint());
  const stage = h("div", { class: "stage" }), found = h("span", { class: "minor number", "aria-live": "polite" });
  const graphs = {}, of = { before: report.model.nodes, after: report.fused.groups };
  const readers = new Map();
  for (const node of of.before) for (const group of node.groups ?? []) readers.set(group, [...(readers.get(group) ?? []), node]);
  let now = "before", heat = false, chosen = null;
  const nodeShare = (node) => (now === "after" ? share.get(node.id) : undefined);
  const view = () => {
    graphs[now] ??= graphView({ nodes: of[now], edges: now === "before" ? report.model.edges : report.fused.edges }, {
      label: now === "before" ? "The model as imported" : "The model as compiled: fused groups", share: nodeShare, chosen: describe, opened: (node) => node.kernel && openKernel(node.kernel),
    });
    return graphs[now];
  };
  const describe = (node) => { chosen = node; detail.replaceChildren(...(node ? described(node) : [hint()])); };
  const described = (node) => {
    const kernel = report.kernels.find((one) => one.name === node.kernel), call = kernel?.calls.find((one) => one.group === node.id);
    const jump = (label, list, to) => (list.length ? [label, h("span", {}, list.slice(0, 6).map((one) => h("button", { type: "button", class: "link", onclick: () => show(to, one.id) }, to === "after" ? one.op : `${one.op} ${one.name.split(";")[0].split("/").slice(-2).join("/")}`)))] : [label, null]);
    return [
      h("h2", { class: "title" }, node.op), node.name ? h("p", { class: "source" }, node.name.split(";").map((name) => h("span", {}, name))) : null,
      kernel ? h("p", {}, h("button", { type: "button", class: "main", onclick: () => openKernel(kernel.name) }, "Schedule, loops and code")) : null,
      facts([
        ["result", node.type], ["layout", node.layout], [kernel?.measured ? "measured" : "predicted", call && seconds(call.seconds)], ["share of the time", call && percent(share.get(node.id) ?? 0)],
        ["operations", call && count(call.flops)], ["bytes", call && count(call.bytes)], ["weights", node.weights?.join(", ")],
        ...(now === "before" ? [jump("computed by", report.fused.groups.filter((group) => node.groups?.includes(group.id)), "after")] : [jump("computes", readers.get(node.id) ?? [], "before")]),
      ]),
      node.attrs ? [h("h3", {}, "Attributes"), facts(Object.entries(node.attrs))] : null,
      node.nodes?.length ? [h("h3", {}, node.nodes.length > 1 ? `${node.nodes.length} operators in one kernel` : "Operator"), h("ol", { class: "inner" }, node.nodes.map((one) => h("li", {}, h("span", { class: `dot ${one.kind ?? "opaque"}` }), h("b", {}, one.op), h("span", { class: "minor" }, one.name), h("span", { class: "minor" }, one.type))))] : null,
      now === "after" && !node.kernel && !["input", "output"].includes(node.op) ? h("p", { class: "note" }, "It moves no bytes: a view of its input.") : null,
    ].flat().filter(Boolean);
  };
  const show = async (which, id = null) => {
    now = which;
    for (const [name, button] of Object.entries(which_)) button.setAttribute("aria-pressed", String(name === which));
    const one = view();
    stage.replaceChildren(one.element);
    one.heat(heat);
    await one.ready;
    if (search.value) one.find(search.value);
    if (id !== null) one.choose(id); else one.fit();
  };
  const which_ = Object.fromEntries([["before", "Before"], ["after", "After"]].map(([name, title]) => [name, h("button", { type: "button", "aria-pressed": String(name === now), onclick: () => {
    const to = chosen && name !== now ? (name === "after" ? chosen.groups?.[0] : readers.get(chosen.id)?.[0]?.id) : null;
    show(name, to ?? null);
  } }, title)]));
  const search = h("input", { type: "search", placeholder: "Search  /", "aria-label": "Search nodes; Enter goes to the next one", oninput: () => { const number = view().find(search.value); found.textContent = search.value ? `${number} found` : ""; }, onkeydown: (event) => { if (event.key === "Enter") { event.preventDefault(); view().find(search.value, 1); } } });
  const heated = h("button", { type: "button", "aria-pressed": "false", onclick: () => { heat = !heat; heated.setAttribute("aria-pressed", String(heat)); if (heat && now === "before") show("after"); else view().heat(heat); } }, "Time");
  const act = (label, text, run) => h("button", { type: "button", "aria-label": label, title: label, onclick: run }, text);
  const tools = h("div", { class: "tools", role: "group", "aria-label": "Graph" }, h("div", { class: "group", role: "group", "aria-label": "Which graph" }, Object.values(which_)), heated, search, found,
    h("div", { class: "group right", role: "group", "aria-label": "View" }, act("Zoom out", "−", () => view().zoom(0.8)), act("Zoom in", "+", () => view().zoom(1.25)), act("Top of the graph", "Top", () => view().fit()), act("All of the graph", "All", () => view().fit(true))));
  return {
    element: h("div", { class: "graphs" }, tools, h("div", { class: "split" }, stage, detail), legend()), start: () => show("before"), open: (id) => show("after", id),
    search,
  };
}

function hint() {
  return h("p", { class: "minor", id: "graph-help" }, "Choose a node. With the graph in focus: arrow keys go along edges and layers, + − 0 F zoom, Enter opens the kernel, / searches. Drag to move, scroll to zoom.");
}

function legend() {
  const kinds = [["out_elemwise_fusable", "products: what follows elementwise joins them"], ["elemwise", "elementwise"], ["injective", "moves elements"], ["comm_reduce", "reductions"], ["opaque", "alone in their kernel"]];
  return h("p", { class: "legend" }, "Categories of fusion: ", kinds.map(([kind, title]) => h("span", {}, h("span", { class: `dot ${kind}` }), title)));
}
