// Elements, numbers as people read them, and what is said to screen readers.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `h("a", {href, class, onclick}, "text", child …)`; null, false and undefined children are left out. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same of SVG. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Text for screen readers. */
export function say(text) {
  document.getElementById("say").textContent = text;
}

const UNITS = [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]];

function rounded(value) {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** `3.64 G` */
export function count(value, unit = "") {
  if (value === null || value === undefined) return "–";
  const [letter, scale] = UNITS.find(([, one]) => Math.abs(value) >= one) ?? ["", 1];
  const text = scale === 1 ? String(Math.round(value * 100) / 100) : rounded(value / scale);
  return `${text} ${letter}${unit}`.trim();
}

/** `44.6 MiB` */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const [name, scale] = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]].find(([, one]) => value >= one) ?? ["bytes", 1];
  return `${scale === 1 ? value : rounded(value / scale)} ${name}`;
}

/** `1.25 ms` */
export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 1) return `${rounded(value)} s`;
  return value >= 1e-3 ? `${rounded(value * 1e3)} ms` : `${rounded(value * 1e6)} µs`;
}

/** `12.3 %` */
export function percent(value) {
  return `${(100 * value).toFixed(value < 0.0995 ? 2 : 1)} %`;
}

/** A table of facts; rows without a value are left out. */
export function facts(rows) {
  const shown = rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, shown.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** Saves a blob under a name. */
export function save(blob, name) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/**
 * Tabs with their panels, moved through with the arrow keys.
 * `tabs` are [id, title, draw, badge]; `draw(panel)` runs when a tab is first shown, `changed(id)` at each change.
 */
export function tabs(list, first, changed = () => {}) {
  const panels = {}, buttons = {}, drawn = new Set();
  const show = (id, focus = false) => {
    if (!panels[id]) return;
    for (const key of Object.keys(panels)) {
      panels[key].hidden = key !== id;
      buttons[key].setAttribute("aria-selected", String(key === id));
      buttons[key].tabIndex = key === id ? 0 : -1;
    }
    if (focus) buttons[id].focus();
    if (!drawn.has(id)) {
      drawn.add(id);
      list.find(([key]) => key === id)[2](panels[id]);
    }
    changed(id);
  };
  const keys = (event) => {
    const ids = list.map(([id]) => id), at = ids.findIndex((id) => buttons[id] === document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: ids.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    show(ids[(to + ids.length) % ids.length], true);
  };
  const bar = h("div", { role: "tablist", class: "tabs", onkeydown: keys }, list.map(([id, title, , badge]) => {
    buttons[id] = h("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-controls": `panel-${id}`, onclick: () => show(id) },
      title, badge ? h("span", { class: "badge" }, badge) : null);
    panels[id] = h("div", { role: "tabpanel", id: `panel-${id}`, "aria-labelledby": `tab-${id}`, tabindex: "-1" });
    return buttons[id];
  }));
  show(panels[first] ? first : list[0][0]);
  return { bar, panels: Object.values(panels), show };
}
