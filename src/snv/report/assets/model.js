// The page of a model: what it knows, how sure it is, what room is left, what was proved, and what is in its files.

function modelPage(shown) {
  const name = shown.path.split(/[\\/]/).filter(Boolean).at(-1) ?? shown.path;
  const classes = shown.tasks.reduce((sum, task) => sum + task.classes.length, 0);
  document.title = `snv: ${name}`;
  byId("title").textContent = name;
  byId("about").textContent = shown.damage.length ? shown.path : `${plural(shown.tasks.length, "task")}, ${classes === 1 ? "1 class" : `${classes} classes`} · ${shown.path}`;
  section("summary", "Summary", el("div", { class: "sides thirds" }, knowsCard(shown, classes), proofCard(shown), roomCard(shown)));
  if (shown.damage.length) return;
  if (shown.tasks.length) section("tasks", "What it knows", taskTable(shown.tasks));
  section("room", "What room is left", roomPart(shown.room));
  if (shown.tasks.length) section("proof", "What was proved", proofPart(shown.verdicts));
  if (shown.neurons) {
    const { map, overlap } = neuronMap({ tables: [shown.neurons], titles: [""], taskName: () => (t) => shown.tasks[t].name });
    section("neurons", "Neurons", map, el("h3", {}, "Overlap of masks"), overlap);
  }
  section("sizes", "What is in it", sizesPart(shown));
}

const sentence = (kind, mark, text) => el("p", { class: `sure ${kind}` },
  el("span", { class: "mark", "aria-hidden": "true" }, mark), el("span", {}, text));

function knowsCard(shown, classes) {
  if (shown.damage.length) return el("div", { class: "card" }, el("p", { class: "which" }, "it knows"), el("p", {}, "It cannot be opened before it is whole again."));
  const worst = [...shown.tasks].sort((a, b) => a.accuracy - b.accuracy)[0];
  return el("div", { class: "card" }, el("p", { class: "which" }, "it knows"),
    el("p", { class: "best" }, `${classes} ${classes === 1 ? "class" : "classes"}`, el("span", { class: "by" }, ` in ${plural(shown.tasks.length, "task")}`)),
    worst ? el("p", { class: "lead" }, `At least ${fixed(worst.accuracy, 1)} % of held-out pictures right in every task, the task known`
      + `${shown.tasks.length > 1 ? `; the least in ${worst.name}` : ""}.`) : el("p", {}, "Nothing yet: teach it with snv learn."));
}

function proofCard(shown) {
  if (shown.damage.length) {
    return el("div", { class: "card" }, el("p", { class: "which" }, "proof"), el("p", { class: "best" }, "Damaged"),
      shown.damage.map((problem) => sentence("wrong", "✗", problem)));
  }
  return el("div", { class: "card" }, el("p", { class: "which" }, "proof"),
    el("p", { class: "best" }, shown.tasks.length === 0 ? "Whole" : shown.unchanged ? "Unchanged" : "Changed"),
    shown.unchanged ? sentence("clear", "✓", shown.tasks.length ? "Every file is whole, and nothing that was certified of any task has changed." : "Every file is whole.")
      : shown.verdicts.filter((v) => !v.known || v.evidence === false).map((v) => sentence("wrong", "✗", `${v.task}: ${v.known ? v.told_open : v.told}`)));
}

function roomCard(shown) {
  if (!shown.room) return null;
  const { fit, neurons, used, share } = shown.room;
  return el("div", { class: "card" }, el("p", { class: "which" }, "room"),
    el("p", { class: "best" }, plural(fit, "more task"), el("span", { class: "by" }, fit === 1 ? " fits" : " fit")),
    el("p", { class: "lead" }, `${(neurons - used).toLocaleString("en")} of ${plural(neurons, "neuron")} are free; a task takes ${fixed(100 * share, 0)} % of what is free.`));
}

// ---- what it knows, and how sure it is

const TASK_COLUMNS = [
  ["pictures", (task) => task.pictures.toLocaleString("en"), "it was taught with"],
  ["accuracy", (task) => `${fixed(task.accuracy, 1)} %`, "of held-out pictures, the task known"],
  ["calibration error", (task) => `${fixed(task.calibration_error, 1)} %`, "how far its probabilities lie from how often it is right, on held-out pictures; 0 is honest"],
  ["temperature", (task) => fixed(task.temperature, 2), "what its logits are divided by, so that probabilities are honest; above 1 it was too sure of itself"],
  ["temperature, task unknown", (task) => fixed(task.open_temperature, 2), "the same for all classes together"],
  ["neurons", (task) => task.neurons.toLocaleString("en"), "of its subnetwork, those of earlier tasks that it reuses included"],
  ["time", (task) => seconds(task.seconds), "it took to learn"],
];

