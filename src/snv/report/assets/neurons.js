// The map of the neurons: layers by filters on a canvas, coloured by what they are worth or whose they are.

const COLOURINGS = [["value", "value φ"], ["tasks", "tasks that have it"], ["first", "first task"]];

/** A map, its controls and what is known of the neuron under the cursor. `names` are those of tasks, `tables` packed. */
function neuronMap({ tables, titles, taskName }) {
  const state = { table: null, names: taskName(0), task: -1, colouring: "value", at: 0, layout: null };
  const canvas = el("canvas", { id: "map", tabindex: "0", role: "application", "aria-roledescription": "map of neurons",
    "aria-describedby": "map-keys" });
  const over = el("canvas", { class: "over", "aria-hidden": "true" });
  const stack = el("div", { class: "stack" }, canvas, over);
  const about = el("div", { class: "card about", id: "neuron" });
  const scale = el("span", { class: "legend-of-map" });
  const told = el("p", { class: "soft", id: "subnetwork" });
  const tasks = el("span");
  const overlap = el("div", { id: "overlap" });
  const name = (task) => state.names(task);

  function use(k) {
    state.table = unpacked(tables[k]);
    state.names = taskName(k);
    state.task = -1;
    state.at = 0;
    tasks.replaceChildren(list("subnetwork of", [[-1, "all tasks"], ...Array.from({ length: state.table.t }, (_, t) => [t, name(t)])],
      -1, (value) => chooseTask(Number(value)), "map-task"));
    overlap.replaceChildren(...overlapOf(tables[k], name));
    canvas.setAttribute("aria-label", `Map of ${plural(state.table.n, "neuron")} in ${plural(state.table.layers.length, "layer")}`);
    paint();
    look(0, false);
  }

  function chooseTask(task) {
    state.task = task;
    const box = tasks.querySelector("select");
    if (box.value !== String(task)) box.value = String(task);
    paint();
    look(state.at, false);
    say(told.textContent);
  }

  function paint(width = stack.clientWidth) {
    if (!width || !state.table) return;
    state.layout = layoutOf(state.table, width);
    for (const sheet of [canvas, over]) {
      sheet.width = Math.round(width * devicePixelRatio);
      sheet.height = Math.round(state.layout.height * devicePixelRatio);
      sheet.style.setProperty("width", `${width}px`);
      sheet.style.setProperty("height", `${state.layout.height}px`);
    }
    const { colour, legend: shown } = colouringOf(state, name);
    paintNeurons(canvas.getContext("2d"), state, colour);
    scale.replaceChildren(shown);
    told.textContent = describeTask(state, name);
  }

  /** Show a neuron: ring on the map, history beside it, and in words if it was reached by key. */
  function look(i, aloud) {
    state.at = i;
    ring(over.getContext("2d"), state, document.activeElement === canvas || over.matches("[data-hover]"));
    about.replaceChildren(...neuronCard(state, i, name));
    if (aloud) say(neuronWords(state, i, name));
  }

  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const i = neuronAt(state, event.clientX - box.left, event.clientY - box.top);
    over.toggleAttribute("data-hover", i >= 0);
    if (i >= 0 && i !== state.at) look(i, false);
    if (i >= 0) tip.show(event, neuronWords(state, i, name));
    else tip.hide();
  });
  canvas.addEventListener("pointerleave", () => { over.removeAttribute("data-hover"); tip.hide(); look(state.at, false); });
  canvas.addEventListener("focus", () => look(state.at, true));
  canvas.addEventListener("blur", () => look(state.at, false));
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const next = moved(state, event.key);
    if (next !== null) look(next, true);
    else if (event.key === "[" || event.key === "]") {
      const step = event.key === "]" ? 1 : -1, choices = state.table.t + 1;
      chooseTask(((state.task + 1 + step + choices) % choices) - 1);
    } else return;
    event.preventDefault();
  });
  drawn(stack, (width) => { paint(width); look(state.at, false); });

  const controls = el("div", { class: "controls below" },
    tables.length > 1 ? list("run", titles.map((title, k) => [k, title]), 0, (k) => use(Number(k)), "map-run") : null,
    choice("Colour by", COLOURINGS, "value", (key) => { state.colouring = key; paint(); look(state.at, false); }), tasks);
  use(0);
  return { map: [controls, el("div", { class: "controls kept below" }, scale, told),
    el("div", { class: "map" }, el("div", { class: "card" }, stack), about),
    el("p", { class: "soft controls", id: "map-keys" },
      "On the map: arrow keys go from neuron to neuron, Page Up and Page Down from layer to layer, [ and ] from task to task.")], overlap };
}

