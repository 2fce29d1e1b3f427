// Diagrams: a roofline, memory over time, bars.

import { bytes, count, h, percent, s, seconds } from "./dom.js";

const NARROW = matchMedia("(max-width: 640px)").matches;
const WIDTH = NARROW ? 400 : 860, HEIGHT = NARROW ? 380 : 460, LEFT = 70, RIGHT = NARROW ? 8 : 20, TOP = 22, BOTTOM = 48;

function frame(label, height = HEIGHT) {
  return s("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label });
}

/** A short text beside the pointer, of what is under it. */
function withTip(chart) {
  const tip = h("div", { class: "tip", hidden: true }), holder = h("div", { class: "holder" }, chart, tip);
  holder.addEventListener("pointermove", (event) => {
    const text = event.target.closest?.("[data-tip]")?.dataset.tip, area = holder.getBoundingClientRect();
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const x = event.clientX - area.left, y = event.clientY - area.top;
    tip.style.left = `${Math.max(0, Math.min(x + 12, area.width - tip.offsetWidth))}px`;
    tip.style.top = `${y + 16}px`;
  });
  holder.addEventListener("pointerleave", () => { tip.hidden = true; });
  return holder;
}

/** Rooflines: `sets` are [{name, report}]; `opened(kernel)` when a point is clicked. */
export function roofline(sets, opened = () => {}) {
  const points = sets.flatMap(({ report }, set) => report.roofline.points.map((point) => ({ ...point, set })));
  const roofs = sets.map(({ report }) => report.roofline).filter((one) => one.peak);
  if (!points.length) return h("p", { class: "note" }, "No kernel of this model counts operations in a known time.");
  const xs = points.map((one) => one.intensity), ys = points.map((one) => one.flops_per_second);
  const peaks = roofs.map((one) => one.peak), ridge = roofs.flatMap((one) => one.levels.map((level) => one.peak / level.bytes_per_second));
  const x = scale([Math.min(...xs, 0.5), Math.max(...xs, ...ridge, 1) * 1.5], LEFT, WIDTH - RIGHT);
  const y = scale([Math.min(...ys, ...peaks.map((one) => one / 100)), Math.max(...ys, ...peaks) * 1.3], HEIGHT - BOTTOM, TOP);
  const chart = frame(`Roofline: ${points.length} kernel calls by operations per byte and operations per second`);
  for (const power of x.powers) chart.append(s("line", { class: "grid", x1: x(power), x2: x(power), y1: TOP, y2: HEIGHT - BOTTOM }), text(x(power), HEIGHT - BOTTOM + 17, plainNumber(power), "middle"));
  for (const power of y.powers) chart.append(s("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(power), y2: y(power) }), text(LEFT - 7, y(power) + 4, count(power), "end"));
  chart.append(text((LEFT + WIDTH) / 2, HEIGHT - 8, "operations per byte", "middle"), text(8, 14, "operations per second", "start"));
  sets.forEach(({ report }, set) => chart.append(...roof(report.roofline, x, y, set)));
  for (const one of [...points].sort((a, b) => b.share - a.share)) {
    const tip = `${one.kernel}\n${percent(one.share)} of the time, ${count(one.flops_per_second)}FLOP/s, ${one.intensity.toFixed(2)} per byte`;
    chart.append(s("circle", {
      class: `point set-${one.set}`, cx: x(one.intensity), cy: y(one.flops_per_second), r: Math.max(3.5, 34 * Math.sqrt(one.share)).toFixed(1),
      "data-tip": tip, onclick: () => opened(one, sets[one.set]),
    }));
  }
  const legend = sets.length > 1 ? h("p", { class: "legend" }, sets.map(({ name }, set) => h("span", { class: `mark set-${set}` }, name))) : null;
  return h("div", {}, withTip(chart), legend);
}

function roof({ peak, levels }, x, y, set) {
  if (!peak) return [];
  const [low, high] = x.domain, parts = [];
  levels.forEach((level, i) => {
    const from = Math.max(low, y.domain[0] / level.bytes_per_second), to = Math.min(high, peak / level.bytes_per_second);
    if (to <= from) return;
    parts.push(s("line", { class: `roof set-${set}`, x1: x(from), y1: y(from * level.bytes_per_second), x2: x(to), y2: y(to * level.bytes_per_second) }));
    const middle = Math.sqrt(from * to) * 0.8;
    const angle = (Math.atan2(y(to * level.bytes_per_second) - y(from * level.bytes_per_second), x(to) - x(from)) * 180) / Math.PI;
    if (set === 0) parts.push(text(0, 0, `${level.name} ${count(level.bytes_per_second)}B/s`, "middle", `translate(${x(middle)} ${y(middle * level.bytes_per_second) - 6}) rotate(${angle})`));
  });
  const start = peak / Math.max(...levels.map((one) => one.bytes_per_second));
  parts.push(s("line", { class: `roof set-${set}`, x1: x(Math.max(start, low)), x2: x(high), y1: y(peak), y2: y(peak) }));
  if (set === 0) parts.push(text(x(high), y(peak) - 6, `peak ${count(peak)}FLOP/s`, "end"));
  return parts;
}

function scale([low, high], from, to) {
  const domain = [Math.log10(low), Math.log10(high)], span = domain[1] - domain[0] || 1;
  const at = (value) => from + ((Math.log10(value) - domain[0]) / span) * (to - from);
  at.domain = [low, high];
  at.powers = [];
  for (let power = Math.ceil(domain[0]); power <= domain[1]; power += 1) at.powers.push(10 ** power);
  return at;
}

const plainNumber = (value) => (value >= 1e4 || value < 1e-3 ? value.toExponential(0) : String(Number(value.toPrecision(3))));
const text = (x, y, words, anchor, transform = null) => s("text", { x, y, "text-anchor": anchor, transform }, words);

/** Memory over time: live bytes at each step, and below it where in the arena each value lies. */
export function memory({ memory: plan, fused }, opened = () => {}) {
  if (!plan.arena || !plan.steps.length) {
    return h("p", { class: "note" }, plan.arena === null ? "Sizes of this model are symbolic: memory is planned when it runs." : "This model keeps nothing between its kernels.");
  }
  const titles = new Map(fused.groups.map((group) => [group.id, `${group.op}\n${group.name}`]));
  const high = 200, low = 250, head = 36, right = WIDTH - RIGHT, step = (right - LEFT) / plan.steps.length;
  const chart = frame(`Memory over ${plan.steps.length} steps: at most ${bytes(Math.max(...plan.steps.map((one) => one.bytes)))} live in an arena of ${bytes(plan.arena)}`, high + low + 60);
  const y = (value) => head + (1 - value / plan.arena) * (high - head);
  chart.append(text(8, 14, "live bytes", "start"), s("line", { class: "roof set-0", x1: LEFT, x2: right, y1: y(plan.arena), y2: y(plan.arena) }), text(right, y(plan.arena) - 7, "the arena", "end"));
  for (const share of [0, 0.5, 1]) chart.append(s("line", { class: "grid", x1: LEFT, x2: right, y1: y(share * plan.arena), y2: y(share * plan.arena) }), text(LEFT - 6, y(share * plan.arena) + 4, bytes(Math.round(share * plan.arena)), "end"));
  plan.steps.forEach((one, i) => chart.append(s("rect", {
    class: "bar set-0", x: LEFT + i * step, width: Math.max(0.5, step - (step > 6 ? 1 : 0)), y: y(one.bytes), height: high - y(one.bytes),
    "data-tip": `step ${i}: ${bytes(one.bytes)} live\n${titles.get(one.group) ?? ""}`, onclick: () => opened(one.group),
  })));
  const top = high + 34, place = (value) => top + (1 - value / plan.arena) * low;
  chart.append(text(8, top - 10, "where values lie in the arena", "start"), s("rect", { class: "ground", x: LEFT, width: right - LEFT, y: top, height: low }));
  plan.values.forEach(([offset, size, first, last, scratch], i) => chart.append(s("rect", {
    class: scratch ? "value scratch" : `value tone-${i % 4}`, x: LEFT + first * step, width: Math.max(1, (last - first + 1) * step - 1),
    y: place(offset + size), height: Math.max(1.5, (size / plan.arena) * low - 1),
    "data-tip": `${bytes(size)} at ${offset.toLocaleString("en")}, steps ${first} to ${last}${scratch ? ": a kernel's scratch memory" : `\n${titles.get(plan.steps[first].group) ?? ""}`}`,
  })));
  for (let i = 0; i < plan.steps.length; i += Math.ceil(plan.steps.length / (NARROW ? 7 : 14))) chart.append(text(LEFT + (i + 0.5) * step, top + low + 16, i, "middle"));
  return withTip(chart);
}

/** Bars of named numbers, the largest as long as there is room. */
export function bars(rows, show = seconds) {
  const most = Math.max(...rows.map(([, value]) => value), 1e-30);
  return h("div", { class: "bars" }, rows.map(([name, value]) => [
    h("span", {}, name), h("span", { class: "track" }, h("span", { style: { width: `${(100 * value) / most}%` } })), h("span", { class: "number" }, show(value)),
  ]));
}