function taskTable(tasks) {
  return [el("div", { class: "wide card", tabindex: "0", role: "region", "aria-label": "Table of tasks" },
    el("table", { class: "grid prose", id: "tasks-table" }, el("caption", { class: "unseen" }, "What the model knows"),
      el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "word" }, "task"), el("th", { scope: "col", class: "word" }, "classes"),
        TASK_COLUMNS.map(([head, , title]) => el("th", { scope: "col", title }, head)))),
      el("tbody", {}, tasks.map((task) => el("tr", {}, el("th", { scope: "row" }, task.name),
        el("td", { class: "word classes" }, task.classes.join(", ")), TASK_COLUMNS.map(([, of]) => el("td", {}, of(task)))))))),
  el("dl", { class: "meanings" }, TASK_COLUMNS.map(([head, , meaning]) => el("div", {}, el("dt", {}, head), el("dd", {}, meaning))))];
}

// ---- what room is left

function roomPart(room) {
  const place = el("div");
  drawn(place, (width) => place.replaceChildren(roomPlot(room, width)));
  return [el("div", { class: "card" }, place, el("p", {}, room.told),
    el("p", { class: "soft" }, "A full network still learns: later tasks reuse frozen neurons, with norm layers and a head of their own."),
    numbers("Neurons in use", ["after", "neurons in use"], [["now", room.used.toLocaleString("en")],
      ...room.used_after.map((used, t) => [`${t + 1} more`, used.toLocaleString("en")])]))];
}

function roomPlot(room, width) {
  const bars = [room.used, ...room.used_after], height = 150, step = width / bars.length, floor = height - 20, top = 18;
  const tall = (n) => (n / room.neurons) * (floor - top);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Neurons in use now and after each of ${bars.length - 1} more tasks; the numbers follow.` });
  bars.forEach((used, t) => {
    const x = t * step + step * 0.1, wide = step * 0.8;
    const bar = svg("g", {}, svg("rect", { x, y: floor - tall(room.neurons), width: wide, height: tall(room.neurons), fill: "var(--cell)" }),
      svg("rect", { x, y: floor - tall(used), width: wide, height: tall(used), fill: "var(--plus)", opacity: t ? 0.55 : 1 }),
      svg("text", { x: x + wide / 2, y: floor - tall(room.neurons) - 5, "text-anchor": "middle" }, `${fixed((100 * used) / room.neurons, 0)}${step > 42 ? " %" : ""}`),
      svg("text", { class: "soft", x: x + wide / 2, y: height - 5, "text-anchor": "middle" }, t ? `+${t}` : "now"));
    bar.addEventListener("pointermove", (event) => tip.show(event, `${t ? `after ${t} more` : "now"}\n${used.toLocaleString("en")} of ${plural(room.neurons, "neuron")} in use`));
    bar.addEventListener("pointerleave", tip.hide);
    picture.append(bar);
  });
  return picture;
}

// ---- what was proved

function proofPart(verdicts) {
  const line = (held, told) => (held === null ? sentence("open", "–", told) : held ? sentence("clear", "✓", told) : sentence("wrong", "✗", told));
  return [el("p", {}, "Every task was computed again with everything its answers are computed from, and compared with the certificate of the day it was learned. "
    + "Asked by name, a task answers with the same bits for as long as it exists. Asked without, what each task brings to the choice is the same; the choice itself may differ as classes are added."),
  el("div", { class: "wide card" }, el("table", { class: "grid prose", id: "proof-table" }, el("caption", { class: "unseen" }, "What was proved of each task"),
    el("thead", {}, el("tr", {}, ["task", "asked by name", "asked without"].map((head) => el("th", { scope: "col", class: "word" }, head)))),
    el("tbody", {}, verdicts.map((v) => el("tr", {}, el("th", { scope: "row" }, v.task),
      el("td", { class: "word" }, line(v.known, v.told)), el("td", { class: "word" }, line(v.evidence, v.told_open)))))))];
}

// ---- what is in its files

function sizesPart(shown) {
  const grid = (id, caption, heads, rows) => el("div", { class: "wide card" }, el("table", { class: "grid prose", id }, el("caption", { class: "unseen" }, caption),
    el("thead", {}, el("tr", {}, heads.map((head, k) => el("th", { scope: "col", class: k < heads.length - 1 && typeof rows[0]?.[k] === "string" ? "word" : null }, head)))),
    el("tbody", {}, rows.map(([first, ...rest]) => el("tr", {}, el("th", { scope: "row" }, first),
      rest.map((cell) => el("td", { class: typeof cell === "string" ? "word" : null }, typeof cell === "number" ? cell.toLocaleString("en") : cell)))))));
  const tensors = shown.roles.reduce((sum, role) => sum + role.tensors, 0), size = shown.roles.reduce((sum, role) => sum + role.bytes, 0);
  return [el("p", {}, `${plural(tensors, "tensor")}, ${bytes(size)}, each with its role below: no picture is among them. On disk ${bytes(shown.files.reduce((sum, [, n]) => sum + n, 0))}.`),
    el("div", { class: "sides" }, el("div", {}, el("h3", {}, "Tensors"), grid("roles", "Tensors by role", ["part", "role", "tensors", "bytes"],
      shown.roles.map((role) => [role.part, role.role, role.tensors, role.bytes]))),
    el("div", {}, el("h3", {}, "Files"), grid("files", "Files", ["file", "bytes"], shown.files),
      el("h3", {}, "Made with"), factList(shown.made)))];
}
