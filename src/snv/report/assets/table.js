// The table of all rows: sorted by any column, filtered by what a row is about.

function resultTable(shown) {
  const dataOf = ({ stream }) => {
    const { data: name, apart } = shown.streams[stream];
    return apart ? `${name} (${apart})` : name;
  };
  const words = [
    { name: "method", of: (row) => row.label },
    { name: "scenario", of: (row) => row.scenario.toUpperCase() },
    { name: "data", of: dataOf },
    { name: "tasks", of: (row) => shown.streams[row.stream].tasks },
  ].filter(({ name, of }) => !["data", "tasks"].includes(name) || new Set(shown.rows.map(of)).size > 1);
  const filters = { text: "" };
  let sorted = null;

  const body = el("tbody");
  const heads = [...words.map(({ name }) => ({ name, kind: "words" })), ...shown.columns].map((column, i) => {
    const head = el("th", { scope: "col", class: column.kind === "words" ? "word" : null, title: column.meaning });
    if (column.kind === "runs") head.append(column.name);
    else head.append(el("button", { type: "button", on: { click: () => sort(i) } }, column.name));
    return head;
  });
  const lines = shown.rows.map((row) => ({ row, line: resultLine(row, words, shown) }));
  body.append(...lines.map(({ line }) => line));

  function keyOf(row, i) {
    if (i < words.length) return words[i].of(row);
    return row.cells[i - words.length].value;
  }

  function sort(i) {
    const better = i < words.length ? "" : shown.columns[i - words.length].better;
    const first = better === "higher" ? "descending" : "ascending";
    const turned = sorted?.column === i && sorted.way === first;
    sorted = { column: i, way: turned ? (first === "ascending" ? "descending" : "ascending") : first };
    const sign = sorted.way === "ascending" ? 1 : -1;
    const order = lines.map((entry) => [keyOf(entry.row, i), entry]);
    order.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null); // what has no number comes last, either way
      return sign * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
    });
    body.append(...order.map(([, { line }]) => line));
    heads.forEach((head, k) => (k === i ? head.setAttribute("aria-sort", sorted.way) : head.removeAttribute("aria-sort")));
    for (const { line } of lines) line.classList.remove("apart");
    say(`Sorted by ${heads[i].textContent}, ${sorted.way}.`);
  }

  const count = el("span", { class: "soft", id: "shown" });
  function filter() {
    let n = 0;
    for (const { row, line } of lines) {
      const kept = row.label.toLowerCase().includes(filters.text)
        && Object.entries(filters).every(([name, value]) => name === "text" || !value || facet[name](row) === value);
      line.hidden = !kept;
      n += kept;
    }
    count.textContent = n === lines.length ? plural(n, "row") : `${n} of ${plural(lines.length, "row")}`;
    say(count.textContent);
  }

  const facet = {
    scenario: (row) => row.scenario.toUpperCase(),
    data: dataOf,
    tasks: (row) => String(shown.streams[row.stream].tasks),
    images: (row) => row.group,
  };
  const choices = Object.entries(facet).map(([name, of]) => {
    const values = [...new Set(shown.rows.map(of))];
    if (values.length < 2) return null;
    return list(name, [["", "all"], ...values.map((value) => [value, value])], "", (value) => {
      filters[name] = value;
      filter();
    }, `filter-${name}`);
  });
  const search = el("input", { type: "search", id: "filter-method", size: 14, placeholder: "all", on: {
    input: () => { filters.text = search.value.trim().toLowerCase(); filter(); } } });

  const table = el("table", { class: "grid", id: "results" },
    el("caption", { class: "unseen" }, "All methods: numbers are means over seeds, and standard deviations"),
    el("thead", {}, el("tr", {}, heads)), body);
  count.textContent = plural(lines.length, "row");
  return [
    el("div", { class: "controls below" }, el("label", {}, "method", search), choices, count),
    el("div", { class: "wide card", tabindex: "0", role: "region", "aria-label": "Table of results" }, table),
    el("p", { class: "soft" }, "★ best of its scenario among methods that keep as much (no image, images, all images)."),
    el("dl", { class: "meanings" }, shown.columns.map(({ name, meaning }) => el("div", {}, el("dt", {}, name), el("dd", {}, meaning)))),
  ];
}

function resultLine(row, words, shown) {
  const first = shown.panels.some((panel) => panel.rows[0] === shown.rows.indexOf(row)) && shown.rows[0] !== row;
  const tags = [row.borrowed ? ["from CIL runs", "read off runs in CIL, with the task known"] : null,
    row.dashed ? ["keeps images", "stores images of earlier tasks"] : null].filter(Boolean);
  return el("tr", { class: first ? "apart" : null },
    el("th", { scope: "row" }, el("span", { class: "named" }, row.label), tags.map(([text, title]) => el("span", { class: "tag", title }, text))),
    words.slice(1).map(({ of }) => el("td", { class: "word" }, String(of(row)))),
    row.cells.map((cell, i) => {
      if (shown.columns[i].kind === "runs") return el("td", {}, seedLinks(cell));
      return el("td", { class: cell.value === null ? "none" : null, title: cell.note || null },
        el("span", { class: cell.best ? "top" : null }, cell.text), cell.best ? el("span", { class: "unseen" }, " (best)") : null);
    }));
}

const seedLinks = (cell) => cell.runs.map((run, k) =>
  [k ? ", " : "", el("a", { href: `#run-${run}`, on: { click: () => openRun(run) } }, String(cell.seeds[k]))]);
