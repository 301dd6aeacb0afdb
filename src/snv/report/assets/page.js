// Puts the parts together: a page of runs, or of a model.

function runsPage(shown) {
  for (const row of shown.rows) placeOf(row.label);
  const methods = new Set(shown.runs.map((run) => run.method)).size;
  document.title = `snv report: ${plural(methods, "method")}, ${plural(shown.runs.length, "run")}`;
  byId("title").textContent = "Which method is best here?";
  byId("about").textContent = `${plural(shown.runs.length, "run")} of ${plural(methods, "method")}, `
    + `${shown.streams.length === 1 ? inFull(shown.streams[0]) : plural(shown.streams.length, "stream")}. `
    + "Accuracies in percent, mean ± standard deviation over seeds.";
  const state = { stream: 0, task: -1, costs: "seconds" };
  const parts = {};

  const summary = section("summary", "Summary");
  if (shown.panels.length) {
    section("table", "Table", resultTable(shown));
    parts.curves = section("curves", "Curves");
    parts.matrices = section("matrices", "Matrices");
  }
  if (shown.neurons.length) neuronSection(shown);
  if (shown.panels.length) parts.costs = section("costs", "Costs");
  section("runs", "Runs", el("p", { class: "soft" }, "What is behind every number: the exact command, all settings, the machine."),
    shown.runs.map((run, i) => runDetails(run, i, shown)));
  if (location.hash.startsWith("#run-")) openRun(location.hash.slice(5));

  const panelsNow = () => shown.panels.filter((panel) => panel.stream === state.stream);
  const rowsNow = () => panelsNow().flatMap((panel) => panel.rows.map((i) => shown.rows[i]));
  const heading = (part) => part.querySelector("h2");
  function show() {
    const panels = panelsNow();
    summary.replaceChildren(heading(summary), streamChoice(shown, state, show),
      panels.length ? el("div", { class: "sides" }, panels.map((panel) => standingCard(panel, shown)))
        : el("p", {}, "No run of this stream is finished, so there is nothing to compare yet."),
      ...shown.notes.map((note) => el("p", { class: "soft" }, note)));
    if (!parts.curves) return;
    showCurves();
    parts.matrices.replaceChildren(heading(parts.matrices), el("div", { class: "controls kept below" },
      ramp("0 %", "100 %"), el("span", { class: "soft" }, "rows: after each task; columns: tasks; click to enlarge")),
    ...panels.map((panel) => matrixTiles(panel, shown)));
    showCosts();
  }
  function showCurves() {
    const panels = panelsNow(), n = Math.max(1, ...rowsNow().map((row) => row.mean.length));
    const which = list("accuracy on", [[-1, "all tasks so far"], ...Array.from({ length: n }, (_, t) => [t, `task ${t + 1}`])], state.task,
      (task) => { state.task = Number(task); curvesShown.forEach((again) => again()); }, "curve-task");
    parts.curves.replaceChildren(heading(parts.curves), el("div", { class: "controls below" }, which),
      el("div", { class: "sides" }, panels.map((panel) => curvesCard(panel, shown, state))), legend(rowsNow()),
      el("p", { class: "soft" }, "Solid: no image is kept. Dashed: images are kept. Bands: ± standard deviation over seeds."));
  }
  function showCosts() {
    const place = el("div");
    const draw = () => place.replaceChildren(...costCards(panelsNow(), shown, state.costs));
    draw();
    parts.costs.replaceChildren(heading(parts.costs), el("div", { class: "controls below" },
      choice("Costs in", [["seconds", "time"], ["macs", "multiply-accumulates"]], state.costs, (what) => { state.costs = what; draw(); })), place,
    el("p", { class: "soft" }, "Mean over seeds. Times compare on one machine only; multiply-accumulates anywhere."));
  }
  show();
}

const inFull = ({ title, setup }) => (setup ? `${title}, ${setup}` : title);

function streamChoice(shown, state, show) {
  if (shown.streams.length < 2) return "";
  return el("div", { class: "controls below" }, list("stream", shown.streams.map(({ title }, i) => [i, title]), state.stream, (i) => {
    state.stream = Number(i);
    state.task = -1;
    show();
    byId("stream").focus();
  }, "stream"), el("span", { class: "soft" }, [shown.streams[state.stream].setup, "also for curves, matrices and costs"].filter(Boolean).join("; ")));
}

function neuronSection(shown) {
  const owners = shown.neurons.map((_, k) => shown.runs.find((run) => run.neurons === k));
  const { map, overlap } = neuronMap({ tables: shown.neurons, taskName: () => (t) => `task ${t + 1}`,
    titles: owners.map((run) => `${run.method}, ${run.scenario.toUpperCase()}, seed ${run.seed} (${run.place})`) });
  section("neurons", "Neurons", map, el("h3", {}, "Overlap of masks"), overlap);
}

byId("tools").append(themeButton());
addEventListener("keydown", (event) => event.key === "Escape" && tip.hide());
addEventListener("scroll", tip.hide, { passive: true });
printsWell();
if (data.kind === "runs") runsPage(data);
else modelPage(data);
document.documentElement.dataset.ready = "yes";
