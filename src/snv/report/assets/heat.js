// Matrices of numbers as colours: small on a canvas, large as a table of its own in a dialog.

/**
 * A small picture of a matrix whose rows may be shorter than the first is wide.
 * `share(value)` is its place on the scale of colours, `told(i, j, value)` what the tip says.
 */
function heatCanvas({ rows, columns, share, told, size, label }) {
  const canvas = el("canvas", { role: "img", "aria-label": label });
  const n = Math.max(columns, rows.length);
  const draw = () => {
    const scale = Math.max(1, Math.round((devicePixelRatio * size) / n));
    canvas.width = scale * columns;
    canvas.height = scale * rows.length;
    canvas.style.setProperty("width", `${size * (columns / n)}px`);
    canvas.style.setProperty("height", `${size * (rows.length / n)}px`);
    const context = canvas.getContext("2d");
    context.fillStyle = rgb(themed("cell"));
    context.fillRect(0, 0, canvas.width, canvas.height);
    rows.forEach((row, i) => row.forEach((value, j) => {
      if (value === null) return;
      context.fillStyle = rgb(viridis(share(value)));
      context.fillRect(j * scale, i * scale, scale, scale);
    }));
  };
  redrawn.push(() => canvas.isConnected && draw());
  draw();
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const j = Math.floor(((event.clientX - box.left) / box.width) * columns);
    const i = Math.floor(((event.clientY - box.top) / box.height) * rows.length);
    const value = rows[i]?.[j];
    if (value === undefined || value === null) tip.hide();
    else tip.show(event, told(i, j, value));
  });
  canvas.addEventListener("pointerleave", tip.hide);
  return canvas;
}

/** The same large: every number in a cell, rows and columns named, so that a screen reader can walk it. */
function heatTable({ rows, columns, share, told, rowName, columnName, corner, written }) {
  const dense = columns > 20;
  const table = el("table", { class: dense ? "heat dense" : "heat" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, corner),
      Array.from({ length: columns }, (_, j) => el("th", { scope: "col" }, columnName(j))))),
    el("tbody", {}, rows.map((row, i) => el("tr", {}, el("th", { scope: "row" }, rowName(i)), row.map((value, j) => {
      if (value === null) return el("td", {}, "–");
      const colour = viridis(share(value));
      const shown = el("td", { style: { background: rgb(colour), color: inkOn(colour) } }, written(value, dense));
      shown.addEventListener("pointermove", (event) => tip.show(event, told(i, j, value)));
      return shown;
    })))));
  table.addEventListener("pointerleave", tip.hide);
  return table;
}

/** A dialog with a title and a close button; Escape closes it, and the focus goes back to where it was. */
function dialog(title, ...children) {
  const box = el("dialog", { "aria-label": title });
  const close = el("button", { type: "button", on: { click: () => box.close() } }, "Close");
  fill(box, { on: { close: () => { box.remove(); tip.hide(); }, click: (event) => event.target === box && box.close() } },
    [el("div", { class: "controls kept" }, el("h2", {}, title), close), children]);
  document.body.append(box);
  tip.hide();
  box.showModal();
  close.focus();
  return box;
}

/** The scale of colours with its ends named. */
function ramp(low, high, colour = (share) => viridis(share)) {
  const canvas = el("canvas", { width: 120, height: 12, "aria-hidden": "true" });
  const draw = () => {
    const context = canvas.getContext("2d");
    for (let x = 0; x < 120; x += 1) {
      context.fillStyle = rgb(colour(x / 119));
      context.fillRect(x, 0, 1, 12);
    }
  };
  redrawn.push(() => canvas.isConnected && draw());
  draw();
  return el("span", { class: "ramp" }, low, canvas, high);
}
