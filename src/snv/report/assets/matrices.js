// Accuracy matrices: a tile per method, and on a click the whole matrix of the mean or of one seed.

const asShare = (percent) => percent / 100;

function matrixTile(row) {
  const acc = accOf(row).text;
  const told = (i, j, value) => `${row.label}\ntask ${j + 1} after task ${i + 1}: ${fixed(value, 2)} %`;
  const canvas = heatCanvas({ rows: row.mean, columns: row.mean.length, share: asShare, told, size: 150,
    label: `Accuracy matrix of ${row.label}, ${row.scenario.toUpperCase()}, ACC ${acc}` });
  return el("button", { type: "button", class: "tile matrix", "aria-haspopup": "dialog", on: { click: () => openMatrix(row) } },
    el("span", { class: "name" }, row.label), el("span", { class: "soft" }, `${acc} %`), canvas);
}

function openMatrix(row) {
  const place = el("div", { class: "wide" });
  const shown = [["mean", row.mean], ...row.runs.map((run) => [`seed ${data.runs[run].seed}`, data.runs[run].matrices[row.scenario]])];
  const show = (name) => {
    const rows = shown.find(([key]) => key === name)[1];
    place.replaceChildren(heatTable({ rows, columns: row.mean.length, share: asShare, corner: "after ↓ on →",
      told: (i, j, value) => `task ${j + 1} after task ${i + 1}\n${fixed(value, 3)} %${name === "mean" && row.deviation ? ` ± ${fixed(row.deviation[i][j], 3)}` : ""}`,
      rowName: (i) => `${i + 1}`, columnName: (j) => `${j + 1}`, written: (value, dense) => fixed(value, dense ? 0 : 1) }));
  };
  show(row.runs.length > 1 ? "mean" : shown[1][0]);
  const which = row.runs.length > 1 ? choice("Which seeds", shown.map(([name]) => [name, name]), "mean", show) : null;
  dialog(`${row.label}, ${SCENARIO[row.scenario]}: accuracy in percent`, el("div", { class: "controls" }, which), place,
    el("p", { class: "soft" }, "A row is a moment, a column a task: down a column one sees what becomes of a task. " +
      "The diagonal is each task just learned, the last row what is left."));
}

function matrixTiles(panel, shown) {
  return el("div", { class: "matrices", "data-scenario": panel.scenario }, el("h3", {}, SCENARIO[panel.scenario]),
    el("div", { class: "tiles" }, panel.rows.map((i) => matrixTile(shown.rows[i]))));
}