// ---- where a neuron is

const NAME_WIDTH = 132;

/** Cells of a size that shows all neurons on about one screen; each layer starts a line of its own. */
function layoutOf(table, width) {
  const cell = table.n <= 120 ? 24 : table.n <= 400 ? 16 : table.n <= 1500 ? 12 : table.n <= 5000 ? 9 : 7;
  const names = width < 480 ? 0 : NAME_WIDTH;
  const perLine = Math.max(1, Math.floor((width - names) / cell));
  const tops = [];
  let y = 2;
  for (const size of table.sizes) {
    if (!names) y += 14;
    tops.push(y);
    y += Math.ceil(size / perLine) * cell + Math.max(5, 15 - cell);
  }
  return { cell, names, perLine, tops, height: y };
}

function placeOfNeuron({ table, layout }, i) {
  const layer = layerOf(table, i), k = i - table.starts[layer];
  return [layout.names + (k % layout.perLine) * layout.cell, layout.tops[layer] + Math.floor(k / layout.perLine) * layout.cell];
}

/** The neuron at a point, or -1. */
function neuronAt({ table, layout }, x, y) {
  let layer = layout.tops.length - 1;
  while (layer >= 0 && layout.tops[layer] > y) layer -= 1;
  const column = Math.floor((x - layout.names) / layout.cell);
  if (layer < 0 || column < 0 || column >= layout.perLine) return -1;
  const k = Math.floor((y - layout.tops[layer]) / layout.cell) * layout.perLine + column;
  return k < table.sizes[layer] ? table.starts[layer] + k : -1;
}

/** Where a key leads, or null. */
function moved({ table, layout, at }, key) {
  const layer = layerOf(table, at), start = table.starts[layer], end = start + table.sizes[layer] - 1;
  const other = (k) => table.starts[Math.min(table.starts.length - 1, Math.max(0, layer + k))];
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: Math.min(at + layout.perLine, Math.max(end, at)),
    ArrowUp: Math.max(at - layout.perLine, Math.min(start, at)), Home: start, End: end, PageDown: other(1), PageUp: other(-1) }[key];
  if (to === undefined) return null;
  if (key === "ArrowDown" && at === end && end + 1 < table.n) return end + 1;
  if (key === "ArrowUp" && at === start && start > 0) return start - 1;
  return Math.min(table.n - 1, Math.max(0, to));
}

// ---- how it looks

const valueOf = ({ table }, task, i) => table.values[task * table.n + i];
const hasIt = ({ table }, task, i) => table.masks[task * table.n + i] === 1;

/** The value that is shown: of the chosen task, or the largest of all. */
function shownValue(state, i) {
  if (state.task >= 0) return valueOf(state, state.task, i);
  let most = NaN;
  for (let t = 0; t < state.table.t; t += 1) {
    const value = valueOf(state, t, i);
    if (!(value <= most) && !Number.isNaN(value)) most = value;
  }
  return most;
}

