// Kernels: a table of all, and one with its schedule, loops, code and share of the time.

import { bars } from "./charts.js";
import { codePanes } from "./code.js";
import { count, facts, h, percent, seconds } from "./dom.js";

const told = { l1: "L1", l2: "L2", l3: "L3", load_ports: "load ports" };
const named = (name) => told[name] ?? String(name).replaceAll("_", " ");
const readable = (name) => name.replace(/^fused_/, "").replace(/nn_|contrib_/g, "").replaceAll("_", " ");

/** The first source node of a group by the end of its name, which tells it from others. */
const tail = (name = "") => name.split(";")[0].split("/").slice(-3).join("/");

/** The table beside the chosen kernel. Returns {element, choose}. */
export function kernelsView(report, opened = () => {}) {
  const sources = new Map(report.fused.groups.map((group) => [group.id, group]));
  const detail = h("section", { class: "detail", "aria-label": "Kernel", tabindex: "-1" });
  const buttons = new Map(), groups = {};
  const choose = (name, move = false) => {
    const kernel = report.kernels.find((one) => one.name === name);
    if (!kernel) return;
    for (const [key, button] of buttons) button.setAttribute("aria-pressed", String(key === name));
    detail.replaceChildren(...one(report, kernel, sources, opened));
    if (move) { buttons.get(name)?.scrollIntoView({ block: "nearest" }); detail.focus({ preventScroll: true }); detail.scrollIntoView({ block: "nearest" }); }
  };
  const most = Math.max(...report.kernels.map((one) => one.share), 1e-9);
  const rows = report.kernels.map((kernel) => {
    const button = h("button", { type: "button", class: "row", "aria-pressed": "false", title: kernel.name, onclick: () => choose(kernel.name) },
      h("span", { class: "name" }, readable(kernel.name)), h("span", { class: "number" }, percent(kernel.share)),
      h("span", { class: "track", "aria-hidden": "true" }, h("span", { style: { width: `${(100 * kernel.share) / most}%` } })),
      h("span", { class: "minor" }, [tail(sources.get(kernel.group)?.name), kernel.calls.length > 1 && `${kernel.calls.length} calls`, kernel.schedule.bound && `${named(kernel.schedule.bound)} bound`].filter(Boolean).join(" · ")),
      h("span", { class: "number minor" }, seconds(kernel.seconds)));
    buttons.set(kernel.name, button);
    return h("li", {}, button);
  });
  const filter = h("input", { type: "search", placeholder: "Filter kernels", "aria-label": "Filter kernels", oninput: () => {
    const wanted = filter.value.trim().toLowerCase();
    report.kernels.forEach((kernel, i) => { rows[i].hidden = !`${kernel.name} ${readable(kernel.name)} ${kernel.schedule.template}`.toLowerCase().includes(wanted); });
  } });
  if (report.kernels.length) choose(report.kernels[0].name);
  return { element: h("div", { class: "kernels" }, h("div", { class: "list" }, filter, h("ul", {}, rows)), detail), choose, groups };
}

function one(report, kernel, sources, opened) {
  const { schedule } = kernel, each = kernel.calls.length > 1;
  const spent = Object.entries(schedule.spent ?? {}).map(([name, value]) => [named(name), value * 1e-6]);
  const peak = report.machine.peak, speed = kernel.flops && kernel.seconds ? kernel.flops / kernel.seconds : null;
  const knobs = Object.entries(schedule.config ?? {}).map(([name, value]) => h("span", { class: "chip" }, `${name} `, h("b", {}, value)));
  const next = (kernel.explained ?? []).filter((line) => /^\s*(of \d|next )/.test(line));
  return [
    h("h2", { class: "title" }, readable(kernel.name)),
    h("p", { class: "calls" }, kernel.calls.slice(0, 12).map((call) => h("button", { type: "button", class: "link", onclick: () => opened(call.group) }, sources.get(call.group)?.name.replaceAll(";", " ; ") || "in the graph")),
      kernel.calls.length > 12 ? `and ${kernel.calls.length - 12} more` : null),
    h("div", { class: "columns" },
      facts([
        [kernel.measured ? "measured" : "predicted, one core", `${seconds(kernel.seconds)}${each ? ` in ${kernel.calls.length} calls` : ""}`],
        ["predicted", kernel.measured ? seconds(kernel.expected) : null], ["share of the time", percent(kernel.share)],
        ["operations", kernel.flops === null ? "depend on sizes" : count(kernel.flops)], ["bytes", kernel.bytes === null ? null : count(kernel.bytes)],
        ["per second", speed && `${count(speed)}FLOP/s`], ["of the peak", speed && peak ? percent(speed / peak) : null],
        ["per byte", kernel.flops && kernel.bytes ? (kernel.flops / kernel.bytes).toFixed(2) : null],
      ]),
      h("div", {}, h("h3", {}, "Schedule"),
        h("p", {}, schedule.template ? [h("code", {}, schedule.template), schedule.bound ? `, bound by ${named(schedule.bound)}` : ""] : "none: the device's own program"),
        knobs.length ? h("p", { class: "chips" }, knobs) : null,
        spent.length ? [h("h3", {}, "One core would spend on each alone"), bars(spent)] : null,
        next.length ? h("details", {}, h("summary", {}, next[0].replace(/^of /, "The best of ")), h("ul", { class: "plain" }, next.slice(1).map((line) => h("li", {}, line.trim().replace(/^next /, ""))))) : null)),
    kernel.omitted ? h("p", { class: "note" }, `No code here: ${kernel.omitted}.`) : codePanes(kernel),
  ];
}
