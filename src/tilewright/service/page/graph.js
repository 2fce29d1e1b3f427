// A graph as a picture: laid out in a worker, drawn as SVG, moved with mouse, fingers and keys.

import { h, percent, s, say } from "./dom.js";

const LINE = 18, LEAST = 84, MOST = 40;
let worker, asked = 0, pen = null;

/** The width of a text in the fonts of views.css. */
function widthOf(text, font) {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = font;
  return pen.measureText(text).width;
}
const BIG = "600 13px system-ui, sans-serif", SMALL = "11px system-ui, sans-serif";

/** The positions of boxes and edges, found in the worker. */
function laidOut(nodes, edges) {
  worker ??= new Worker(new URL("./layout.js", import.meta.url), { type: "module" });
  const id = (asked += 1);
  return new Promise((done, failed) => {
    const heard = ({ data }) => {
      if (data.id !== id) return;
      worker.removeEventListener("message", heard);
      done(data);
    };
    worker.addEventListener("message", heard);
    worker.onerror = (event) => failed(new Error(event.message));
    worker.postMessage({ id, nodes, edges });
  });
}

const short = (text, most = MOST) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const plain = (op) => op.replace(/^.*\./, "").replace(/^contrib_/, "").replaceAll("_", " ");

/** Attributes that a reader of a graph looks for, in a few words. */
function brief(attributes = {}) {
  const found = [];
  if (attributes.strides && !/^(1×)*1$/.test(attributes.strides)) found.push(`stride ${attributes.strides}`);
  if (attributes.groups && attributes.groups !== "1") found.push(`${attributes.groups} groups`);
  for (const name of ["pool_size", "axis", "newshape", "axes", "dtype"]) if (attributes[name]) found.push(`${name.replace("_", " ")} ${attributes[name]}`);
  return found.join(", ");
}

/** What stands in the box of a node: rows of [class, text], a foot, and the size. */
function box(node, share) {
  const ends = node.op === "input" || node.op === "output";
  const inner = node.nodes ?? [];
  const rows = ends ? [["ends", short(node.name || node.op)]]
    : inner.length ? inner.slice(0, 7).map((one, i) => (i === 6 && inner.length > 7 ? ["more", `${inner.length - 6} more`] : [one.kind, short(plain(one.op), 24)]))
      : [[node.kind, short(plain(node.op), 24)]];
  const foot = [];
  if (!ends && !inner.length) {
    const weights = (node.weights ?? []).map((one) => one.replace(/ .*/, "")).filter((one) => one !== "scalar");
    if (weights.length) foot.push(short(weights.join(" · ")));
    const words = brief(node.attrs);
    if (words) foot.push(short(words));
  }
  if (node.type) foot.push(short(node.type));
  if (node.layout) foot.push(`layout ${node.layout}`);
  if (share !== undefined) foot.push(percent(share));
  const width = Math.max(LEAST, ...rows.map(([, text]) => widthOf(text, BIG)), ...foot.map((text) => widthOf(text, SMALL))) + (ends ? 28 : 26);
  return { rows, foot, width: Math.round(width), height: rows.length * LINE + foot.length * 14 + 10, ends };
}

/**
 * A view of {nodes, edges}. `options`: `label`; `share(node)`, of the time, or undefined; `chosen(node)` at each choice;
 * `opened(node)` by Enter or a double click. Returns {element, find, choose, fit, zoom, heat, ready}.
 */
