// Accuracy after each task: of all tasks so far, or of one; solid lines keep no image, dashed ones do.

const hidden = new Set(); // labels that the reader switched off, on all curves
const curvesShown = new Set();

/** After task i: mean and deviation, of all tasks so far or of one. */
function seriesOf(row, task) {
  if (task < 0) return row.curve.map(([mean, deviation], i) => [i, mean, deviation]);
  return row.mean.map((line, i) => [i, line[task] ?? null, row.deviation?.[i][task] ?? null]).slice(task);
}

function curvesCard(panel, shown, state) {
  const rows = panel.rows.map((i) => shown.rows[i]);
  const place = el("div");
  const below = el("div");
  let width = 0;
  const draw = (now = width) => {
    width = now;
    if (!width) return;
    place.replaceChildren(curvePlot(rows.filter((row) => !hidden.has(row.label)), width, state.task));
    below.replaceChildren(curveNumbers(rows, state.task));
  };
  drawn(place, draw);
  const again = () => (place.isConnected ? draw() : curvesShown.delete(again));
  curvesShown.add(again);
  return el("div", { class: "card curves", "data-scenario": panel.scenario }, el("h3", {}, SCENARIO[panel.scenario]), place, below);
}

function curveNumbers(rows, task) {
  const n = Math.max(...rows.map((row) => row.curve.length));
  return numbers("Accuracy in percent after each task", ["method", ...Array.from({ length: n }, (_, i) => `after ${i + 1}`)],
    rows.map((row) => {
      const found = new Map(seriesOf(row, task).map(([i, mean]) => [i, mean]));
      return [row.label, ...Array.from({ length: n }, (_, i) => fixed(found.get(i), 2))];
    }));
}