/** A colour for every neuron, and the legend that explains it. */
function colouringOf(state, name) {
  const { table } = state, empty = themed("cell");
  if (state.colouring === "tasks") {
    const most = Math.max(1, ...table.owners);
    return { colour: (i) => (table.owners[i] ? viridis(0.15 + 0.85 * ((table.owners[i] - 1) / Math.max(1, most - 1))) : empty),
      legend: el("span", {}, ramp("1 task", plural(most, "task"), (share) => viridis(0.15 + 0.85 * share)), key(empty, "free")) };
  }
  if (state.colouring === "first") {
    const share = (task) => (table.t > 1 ? task / (table.t - 1) : 0.5);
    return { colour: (i) => (table.first[i] >= 0 ? viridis(share(table.first[i])) : empty),
      legend: el("span", {}, ramp(name(0), name(table.t - 1)), key(empty, "free")) };
  }
  const values = Array.from({ length: table.n }, (_, i) => shownValue(state, i));
  const most = values.reduce((max, x) => (Math.abs(x) > max ? Math.abs(x) : max), 0) || 1;
  const [plus, minus] = [themed("plus"), themed("minus")];
  const shade = (x) => mixed(empty, x < 0 ? minus : plus, Math.sqrt(Math.min(1, Math.abs(x))));
  return { colour: (i) => (Number.isNaN(values[i]) ? empty : shade(values[i] / most)),
    legend: ramp(short(-most), short(most), (share) => mixed(themed("cell"), share < 0.5 ? themed("minus") : themed("plus"), Math.sqrt(Math.abs(2 * share - 1)))) };
}

const key = (colour, text) => el("span", { class: "key" }, el("span", { class: "swatch", style: { background: rgb(colour) } }), text);

function paintNeurons(context, state, colour) {
  const { table, layout } = state, gap = layout.cell > 8 ? 1.5 : 1;
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  context.clearRect(0, 0, context.canvas.width, context.canvas.height);
  context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  context.textBaseline = "top";
  const paper = themed("paper"), soft = rgb(themed("soft")), dot = rgb(paper);
  table.layers.forEach((layer, k) => {
    context.fillStyle = soft;
    const text = `${layer} · ${table.sizes[k]}`;
    context.fillText(layout.names ? clipped(text, 21) : text, 0, layout.tops[k] - (layout.names ? 0 : 13));
  });
  for (let i = 0; i < table.n; i += 1) {
    const [x, y] = placeOfNeuron(state, i);
    const outside = state.task >= 0 && !hasIt(state, state.task, i);
    context.fillStyle = rgb(outside ? mixed(colour(i), paper, 0.82) : colour(i));
    context.fillRect(x, y, layout.cell - gap, layout.cell - gap);
    if (state.task >= 0 && !outside) {
      context.strokeStyle = soft;
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y + 0.5, layout.cell - gap - 1, layout.cell - gap - 1);
    }
    if (state.task >= 0 && !outside && table.first[i] < state.task) { // reused: some earlier task had it already
      context.fillStyle = dot;
      const r = Math.max(2, Math.round(layout.cell / 4));
      context.fillRect(x + (layout.cell - gap - r) / 2, y + (layout.cell - gap - r) / 2, r, r);
    }
  }
}

function ring(context, state, shown) {
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  context.clearRect(0, 0, context.canvas.width, context.canvas.height);
  if (!shown || !state.layout) return;
  const [x, y] = placeOfNeuron(state, state.at);
  context.strokeStyle = rgb(themed("cursor"));
  context.lineWidth = 2;
  context.strokeRect(x - 1.5, y - 1.5, state.layout.cell + 1.5, state.layout.cell + 1.5);
}

// ---- in words

const tasksWith = (state, i) => Array.from({ length: state.table.t }, (_, t) => t).filter((t) => hasIt(state, t, i));

function neuronTitle({ table }, i) {
  const layer = layerOf(table, i);
  return `${table.layers[layer]}, neuron ${i - table.starts[layer] + 1} of ${table.sizes[layer]}`;
}

function neuronWords(state, i, name) {
  const owners = tasksWith(state, i);
  const whose = owners.length === 0 ? "free" : `in ${owners.length > 6 ? `${owners.length} tasks` : owners.map(name).join(", ")}`;
  const value = shownValue(state, i);
  const of = state.task >= 0 ? `φ for ${name(state.task)}` : "largest φ";
  return `${neuronTitle(state, i)}\n${of} ${Number.isNaN(value) ? "not known" : short(value)}\n${whose}`;
}