export function graphView({ nodes, edges }, options) {
  const index = new Map(nodes.map((node, i) => [node.id, i]));
  const pairs = edges.map(([from, to]) => [index.get(from), index.get(to)]);
  const before = nodes.map(() => []), after = nodes.map(() => []);
  for (const [from, to] of pairs) { before[to].push(from); after[from].push(to); }
  const shares = nodes.map(options.share ?? (() => undefined));
  const hottest = Math.max(1e-12, ...shares.filter((one) => one !== undefined));
  const boxes = nodes.map((node, i) => box(node, shares[i]));
  const scene = s("g"), edgeLayer = s("g", { class: "edges" }), nodeLayer = s("g", { class: "nodes" });
  scene.append(edgeLayer, nodeLayer);
  const svg = s("svg", { "aria-hidden": "true" },
    s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" }, s("path", { d: "M0 0 8 4 0 8z" }))), scene);
  const element = h("div", {
    class: "graph", tabindex: "0", role: "application", "aria-label": options.label, "aria-roledescription": "graph",
    "aria-describedby": "graph-help",
  }, svg, h("p", { class: "wait" }, "Laying out…"));
  const view = { x: 0, y: 0, scale: 1 };
  let plan = null, at = -1, shapes = [], lines = [];

  const place = () => {
    scene.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
    element.classList.toggle("far", view.scale < 0.42);
  };
  const zoom = (factor, x = element.clientWidth / 2, y = element.clientHeight / 2) => {
    const scale = Math.min(2.5, Math.max(0.02, view.scale * factor));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    place();
  };
  const fit = (whole = false) => {
    if (!plan) return;
    const width = element.clientWidth - 24, height = element.clientHeight - 24;
    const all = Math.min(width / plan.width, height / plan.height, 1.1);
    view.scale = whole ? all : Math.max(all, width < 600 ? 0.75 : 0.95);
    view.x = (element.clientWidth - plan.width * view.scale) / 2;
    view.y = plan.height * view.scale < height ? (element.clientHeight - plan.height * view.scale) / 2 : 12;
    if (plan.width * view.scale > width) {
      const start = plan.nodes[Math.max(0, nodes.findIndex((node) => node.op === "input"))];
      view.x = element.clientWidth / 2 - start.x * view.scale;
    }
    place();
  };
  const show = (i) => {
    const { x, y } = plan.nodes[i], width = element.clientWidth, height = element.clientHeight;
    if (view.scale < 0.42) view.scale = 0.8;
    const px = x * view.scale + view.x, py = y * view.scale + view.y;
    if (px < 90 || px > width - 90 || py < 50 || py > height - 60) {
      view.x = width / 2 - x * view.scale;
      view.y = height / 2 - y * view.scale;
    }
    place();
  };
  const choose = (i, move = true) => {
    if (!plan || i < 0 || i >= nodes.length) return;
    shapes[at]?.classList.remove("chosen");
    for (const line of element.querySelectorAll(".edges .near")) line.classList.remove("near");
    at = i;
    shapes[i].classList.add("chosen");
    pairs.forEach(([from, to], k) => (from === i || to === i) && lines[k].classList.add("near"));
    if (move) show(i);
    const node = nodes[i];
    say(`${node.op} ${node.name ?? ""}, ${node.type}${shares[i] === undefined ? "" : `, ${percent(shares[i])} of the time`}; ${before[i].length} in, ${after[i].length} out`);
    options.chosen?.(node);
  };
  const beside = (step) => {
    const layer = plan.layers.find((one) => one.includes(at)) ?? [];
    return layer[layer.indexOf(at) + step] ?? at;
  };
  const keys = (event) => {
    if (!plan || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {
      ArrowDown: () => choose(at < 0 ? 0 : after[at][0] ?? at), ArrowUp: () => choose(at < 0 ? 0 : before[at][0] ?? at),
      ArrowLeft: () => choose(at < 0 ? 0 : beside(-1)), ArrowRight: () => choose(at < 0 ? 0 : beside(1)),
      Home: () => choose(0), End: () => choose(nodes.length - 1),
      Enter: () => at >= 0 && options.opened?.(nodes[at]), Escape: () => options.chosen?.(null),
      "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: () => fit(), f: () => fit(true),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };
  element.addEventListener("keydown", keys);
  handle(element, view, place, zoom);

  /** The node of a mark in the picture. */
  const hit = (event) => Number(event.target.closest?.("[data-node]")?.dataset.node ?? -1);
  element.addEventListener("click", (event) => { if (!element.moved && hit(event) >= 0) choose(hit(event), false); });
  element.addEventListener("dblclick", (event) => { if (hit(event) >= 0) options.opened?.(nodes[hit(event)]); });

  const ready = laidOut(boxes.map(({ width, height }) => ({ width, height })), pairs).then((found) => {
    plan = found;
    element.querySelector(".wait")?.remove();
    lines = plan.edges.map((points) => s("path", { d: curve(points), "marker-end": "url(#arrow)" }));
    edgeLayer.append(...lines);
    shapes = nodes.map((node, i) => drawn(node, boxes[i], plan.nodes[i], i, shares[i] === undefined ? undefined : shares[i] / hottest));
    nodeLayer.append(...shapes);
    fit();
  });
  return {
    element, ready, fit, zoom,
    choose: (id, move = true) => index.has(id) && choose(index.get(id), move),
    heat: (on) => element.classList.toggle("heat", on),
    /** Marks the nodes with a text in name, operator, type or attributes; their number, and goes to the next one. */
    find: (text, step = 0) => {
      const wanted = text.trim().toLowerCase();
      const found = nodes.flatMap((node, i) => (wanted && words(node).includes(wanted) ? [i] : []));
      shapes.forEach((shape, i) => { shape.classList.toggle("found", found.includes(i)); });
      element.classList.toggle("searching", Boolean(wanted));
      if (found.length && step) choose(found.find((i) => i > at) ?? found[0]);
      return found.length;
    },
  };
}

function words(node) {
  return [node.op, node.name, node.type, node.layout, node.kernel, ...Object.entries(node.attrs ?? {}).flat(),
    ...(node.nodes ?? []).flatMap((one) => [one.op, one.name])].join(" ").toLowerCase();
}

function drawn(node, { rows, foot, width, height, ends }, { x, y }, i, heat) {
  const group = s("g", { class: ends ? "node ends" : "node", "data-node": i, transform: `translate(${x - width / 2} ${y - height / 2})` });
  group.append(s("rect", { class: "frame", width, height, rx: ends ? height / 2 : 7 }));
  if (heat !== undefined) group.append(s("rect", { class: "hot", width, height, rx: 7, "fill-opacity": (0.04 + 0.8 * heat).toFixed(3) }));
  rows.forEach(([kind, text], k) => {
    if (!ends && kind) group.append(s("rect", { class: `kind ${kind}`, x: 5, y: 6 + k * LINE, width: 4, height: LINE - 4, rx: 2 }));
    group.append(s("text", { class: "op", x: ends ? width / 2 : 15, y: 4 + (k + 0.75) * LINE, "text-anchor": ends ? "middle" : "start" }, text));
  });
  foot.forEach((text, k) => group.append(s("text", { class: "foot", x: ends ? width / 2 : 15, y: rows.length * LINE + 12 + k * 14, "text-anchor": ends ? "middle" : "start" }, text)));
  group.append(s("title", {}, `${node.op}\n${node.name ?? ""}`));
  return group;
}

/** A path through points that leaves and enters each of them downwards. */
function curve(points) {
  let path = `M${points[0].map(Math.round).join(" ")}`;
  for (let i = 1; i < points.length; i += 1) {
    const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]], half = (y0 + y1) / 2;
    path += Math.abs(x0 - x1) < 1 ? `L${Math.round(x1)} ${Math.round(y1)}`
      : `C${Math.round(x0)} ${Math.round(half)} ${Math.round(x1)} ${Math.round(half)} ${Math.round(x1)} ${Math.round(y1)}`;
  }
  return path;
}

/** Moves and scales a view by pointer, two fingers and wheel. */
function handle(element, view, place, zoom) {
  const down = new Map();
  element.addEventListener("pointerdown", (event) => {
    down.set(event.pointerId, [event.clientX, event.clientY]);
    if (down.size === 1) element.moved = false;
  });
  element.addEventListener("pointermove", (event) => {
    const last = down.get(event.pointerId);
    if (!last) return;
    const now = [event.clientX, event.clientY];
    if (down.size === 2) {
      const other = [...down].find(([id]) => id !== event.pointerId)[1], { left, top } = element.getBoundingClientRect();
      const way = (a) => Math.hypot(a[0] - other[0], a[1] - other[1]) || 1;
      zoom(way(now) / way(last), (now[0] + other[0]) / 2 - left, (now[1] + other[1]) / 2 - top);
      element.moved = true;
    } else if (element.moved || Math.hypot(now[0] - last[0], now[1] - last[1]) > 3) {
      if (!element.moved) element.setPointerCapture(event.pointerId);
      element.moved = true;
      view.x += now[0] - last[0];
      view.y += now[1] - last[1];
      place();
    } else return;
    down.set(event.pointerId, now);
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) element.addEventListener(name, (event) => down.delete(event.pointerId));
  element.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { left, top } = element.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey || !event.shiftKey) zoom(Math.exp(-event.deltaY / (event.ctrlKey ? 120 : 500)), event.clientX - left, event.clientY - top);
    else { view.x -= event.deltaY; place(); }
  }, { passive: false });
}
