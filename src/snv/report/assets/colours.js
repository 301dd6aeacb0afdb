// Colours of methods, of numbers and of the theme; the script reads the theme's from the style sheet.

const METHOD_COLOURS = ["#2f6fd0", "#d6671a", "#23935a", "#c2374f", "#8757c4", "#0d93a5", "#a97b10", "#c04f9c", "#5f7f2a",
  "#80685a", "#4a5cc4", "#d9534a"];
const DASH = "5 4";
const MARKS = [
  (x, y, r) => svg("circle", { cx: x, cy: y, r }),
  (x, y, r) => svg("rect", { x: x - r * 0.9, y: y - r * 0.9, width: 1.8 * r, height: 1.8 * r }),
  (x, y, r) => svg("path", { d: `M${x} ${y - 1.25 * r}L${x + 1.15 * r} ${y + 0.8 * r}L${x - 1.15 * r} ${y + 0.8 * r}Z` }),
  (x, y, r) => svg("path", { d: `M${x} ${y - 1.3 * r}L${x + 1.3 * r} ${y}L${x} ${y + 1.3 * r}L${x - 1.3 * r} ${y}Z` }),
];

const known = new Map();
/** The place of a label among all labels of the page: one label, one colour and mark, wherever it stands. */
function placeOf(label) {
  if (!known.has(label)) known.set(label, known.size);
  return known.get(label);
}
const colourOf = (label) => METHOD_COLOURS[placeOf(label) % METHOD_COLOURS.length];
function markOf(label, x, y, r, attributes = {}) {
  const place = placeOf(label);
  return fill(MARKS[(place + Math.floor(place / METHOD_COLOURS.length)) % MARKS.length](x, y, r), { fill: colourOf(label), ...attributes }, []);
}

const VIRIDIS = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99],
  [170, 220, 50], [253, 231, 37]];
/** viridis at a share from 0 to 1, as [r, g, b]. */
function viridis(share) {
  const at = Math.min(1, Math.max(0, share)) * (VIRIDIS.length - 1);
  const i = Math.min(VIRIDIS.length - 2, Math.floor(at));
  return VIRIDIS[i].map((low, k) => Math.round(low + (VIRIDIS[i + 1][k] - low) * (at - i)));
}
const rgb = ([r, g, b]) => `rgb(${r}, ${g}, ${b})`;
const inkOn = ([r, g, b]) => (0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#000" : "#fff");

/** A colour of the style sheet as [r, g, b], in the theme that holds now. */
function themed(name) {
  const root = byId("heard");
  root.style.setProperty("color", `var(--${name})`);
  const found = getComputedStyle(root).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  root.style.removeProperty("color");
  return found;
}
const mixed = (one, other, share) => one.map((x, i) => Math.round(x + (other[i] - x) * share));

/** The toggle of light and dark; what the reader chose is kept where that is allowed. */
function themeButton() {
  const root = document.documentElement;
  const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const button = el("button", { type: "button", id: "theme" });
  const show = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", dark() ? "Switch to light colours" : "Switch to dark colours");
    redraw();
  };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("snv-theme", root.dataset.theme); } catch { /* not allowed here: it holds for this visit */ }
    show();
  });
  try {
    const kept = localStorage.getItem("snv-theme");
    if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  } catch { /* as above */ }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
  return button;
}

/** For as long as it prints: light, and as wide as the paper, so that pictures are drawn for it. */
function printsWell() {
  const root = document.documentElement;
  let theme;
  addEventListener("beforeprint", () => {
    theme = root.dataset.theme;
    root.dataset.theme = "light";
    root.classList.add("printing");
    redraw();
  });
  addEventListener("afterprint", () => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    root.classList.remove("printing");
    redraw();
  });
}