function curvePlot(rows, width, task) {
  const height = Math.round(Math.min(400, Math.max(250, width * 0.55)));
  const [left, right, top, bottom] = [38, roomFor(rows.map((row) => row.label), width, 0.34) + 8, 10, 34];
  const all = rows.map((row) => [row, seriesOf(row, task).filter(([, mean]) => mean !== null)]);
  const last = Math.max(1, ...all.flatMap(([, points]) => points.map(([i]) => i)));
  const tops = all.flatMap(([, points]) => points.map(([, mean, deviation]) => mean + (deviation ?? 0)));
  const [low, high] = [0, Math.min(100, Math.max(...tops, 1))];
  const x = (i) => left + (i / last) * (width - left - right);
  const y = (value) => top + ((high - value) / (high - low)) * (height - top - bottom);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Accuracy after each task, ${rows.length} lines; the numbers follow.` });
  for (const value of ticks(low, high, 5)) {
    picture.append(svg("line", { class: "rule", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      svg("text", { class: "soft", x: left - 6, y: y(value) + 4, "text-anchor": "end" }, value));
  }
  for (const i of ticks(0, last, Math.min(last, width / 60)).filter(Number.isInteger)) {
    picture.append(svg("text", { class: "soft", x: x(i), y: height - 18, "text-anchor": "middle" }, i + 1));
  }
  picture.append(svg("text", { class: "soft", x: (left + width - right) / 2, y: height - 2, "text-anchor": "middle" },
    task < 0 ? "after task; accuracy on all tasks so far, percent" : `after task; accuracy on task ${task + 1}, percent`));
  const lines = all.filter(([, points]) => points.length).map(([row, points]) => curveLine(row, points, x, y, last, rows.length));
  picture.append(...lines, ...endLabels(all, x, y, last, height - bottom, (right - 18) / 6.7));
  hoverCurves(picture, all, x, y, lines);
  return picture;
}

function curveLine(row, points, x, y, last, many) {
  const group = svg("g", { "data-label": row.label });
  const banded = points.filter(([, , deviation]) => deviation !== null);
  if (banded.length > 1) {
    const up = banded.map(([i, mean, deviation]) => `${x(i)},${y(Math.min(100, mean + deviation))}`);
    const down = banded.map(([i, mean, deviation]) => `${x(i)},${y(Math.max(0, mean - deviation))}`).reverse();
    group.append(svg("polygon", { points: [...up, ...down].join(" "), fill: colourOf(row.label), opacity: many > 8 ? 0.06 : 0.15 }));
  }
  group.append(svg("polyline", { points: points.map(([i, mean]) => `${x(i)},${y(mean)}`).join(" "), fill: "none",
    stroke: colourOf(row.label), "stroke-width": 2, "stroke-linejoin": "round", "stroke-dasharray": row.dashed ? DASH : null }));
  const every = Math.ceil((last + 1) / 12);
  group.append(...points.filter(([i]) => i % every === 0 || i === last).map(([i, mean]) => markOf(row.label, x(i), y(mean), 3.5)));
  return group;
}

/** Names at the ends of lines, moved apart where they would overlap. */
function endLabels(all, x, y, last, floor, letters) {
  const ends = all.filter(([, points]) => points.length).map(([row, points]) => [row, y(points.at(-1)[1])]).sort((a, b) => a[1] - b[1]);
  const gap = 13;
  const at = ends.map(([, end]) => end);
  for (let k = 1; k < at.length; k += 1) at[k] = Math.max(at[k], at[k - 1] + gap);
  const over = Math.max(0, (at.at(-1) ?? 0) - floor);
  for (let k = at.length - 1; k >= 0; k -= 1) at[k] = Math.min(at[k] - (k === at.length - 1 ? over : 0), (at[k + 1] ?? Infinity) - gap);
  return ends.flatMap(([row, end], k) => [
    svg("line", { x1: x(last) + 5, x2: x(last) + 12, y1: end, y2: at[k], stroke: colourOf(row.label), opacity: 0.6 }),
    svg("text", { x: x(last) + 15, y: at[k] + 4 }, clipped(row.label, letters))]);
}

function hoverCurves(picture, all, x, y, lines) {
  const points = all.flatMap(([row, found]) => found.map(([i, mean, deviation]) => ({ row, i, mean, deviation })));
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const scale = picture.viewBox.baseVal.width / box.width;
    const [px, py] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    let near = null, best = 40 ** 2;
    for (const point of points) {
      const away = (x(point.i) - px) ** 2 + (y(point.mean) - py) ** 2;
      if (away < best) [near, best] = [point, away];
    }
    for (const line of lines) line.classList.toggle("faint", near !== null && line.dataset.label !== near.row.label);
    if (near === null) tip.hide();
    else tip.show(event, `${near.row.label}\nafter task ${near.i + 1}: ${fixed(near.mean, 2)} %${near.deviation === null ? "" : ` ± ${fixed(near.deviation, 2)}`}`);
  });
  picture.addEventListener("pointerleave", () => {
    tip.hide();
    for (const line of lines) line.classList.remove("faint");
  });
}

/** Every label of the stream once; a press hides its lines or brings them back. */
function legend(rows) {
  const labels = new Map(rows.map((row) => [row.label, row]));
  return el("ul", { class: "legend", "aria-label": "Lines shown" }, [...labels.values()].map((row) => {
    const button = el("button", { type: "button", "aria-pressed": String(!hidden.has(row.label)), on: { click: () => {
      if (!hidden.delete(row.label)) hidden.add(row.label);
      button.setAttribute("aria-pressed", String(!hidden.has(row.label)));
      curvesShown.forEach((again) => again());
    } } }, svg("svg", { viewBox: "0 0 26 12", "aria-hidden": "true" },
      svg("line", { x1: 0, x2: 26, y1: 6, y2: 6, stroke: colourOf(row.label), "stroke-width": 2, "stroke-dasharray": row.dashed ? DASH : null }),
      markOf(row.label, 13, 6, 3.5)), row.label, row.dashed ? el("span", { class: "unseen" }, " (keeps images)") : null);
    return el("li", {}, button);
  }));
}