function describeTask(state, name) {
  const { table } = state;
  if (state.task < 0) {
    const used = table.owners.reduce((sum, n) => sum + (n > 0), 0);
    return `${used.toLocaleString("en")} of ${plural(table.n, "neuron")} belong to ${table.t === 1 ? "the task" : `one of ${table.t} tasks`}.`;
  }
  const { all, fresh } = subnetworkOf(table, state.task);
  return `${name(state.task)}: ${plural(all, "neuron")}, ${fresh.toLocaleString("en")} of them new, ${(all - fresh).toLocaleString("en")} reused (a dot).`;
}

/** The history of a neuron: its value for each task, full where the task has it. */
function neuronCard(state, i, name) {
  const { table } = state, width = 300, height = 120, base = 100;
  const values = Array.from({ length: table.t }, (_, t) => valueOf(state, t, i));
  const most = values.reduce((max, x) => (Math.abs(x) > max ? Math.abs(x) : max), 0) || 1;
  const negative = values.some((x) => x < 0);
  const zero = negative ? base / 2 + 4 : base;
  const unit = (negative ? base / 2 : base) - 8;
  const step = (width - 4) / table.t;
  const wide = Math.min(32, Math.max(1, step - (step > 4 ? 2 : 0.5)));
  const bars = values.map((x, t) => Number.isNaN(x) ? null : svg("rect", { x: 2 + (t + 0.5) * step - wide / 2, width: wide,
    y: x >= 0 ? zero - (x / most) * unit : zero, height: Math.max(1, (Math.abs(x) / most) * unit),
    fill: x >= 0 ? "var(--plus)" : "var(--minus)", opacity: hasIt(state, t, i) ? 1 : 0.3 }));
  const owners = tasksWith(state, i);
  const marks = table.t <= 12 ? values.map((_, t) => t) : [0, table.t - 1];
  return [el("h3", {}, neuronTitle(state, i)),
    el("p", {}, owners.length ? `In ${plural(owners.length, "task")}: ${owners.map(name).join(", ")}.` : "In no task: free."),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Values: ${values.map((x, t) => `${name(t)} ${Number.isNaN(x) ? "not known" : short(x)}`).join(", ")}` },
      svg("line", { class: "rule", x1: 0, x2: width, y1: zero, y2: zero }), bars.filter(Boolean),
      marks.map((t) => svg("text", { class: "soft", x: 2 + (t + 0.5) * step, y: height - 3, "text-anchor": "middle" }, t + 1))),
    el("p", { class: "soft" }, `φ by task, from ${short(Math.min(0, ...values.filter((x) => !Number.isNaN(x))))} to ${short(Math.max(0, ...values.filter((x) => !Number.isNaN(x))))}; full where the task has the neuron.`)];
}

// ---- what tasks share

function overlapOf(table, name) {
  const shared = Math.max(...table.overlap.flatMap((row, i) => row.filter((_, j) => i !== j)), 0);
  const most = shared > 0 && shared < 0.3 ? shared : 1; // little would all look like nothing beside the diagonal
  const shown = { rows: table.overlap, columns: table.n_tasks, share: (x) => x / most,
    told: (i, j, value) => `${name(i)} and ${name(j)}\n${fixed(value, 3)} of the neurons of either are in both` };
  const open = () => dialog("Overlap of masks", el("div", { class: "wide" }, heatTable({ ...shown, corner: "Jaccard",
    rowName: name, columnName: name, written: (value, dense) => fixed(value, 2).replace(dense ? /^0/ : /^$/, "") })));
  return [el("button", { type: "button", class: "tile", id: "overlap-tile", "aria-haspopup": "dialog", on: { click: open } },
    heatCanvas({ ...shown, size: 260, label: `Overlap of the masks of ${table.n_tasks} tasks` })),
    el("p", { class: "soft" }, "Neurons in both tasks, of those in either (Jaccard); 1 on the diagonal. ",
      ramp("0", short(most)))];
}
