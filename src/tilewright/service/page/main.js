// The page: what is shown at each address, colours, keys of the keyboard.

import { askForKey } from "./api.js";
import { comparePage } from "./compare.js";
import { h, say } from "./dom.js";
import { jobPage } from "./job.js";
import { jobsPage, startPage } from "./start.js";

const main = document.getElementById("main");
let leaving = new AbortController();

const PAGES = [
  [/^#?\/?$/, "Compile", () => startPage()],
  [/^#\/jobs$/, "Jobs", () => jobsPage()],
  [/^#\/job\/([0-9a-f]+)$/, "Job", (id, signal) => jobPage(id, signal)],
  [/^#\/compare\/([0-9a-f,]+)$/, "Compare", (ids) => comparePage(ids.split(","))],
];

async function show(focus = true) {
  leaving.abort();
  const here = (leaving = new AbortController());
  const [pattern, title, page] = PAGES.find(([one]) => one.test(location.hash)) ?? PAGES[0];
  document.title = `${title} – Tilewright`;
  for (const link of document.querySelectorAll("nav a[href^='#']")) link.toggleAttribute("aria-current", link.hash === location.hash || (link.hash === "#/" && !location.hash));
  try {
    const shown = await page(location.hash.match(pattern)?.[1], here.signal);
    if (here.signal.aborted) return;
    main.replaceChildren(shown);
    say(title);
  } catch (error) {
    if (here.signal.aborted) return;
    main.replaceChildren(h("section", { class: "card" }, h("h1", {}, "That did not work"), h("p", { class: "note bad" }, error.message),
      h("p", {}, h("button", { type: "button", onclick: () => show() }, "Try again"))));
  }
  if (focus) main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

function turnColours() {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset.theme ?? (dark ? "dark" : "light"), to = now === "dark" ? "light" : "dark";
  root.dataset.theme = to;
  try { localStorage.setItem("theme", to); } catch { /* for this page alone */ }
  say(`${to} colours`);
}

document.getElementById("theme").addEventListener("click", turnColours);
document.getElementById("key").addEventListener("click", async () => { if (await askForKey()) show(); });
addEventListener("hashchange", () => show());
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName)) return;
  const field = [...document.querySelectorAll("input[type=search]")].find((one) => one.offsetParent);
  if (field) { event.preventDefault(); field.focus(); field.select(); }
});
show(false);
