// What is wrong with the page as it stands, of what Lighthouse looks at: each a line; nothing where all is right.
const found = [], wrong = (check, element) => found.push(`${check}: ${element?.outerHTML?.slice(0, 120) ?? ""}`);
const all = (selector) => [...document.querySelectorAll(selector)];
const seen = (one) => one.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && one.getBoundingClientRect().width > 1;

// documents: language, title, description, viewport that may be zoomed, standards mode
if (!document.documentElement.lang) wrong("no language");
if (!document.title) wrong("no title");
if ((document.querySelector("meta[name=description]")?.content ?? "").length < 20) wrong("no description");
const viewport = document.querySelector("meta[name=viewport]")?.content ?? "";
if (!/width=device-width/.test(viewport) || /user-scalable=no|maximum-scale=[1-4]/.test(viewport)) wrong(`viewport ${viewport}`);
if (document.compatMode !== "CSS1Compat" || document.characterSet !== "UTF-8") wrong("mode or character set");

// structure: landmarks, ids, order of headings and of focus, rows of tables
if (all("main").length !== 1) wrong("main landmarks");
const ids = all("[id]").map((one) => one.id);
for (const id of new Set(ids.filter((one, i) => ids.indexOf(one) !== i))) wrong(`id ${id} is there twice`);
let level = 0;
for (const one of all("h1, h2, h3, h4, h5, h6").filter(seen)) {
  const now = Number(one.tagName[1]);
  if (now > level + 1) wrong("a level of headings is left out", one);
  level = now;
}
for (const one of all("[tabindex]")) if (one.tabIndex > 0) wrong("order of focus", one);
for (const one of all("ul, ol")) if ([...one.children].some((child) => child.tagName !== "LI")) wrong("list", one);

// names of what is operated, and of pictures
const text = (one) => (one.textContent ?? "").trim() + [...one.querySelectorAll("img[alt], [aria-label]")].map((inner) => inner.alt ?? inner.getAttribute("aria-label")).join("");
const named = (one) => one.getAttribute("aria-label") || (one.getAttribute("aria-labelledby") && document.getElementById(one.getAttribute("aria-labelledby"))) || one.title;
for (const one of all("button, a, [role=tab], [role=button], summary").filter(seen)) if (!named(one) && !text(one)) wrong("no name", one);
for (const one of all("input, select, textarea").filter(seen)) if (!named(one) && !one.labels?.length) wrong("no label", one);
for (const one of all("img")) if (!one.hasAttribute("alt")) wrong("no alt", one);
for (const one of all("a").filter(seen)) if (!one.href || /^javascript:/.test(one.href)) wrong("no destination", one);
for (const one of all("a[target=_blank]")) if (!/noopener/.test(one.rel)) wrong("opener", one);

// contrast of text (WCAG 2.2, 1.4.3), and its size
const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
const rgb = (color) => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = color; pen.fillRect(0, 0, 1, 1); const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
const light = (color) => color.slice(0, 3).map((one) => one / 255).map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)).reduce((sum, one, i) => sum + one * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (one) => {
  const layers = [];
  for (let at = one; at; at = at.parentElement) layers.push(rgb(getComputedStyle(at).backgroundColor));
  return layers.reverse().reduce((below, top) => over(top, below), rgb(getComputedStyle(document.documentElement).colorScheme === "dark" ? "black" : "white"));
};
let small = 0, letters = 0;
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const one = walk.currentNode.parentElement, size = walk.currentNode.data.trim().length;
  if (!size || !seen(one) || one.closest("svg, script, style, :disabled, .hidden")) continue;
  const style = getComputedStyle(one), pixels = parseFloat(style.fontSize);
  letters += size;
  if (pixels < 12) small += size;
  const below = ground(one), [a, b] = [light(over(rgb(style.color), below)), light(below)].sort((x, y) => y - x);
  const large = pixels >= 24 || (pixels >= 18.66 && Number(style.fontWeight) >= 700);
  if ((a + 0.05) / (b + 0.05) < (large ? 3 : 4.5)) wrong(`contrast ${((a + 0.05) / (b + 0.05)).toFixed(2)}`, one);
}
if (small > 0.4 * letters) wrong(`${small} of ${letters} letters are smaller than 12 px`);

// targets of 24 by 24 px, unless they stand in a line of text (WCAG 2.2, 2.5.8)
for (const one of all("button, a, select, input, summary, [role=tab]").filter(seen)) {
  const { width, height } = (one.labels?.[0] ?? one).getBoundingClientRect();
  const inline = getComputedStyle(one).display === "inline" && one.parentElement.textContent.trim() !== one.textContent.trim();
  if (Math.min(width, height) < 23.5 && !inline) wrong(`target ${width.toFixed(0)} by ${height.toFixed(0)}`, one);
}

// width, size of the tree, what loading waits for
if (document.documentElement.scrollWidth > innerWidth + 1) wrong(`it is ${document.documentElement.scrollWidth} px wide, of ${innerWidth}`);
if (all("*").length > 3000) wrong(`${all("*").length} elements`);
for (const one of all("head script[src]")) if (!one.async && !one.defer && one.type !== "module" && !/theme\.js$/.test(one.src)) wrong("it blocks the page", one);
const loaded = performance.getEntriesByType("resource");
for (const one of loaded) if (new URL(one.name).origin !== location.origin) wrong(`another site: ${one.name}`);
const blocking = loaded.filter((one) => one.renderBlockingStatus === "blocking").reduce((sum, one) => sum + one.decodedBodySize, 0);
if (blocking > 40_000) wrong(`${blocking} bytes block the page`);
return found;
