// Loops and assembly side by side: lines that come of one line of source have one colour, and light up together.

import { h } from "./dom.js";

const COLOURS = 8;
const TAG = /#\s+([\w.-]+\.py:\d+)/;

/** The tag of each line of loops; a line without one has that of the line around it. */
function tagsOfLoops(lines) {
  const around = [];
  return lines.map((line) => {
    const depth = line.search(/\S/);
    while (around.length && around.at(-1)[0] >= depth) around.pop();
    const own = line.match(TAG)?.[1] ?? around.at(-1)?.[1] ?? null;
    around.push([depth, own]);
    return own;
  });
}

/** The tag of each line of assembly: that of the last comment, within a function. */
function tagsOfAssembly(lines) {
  let tag = null;
  return lines.map((line) => {
    const comment = line.match(/^#\s+([\w.-]+\.py:\d+)/);
    if (comment) tag = comment[1];
    else if (/^\s*\.(size|globl)\b/.test(line)) tag = null;
    return tag;
  });
}

/** The two panes, or one where there is but one text. */
export function codePanes({ loops, assembly, form }) {
  const colours = new Map(), panes = h("div", { class: "panes" });
  const colour = (tag) => {
    if (!colours.has(tag)) colours.set(tag, colours.size % COLOURS);
    return colours.get(tag);
  };
  const add = (title, text, tagged) => {
    const lines = text.replace(/\n+$/, "").split("\n"), tags = tagged(lines);
    const list = h("div", { class: "code", tabindex: "0", role: "region", "aria-label": title });
    list.append(...lines.map((line, i) => row(line, tags[i], tags[i] === null ? null : colour(tags[i]), title)));
    panes.append(h("section", { class: "pane" }, h("h3", {}, title, h("span", { class: "badge" }, `${lines.length} lines`)), list));
  };
  const name = { asm: "Assembly", c: "C", cuda: "CUDA", opencl: "OpenCL", metal: "Metal", webgpu: "WGSL", vulkan: "GLSL" }[form] ?? form;
  if (loops) add("Loops", loops, tagsOfLoops);
  if (assembly) add(name, assembly, form === "asm" ? tagsOfAssembly : (lines) => lines.map(() => null));
  lightUp(panes);
  return panes;
}

const COMMENT = { Loops: /(^|\s)# /, Assembly: /^\s*# / }, WORD = { Loops: /^(\s*)(for|if|else|while|def|prefetch)\b/, Assembly: /^(\s+)([a-z][\w.]*)(?=\s|$)/ };

function row(line, tag, colour, title) {
  const hash = line.search(COMMENT[title] ?? /(^|\s)\/\/ /), code = hash < 0 ? line : line.slice(0, hash), comment = hash < 0 ? "" : line.slice(hash);
  const word = code.match(WORD[title] ?? WORD.Loops);
  return h("div", { class: colour === null ? "line" : `line tag-${colour}`, "data-tag": tag },
    word ? [word[1], h("b", {}, word[2]), code.slice(word[0].length)] : code, comment ? h("i", {}, comment) : "", line ? "" : "\u00a0");
}

/** Pointing at a line shows those of the same source line in both panes; a click brings them into view and keeps them. */
function lightUp(panes) {
  let kept = null;
  const light = (tag) => {
    for (const line of panes.querySelectorAll(".line.lit")) line.classList.remove("lit");
    if (tag) for (const line of panes.querySelectorAll(`.line[data-tag="${CSS.escape(tag)}"]`)) line.classList.add("lit");
  };
  const tagOf = (event) => event.target.closest?.(".line")?.dataset.tag;
  panes.addEventListener("pointerover", (event) => light(tagOf(event) ?? kept));
  panes.addEventListener("pointerleave", () => light(kept));
  panes.addEventListener("click", (event) => {
    const tag = tagOf(event);
    kept = tag && tag !== kept ? tag : null;
    light(kept);
    if (!kept) return;
    for (const code of panes.querySelectorAll(".code")) {
      if (code.contains(event.target)) continue;
      const first = code.querySelector(".line.lit");
      if (first) code.scrollTo({ top: first.offsetTop - code.clientHeight / 3, behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    }
  });
}
