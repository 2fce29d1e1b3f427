// Compilations side by side: versions of a model, or devices.

import { artifactJson, follow, read } from "./api.js";
import { bars, roofline } from "./charts.js";
import { h, percent, say, seconds } from "./dom.js";
import { figures } from "./job.js";

const ENDED = ["completed", "failed", "stopped"];

/** The page of several jobs; with one of them, a choice of others. */
export async function comparePage(ids) {
  const [jobs, models] = await Promise.all([Promise.all(ids.map((id) => read(`jobs/${id}`))), read("models?limit=100")]);
  const names = new Map(models.items.map((model) => [model.id, model.name]));
  const body = h("div"), holder = h("div", {}, h("div", { class: "heading" }, h("h1", {}, "Side by side")), body);
  if (jobs.length < 2) body.append(await choice(jobs[0], names));
  else if (jobs.every((job) => ENDED.includes(job.status))) await draw(body, jobs, names);
  else wait(body, jobs, names);
  return holder;
}

async function choice(job, names) {
  const others = (await read("jobs?limit=100")).items.filter((one) => one.id !== job.id && one.status === "completed" && (one.artifacts ?? []).some((made) => made.name === "report.json"));
  others.sort((a, b) => Number(b.model === job.model) - Number(a.model === job.model));
  return h("section", { class: "card" }, h("h2", {}, `${names.get(job.model) ?? "A model"} for ${job.target}, beside`),
    others.length ? h("ul", { class: "plain" }, others.map((one) => h("li", {}, h("a", { href: `#/compare/${job.id},${one.id}` }, `${names.get(one.model) ?? "a deleted model"}, ${one.kind} for ${one.target}`), h("span", { class: "minor" }, ` ${new Date(one.created).toLocaleString()}`))))
      : h("p", {}, "There is no other compilation yet: choose several targets when you drop a model, or ", h("a", { href: "#/" }, "drop another version.")));
}

function wait(body, jobs, names) {
  const left = new Set(jobs.map((job) => job.id));
  body.append(h("section", { class: "card" }, h("ul", { class: "plain waiting" }, jobs.map((job) => {
    const stage = h("span", { class: "minor" }, job.stage || job.status), bar = h("progress", { max: 1, "aria-label": `Progress for ${job.target}` });
    const end = (status) => { stage.textContent = status; bar.value = 1; left.delete(job.id); };
    if (ENDED.includes(job.status)) end(job.status);
    else follow(job.id, (event, data) => {
      if (event === "stage") { stage.textContent = data.stage; if (data.progress) bar.value = data.progress; else bar.removeAttribute("value"); }
      if (event === "result") {
        end(data.status);
        Object.assign(job, data);
        if (!left.size && body.isConnected) { say("All jobs have ended"); body.replaceChildren(); draw(body, jobs, names); }
      }
    }, new AbortController().signal).catch(() => end("lost"));
    return h("li", {}, h("a", { href: `#/job/${job.id}` }, `${names.get(job.model) ?? "a model"} for ${job.target}`), bar, stage);
  }))));
}

async function draw(body, jobs, names) {
  const loaded = await Promise.all(jobs.map(async (job) => ({ job, report: await artifactJson(job.id, "report.json").catch(() => null) })));
  const sets = loaded.filter(({ report }) => report?.model), title = ({ job }) => `${names.get(job.model) ?? "model"} · ${job.target}${job.kind === "compile" ? "" : ` · ${job.kind}`}`;
  for (const { job } of loaded.filter(({ report }) => !report?.model)) body.append(h("p", { class: "note bad" }, h("a", { href: `#/job/${job.id}` }, `${job.target}: ${job.status}`), ` ${job.reason ?? ""}`));
  if (!sets.length) return;
  const rows = [...new Set(sets.flatMap(({ report, job }) => figures(report, job).map(([name]) => name)))];
  const cell = (set, name) => figures(set.report, set.job).find(([one]) => one === name)?.[1] ?? "–";
  const total = ({ report }) => report.kernels.reduce((sum, one) => sum + one.seconds, 0);
  body.append(
    h("section", { class: "card" }, scroll("Figures", h("table", {}, h("thead", {}, h("tr", {}, h("td"), sets.map((set, i) => h("th", { scope: "col" }, h("span", { class: `mark set-${i}` }), h("a", { href: `#/job/${set.job.id}` }, title(set)))))),
      h("tbody", {}, rows.map((name) => h("tr", {}, h("th", { scope: "row" }, name), sets.map((set) => h("td", { class: "number" }, cell(set, name)))))))), bars(sets.map((set) => [title(set), total(set)]))),
    h("section", { class: "card" }, h("h2", {}, "Roofline"), roofline(sets.map((set) => ({ name: title(set), report: set.report })), (point, set) => { location.hash = `#/job/${sets.find((one) => one.report === set.report).job.id}`; })),
    h("section", { class: "card" }, h("h2", {}, "Node by node"), nodes(sets, title)));
}

/** The time of each node of the model in each compilation: that of its kernel, shared by the nodes which the kernel computes. */
function nodes(sets, title) {
  const times = sets.map(({ report }) => {
    const of = new Map();
    for (const kernel of report.kernels) for (const call of kernel.calls) {
      const group = report.fused.groups.find((one) => one.id === call.group), name = group.name || group.op;
      of.set(name, { seconds: (of.get(name)?.seconds ?? 0) + call.seconds, layout: group.layout, template: kernel.schedule.template });
    }
    return of;
  });
  const names = [...new Set(times.flatMap((one) => [...one.keys()]))];
  const known = sets.map(({ report }) => new Set(report.model.nodes.flatMap((node) => node.name.split(";"))));
  const most = (name) => Math.max(...times.map((one) => one.get(name)?.seconds ?? 0));
  names.sort((a, b) => most(b) - most(a));
  const totals = times.map((one) => [...one.values()].reduce((sum, { seconds: some }) => sum + some, 0) || 1);
  return scroll("Node by node", h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Source nodes of a kernel"), sets.map((set) => h("th", { scope: "col", colspan: 3 }, title(set))))),
    h("tbody", {}, names.slice(0, 200).map((name) => h("tr", {}, h("th", { scope: "row", class: "source" }, name.split(";").map((one) => h("span", {}, one))), times.map((one, i) => {
      const found = one.get(name);
      return found ? [h("td", { class: "number" }, seconds(found.seconds)), h("td", { class: "number minor" }, percent(found.seconds / totals[i])), h("td", { class: "minor" }, [found.template, found.layout].filter(Boolean).join(" "))] : h("td", { colspan: 3, class: "minor" }, name.split(";").some((part) => known[i].has(part)) ? "otherwise fused" : "not in this model");
    }))))));
}

const scroll = (label, child) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, child);
