// Elements, numbers in words, the tip beside the pointer, and what a screen reader hears. Text is only ever set as text.

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, heard] of Object.entries(value)) node.addEventListener(event, heard);
    else if (name === "style") for (const [property, x] of Object.entries(value)) node.style.setProperty(property, x);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const SCENARIO = { til: "task known (TIL)", cil: "task not known (CIL)" };
const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
const fixed = (x, digits) => (x === null || x === undefined ? "–" : x.toFixed(digits).replace(/^-(0(?:\.0*)?)$/, "$1"));

/** Three digits, as small as they come. */
function short(x) {
  if (x === null || Number.isNaN(x)) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  return size >= 1e4 || size < 1e-3 ? x.toExponential(2) : String(Number(x.toPrecision(3)));
}

function big(x, unit) {
  const [size, prefix] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([limit]) => Math.abs(x) >= limit) ?? [1, ""];
  return `${Number((x / size).toPrecision(3))} ${prefix}${unit}`;
}

const bytes = (n) => (n >= 1e6 ? `${(n / 1e6).toFixed(1)} MB` : n >= 1e3 ? `${(n / 1e3).toFixed(1)} kB` : `${n} bytes`);
const seconds = (s) => (s >= 5400 ? `${(s / 3600).toFixed(1)} h` : s >= 90 ? `${(s / 60).toFixed(1)} min` : `${s.toFixed(1)} s`);

/** Round values between two numbers, about as many as wanted. */
function ticks(low, high, wanted) {
  const raw = (high - low) / Math.max(1, wanted) || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) found.push(Number((k * step).toPrecision(12)));
  return found;
}

const tip = {
  show(event, text) {
    const box = byId("tip");
    box.textContent = text;
    if (!box.matches(":popover-open")) box.showPopover(); // above dialogs too
    const { offsetWidth: w, offsetHeight: h } = box;
    const x = event.clientX + 14 + w > innerWidth ? event.clientX - w - 10 : event.clientX + 14;
    const y = event.clientY + 16 + h > innerHeight ? event.clientY - h - 10 : event.clientY + 16;
    box.style.transform = `translate(${Math.max(2, x)}px, ${Math.max(2, y)}px)`;
  },
  hide() {
    if (byId("tip").matches(":popover-open")) byId("tip").hidePopover();
  },
};

function say(text) {
  byId("heard").textContent = text;
}

/** A section of the page and its place in the navigation. */
function section(id, title, ...children) {
  byId("nav").append(el("a", { href: `#${id}` }, title));
  const made = el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), children);
  byId("main").append(made);
  return made;
}

/** A choice among a few, as a row of buttons; calls back with the value. */
function choice(label, options, value, chosen) {
  const buttons = options.map(([key, text]) =>
    el("button", { type: "button", "aria-pressed": String(key === value), on: { click: () => pick(key) } }, text));
  function pick(key) {
    options.forEach(([other], i) => buttons[i].setAttribute("aria-pressed", String(other === key)));
    chosen(key);
  }
  return el("span", { class: "controls", role: "group", "aria-label": label }, buttons);
}

/** A choice among many, as a list. */
function list(label, options, value, chosen, id = null) {
  const box = el("select", { id, on: { change: () => chosen(box.value) } },
    options.map(([key, text]) => el("option", { value: key, selected: String(key) === String(value) }, text)));
  return el("label", {}, label, box);
}

/** The numbers of a picture, for those who do not see it. */
function numbers(caption, heads, rows) {
  return el("details", { class: "numbers" }, el("summary", {}, "the same as numbers"),
    el("div", { class: "wide" }, el("table", { class: "grid" }, el("caption", { class: "unseen" }, caption),
      el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, rows.map(([first, ...rest]) =>
        el("tr", {}, el("th", { scope: "row" }, first), rest.map((cell) => el("td", {}, cell))))))));
}

/** Draw now, and again when the width of the place changes or the theme does. */
const redrawn = [];
function drawn(place, draw) {
  let width = 0;
  const again = (force) => {
    const now = Math.floor(place.clientWidth);
    if (now === 0 || (now === width && !force)) return;
    width = now;
    draw(width);
  };
  redrawn.push(() => place.isConnected && again(true));
  new ResizeObserver(() => again(false)).observe(place);
  requestAnimationFrame(() => again(false));
}
const redraw = () => redrawn.forEach((again) => again());

const clipped = (text, n) => (text.length <= n ? text : `${text.slice(0, Math.max(3, Math.floor(n) - 1))}…`);
/** Pixels for the longest of these names in a picture, up to a share of its width. */
const roomFor = (names, width, share) => Math.min(Math.max(...names.map((name) => name.length), 0) * 6.9 + 16, width * share);
