// Every run with the command, the settings and the machine behind its numbers; filled when it is first opened.

function runDetails(run, i, shown) {
  const box = el("details", { class: "run", id: `run-${i}` }, el("summary", {},
    `${run.method} · ${run.scenario.toUpperCase()} · seed ${run.seed} · ${shown.streams[run.stream].title} · ${run.status}`,
    el("span", { class: "place" }, run.place)));
  const fillIn = () => {
    if (box.childElementCount === 1) box.append(...runParts(run));
  };
  box.addEventListener("toggle", fillIn);
  addEventListener("beforeprint", fillIn);
  return box;
}

function runParts(run) {
  return [
    el("h3", {}, "Command"),
    run.command === null ? el("p", {}, `This version cannot repeat it. ${run.why_not}`) : commandLine(run.command),
    run.typed ? [el("p", { class: "soft" }, "As it was started:"), el("pre", {}, run.typed)] : null,
    el("h3", {}, "Numbers"), factList(run.facts),
    el("h3", {}, "Config"), factList(run.config),
    el("h3", {}, "Environment"),
    run.environment === null ? el("p", { class: "soft" }, "Not kept with this record.") : factList(run.environment),
  ].flat().filter(Boolean);
}

function commandLine(text) {
  const copy = el("button", { type: "button", on: { click: async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied.");
      copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(line);
      say("Selected; copy it with your keyboard.");
    }
  } } }, "Copy");
  const line = el("pre", { class: "command" }, text);
  return el("div", {}, line, el("div", { class: "controls" }, copy));
}

const factList = (facts, long = false) =>
  el("dl", { class: long ? "facts long" : "facts" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));

/** Open a run's details, from a link to them or the address. */
function openRun(i) {
  const box = byId(`run-${i}`);
  if (!box) return;
  box.open = true;
  box.querySelector("summary").focus();
}
