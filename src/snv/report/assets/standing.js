// The first screen: which method is best in each scenario, by how much, how sure, and where all others stand.

const CERTAIN = { clear: "✓", open: "?", untested: "!" };

function standingCard(panel, shown) {
  const { standing } = panel;
  const rows = panel.rows.map((i) => shown.rows[i]);
  const place = el("div");
  drawn(place, (width) => place.replaceChildren(dotPlot(rows, width)));
  return el("div", { class: "card standing", "data-scenario": panel.scenario },
    el("p", { class: "which" }, SCENARIO[panel.scenario]),
    el("p", { class: "best" }, `${standing.best} `, el("span", { class: "by" }, `${standing.acc} %, ${standing.among}`)),
    standing.lead ? el("p", { class: "lead" }, `${standing.lead}.`) : null,
    el("p", { class: `sure ${standing.certainty}` }, el("span", { class: "mark", "aria-hidden": "true" }, CERTAIN[standing.certainty]),
      el("span", {}, standing.sure)),
    standing.beside.map((sentence) => el("p", { class: "soft" }, sentence)),
    place);
}

const accOf = (row) => row.cells[0];
/** Mean ACC of a row's seeds one by one, from the last row of each run's matrix. */
function seedAccs(row) {
  return row.runs.map((run) => {
    const last = data.runs[run].matrices[row.scenario]?.at(-1);
    return last && last.every((x) => x !== null) ? last.reduce((sum, x) => sum + x, 0) / last.length : null;
  }).filter((x) => x !== null);
}

/** The mean of a row, and the ends of its deviation. */
function spanOf(row) {
  const { value } = accOf(row), deviation = row.curve.at(-1)[1];
  return value === null || deviation === null ? [value] : [value - deviation, value, value + deviation];
}

/** A line per method: its seeds, their mean, the deviation. */
function dotPlot(rows, width) {
  const left = Math.max(110, roomFor(rows.map((row) => row.label), width, 0.42)), right = 108, rowHeight = 22;
  const groups = [...new Set(rows.map((row) => row.group))];
  const accs = rows.flatMap((row) => [...seedAccs(row), ...spanOf(row)]).filter((x) => x !== null);
  const low = Math.min(...accs), high = Math.max(...accs);
  const pad = (high - low) * 0.04 || 1;
  const [from, to] = [Math.max(0, low - pad), Math.min(100, high + pad)];
  const x = (value) => left + ((value - from) / (to - from)) * (width - left - right);
  const height = rows.length * rowHeight + groups.length * 20 + 30;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `ACC of ${rows.length} methods; the numbers are in the table below.` });
  for (const value of ticks(from, to, width / 110)) {
    picture.append(svg("line", { class: "rule", x1: x(value), x2: x(value), y1: 4, y2: height - 22 }),
      svg("text", { class: "soft", x: x(value), y: height - 7, "text-anchor": "middle" }, `${value} %`));
  }
  let y = 2;
  for (const group of groups) {
    picture.append(svg("text", { class: "soft", x: 0, y: y + 14 }, group));
    y += 20;
    for (const row of rows.filter((other) => other.group === group)) {
      picture.append(dotLine(row, x, y + rowHeight / 2, left, width));
      y += rowHeight;
    }
  }
  return picture;
}

function dotLine(row, x, y, left, width) {
  const { value, best, text } = accOf(row);
  const accs = seedAccs(row);
  const line = svg("g", {});
  const name = svg("text", { x: left - 10, y: y + 4, "text-anchor": "end", "font-weight": best ? 700 : 400 }, clipped(row.label, (left - 10) / 6.7));
  line.append(name, svg("text", { x: width, y: y + 4, "text-anchor": "end", "font-weight": best ? 700 : 400 }, text));
  if (value === null) return line;
  const span = spanOf(row);
  if (span.length > 1) {
    line.append(svg("line", { x1: x(span[0]), x2: x(span[2]), y1: y, y2: y, stroke: colourOf(row.label), "stroke-width": 3,
      "stroke-linecap": "round", opacity: 0.45 }));
  }
  for (const acc of accs.length > 1 ? accs : []) {
    line.append(svg("circle", { cx: x(acc), cy: y, r: 2.5, fill: "none", stroke: colourOf(row.label), "stroke-width": 1.2 }));
  }
  line.append(markOf(row.label, x(value), y, 5));
  const hit = svg("rect", { class: "hit", x: 0, y: y - 11, width, height: 22 });
  hit.addEventListener("pointermove", (event) => tip.show(event,
    `${row.label}\nACC ${text} %\n${plural(row.runs.length, "seed")}${accs.length > 1 ? `: ${accs.map((acc) => acc.toFixed(2)).join(", ")}` : ""}`));
  hit.addEventListener("pointerleave", tip.hide);
  line.append(hit);
  return line;
}
