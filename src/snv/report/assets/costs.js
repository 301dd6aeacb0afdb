// What learning cost, phase by phase: time, or multiply-accumulates.

const PHASE_COLOURS = ["#2f6fd0", "#d6671a", "#23935a", "#8757c4", "#0d93a5", "#c2374f", "#a97b10", "#c04f9c", "#5f7f2a", "#4a5cc4",
  "#d98a3a"];
const COSTS = { seconds: seconds, macs: (n) => big(n, "MAC") };

/** All phases that are there: training first, evaluation, which no learner needs, last. */
function phasesOf(rows, what) {
  const order = (phase) => (phase === "train" ? -1 : phase === "evaluate" ? 1 : 0);
  return [...new Set(rows.flatMap((row) => Object.keys(row[what])))].sort((a, b) => order(a) - order(b));
}

const phaseColour = (phases, phase) => PHASE_COLOURS[phases.indexOf(phase) % PHASE_COLOURS.length];
const total = (row, what) => Object.values(row[what]).reduce((sum, x) => sum + x, 0);

function costCard(scenario, rows, phases, what) {
  const place = el("div");
  drawn(place, (width) => place.replaceChildren(costPlot(rows, phases, what, width)));
  const present = phases.filter((phase) => rows.some((row) => row[what][phase]));
  return el("div", { class: "card costs", "data-scenario": scenario }, el("h3", {}, SCENARIO[scenario]), place,
    numbers(`Costs by phase, ${what}`, ["method", ...present, "all"], rows.map((row) =>
      [row.label, ...present.map((phase) => (row[what][phase] ? COSTS[what](row[what][phase]) : "–")), COSTS[what](total(row, what))])));
}

function costPlot(rows, phases, what, width) {
  const left = roomFor(rows.map((row) => row.label), width, 0.42), right = 92, rowHeight = 24;
  const most = Math.max(...rows.map((row) => total(row, what)));
  const picture = svg("svg", { viewBox: `0 0 ${width} ${rows.length * rowHeight + 4}`, role: "img",
    "aria-label": `Costs of ${rows.length} methods by phase; the numbers follow.` });
  rows.forEach((row, k) => {
    const y = k * rowHeight;
    picture.append(svg("text", { x: left - 10, y: y + 16, "text-anchor": "end" }, clipped(row.label, (left - 10) / 6.7)));
    let x = left;
    for (const phase of phases) {
      const spent = row[what][phase] ?? 0, long = (spent / most) * (width - left - right);
      if (!spent) continue;
      const bar = svg("rect", { x, y: y + 4, width: Math.max(0.5, long), height: rowHeight - 8, fill: phaseColour(phases, phase) });
      bar.addEventListener("pointermove", (event) => tip.show(event, `${row.label}\n${phase}: ${COSTS[what](spent)}`));
      bar.addEventListener("pointerleave", tip.hide);
      picture.append(bar);
      x += long;
    }
    picture.append(svg("text", { x: x + 6, y: y + 16 }, COSTS[what](total(row, what))));
  });
  return picture;
}

/** The cards of a stream's panels, and the keys of the colours. */
function costCards(panels, shown, what) {
  const sets = panels.map((panel) => [panel.scenario, panel.rows.map((i) => shown.rows[i]).filter((row) => total(row, what) > 0)]);
  const phases = phasesOf(sets.flatMap(([, rows]) => rows), what);
  return [el("div", { class: "sides" }, sets.filter(([, rows]) => rows.length).map(([scenario, rows]) =>
    costCard(scenario, [...rows].sort((a, b) => total(b, what) - total(a, what)), phases, what))),
  el("p", { class: "controls kept" }, phases.map((phase) => el("span", { class: "key" },
    el("span", { class: "swatch", style: { background: phaseColour(phases, phase) } }), phase)))];
}
