"""A table as Markdown, LaTeX, CSV and HTML: one function each, from the table and the folder its links start from."""

from __future__ import annotations

import csv
import html
import io
import os
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from snv.report.cells import Cell, Column, Row, Table, cell_text
from snv.text import printable

Link = Callable[[Path], str]
"""Where a record is, as written in a link."""


def link_from(folder: Path) -> Link:
    """Links that lead from a file in ``folder``."""
    return lambda run: quote(os.fsencode(Path(os.path.relpath(run, folder)).as_posix()), safe="/+,@~=")


def printed(table: Table) -> Table:
    """The table with nothing in its words that starts a line or cannot be seen."""
    rows = tuple(
        replace(row, label=printable(row.label), group=printable(row.group), cells=tuple(map(_printed, row.cells)))
        for row in table.rows
    )
    columns = tuple(replace(c, name=printable(c.name), group=printable(c.group)) for c in table.columns)
    title, label, notes = printable(table.title), printable(table.label), tuple(map(printable, table.notes))
    return replace(table, title=title, label=label, notes=notes, columns=columns, rows=rows)


def _printed(cell: Cell) -> Cell:
    return replace(cell, text=printable(cell.text), note=printable(cell.note))


# ---- Markdown


def markdown(table: Table, folder: Path = Path()) -> str:
    """A pipe table with one line of headings; seeds are links to their records."""
    table, link = printed(table), link_from(folder)
    grouped = len(table.groups()) > 1
    lines = [_pipes([_plain(table.label), *(_plain(column.title) for column in table.columns)])]
    lines.append("|" + "---|" * (len(table.columns) + 1))
    for name, rows in table.groups():
        if grouped and name:
            lines.append(_pipes([f"*{_plain(name)}*", *("" for _ in table.columns)]))
        lines += [_pipes([_plain(row.label), *_markdown_cells(row, table, link)]) for row in rows]
    return "\n".join([*lines, *(f"\n{_plain(note)}" for note in table.notes)]) + "\n"


TAG = re.compile("<(?=[A-Za-z/!?])")
"""What begins HTML; a comparison does not."""


def _plain(text: str) -> str:
    """Words in which Markdown finds neither HTML nor a link."""
    return TAG.sub("&lt;", text).replace("](", "]\\(")


def _pipes(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _markdown_cells(row: Row, table: Table, link: Link) -> list[str]:
    return [_markdown_cell(cell, column, link) for cell, column in zip(row.cells, table.columns, strict=True)]


def _markdown_cell(cell: Cell, column: Column, link: Link) -> str:
    if column.kind == "runs" and cell.runs:
        return ", ".join(f"[{seed}]({link(run)})" for seed, run in zip(cell.seeds, cell.runs, strict=True))
    text = _plain(cell_text(cell, column)).replace("*", "\\*")
    return f"**{text}**" if cell.best else text


# ---- LaTeX

MATHS = {
    "±": "\\pm",
    "−": "-",
    "·": "\\cdot",
    "×": "\\times",
    "≤": "\\leq",
    "∅": "\\emptyset",
    "Σ": "\\Sigma",
    "α": "\\alpha",
    "β": "\\beta",
    "γ": "\\gamma",
    "η": "\\eta",
    "λ": "\\lambda",
    "ξ": "\\xi",
    "τ": "\\tau",
    "φ": "\\varphi",
    "Ω": "\\Omega",
    "Δ": "\\Delta",
    "¹": "^{1}",
    "²": "^{2}",
    "*": "^{*}",
}
LATEX = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "–": "--",
    "…": "\\ldots{}",
    **{c: f"${words}$" for c, words in MATHS.items()},
}
"""What LaTeX needs other words for."""
PAGE = 45
"""Rows that fit on one."""


def latex(table: Table, folder: Path = Path()) -> str:
    """A booktabs table, or a longtable if it is longer than a page. It has no links: records are named in comments."""
    table, link = printed(table), link_from(folder)
    runs = sorted({link(run) for row in table.rows for cell in row.cells for run in cell.runs})
    caption, form = f"\\caption{{{_latex(table.title)}}}", f"{{l{'r' * len(table.columns)}}}"
    rows = ["\\toprule", *_latex_headings(table), *_latex_rows(table), "\\bottomrule"]
    notes = [f"\n{_latex(note)}" for note in table.notes]
    if len(table.rows) > PAGE:
        inside = [f"\\begin{{longtable}}{form}", caption + " \\\\", *rows, "\\end{longtable}", *notes]
    else:
        tabular = [f"\\begin{{tabular}}{form}", *rows, "\\end{tabular}"]
        inside = ["\\begin{table}", "\\centering", caption, *tabular, *notes, "\\end{table}"]
    return "\n".join([*(f"% {run}" for run in runs), *inside]) + "\n"


def _latex_rows(table: Table) -> list[str]:
    """Groups of rows between rules, each with its name if there are several."""
    lines = []
    for name, rows in table.groups():
        lines.append("\\midrule")
        if name and len(table.groups()) > 1:
            lines.append(f"\\multicolumn{{{len(table.columns) + 1}}}{{l}}{{\\emph{{{_latex(name)}}}}} \\\\")
        lines += [" & ".join([_latex(row.label), *_latex_cells(row, table)]) + " \\\\" for row in rows]
    return lines


def _latex(text: str) -> str:
    return "".join(LATEX.get(c, c) for c in text)


def _latex_headings(table: Table) -> list[str]:
    """The line of headings and, if some stand above several columns, theirs with the rules below."""
    names = " & ".join(_latex(name) for name in (table.label, *(column.name for column in table.columns))) + " \\\\"
    groups = _spans(table)
    if all(not name for name, _ in groups):
        return [names]
    cells, rules, at = [""], [], 2
    for name, n in groups:
        cells.append(f"\\multicolumn{{{n}}}{{c}}{{{_latex(name)}}}")
        rules += [f"\\cmidrule(lr){{{at}-{at + n - 1}}}"] if name else []
        at += n
    return [" & ".join(cells) + " \\\\", "".join(rules), names]


def _spans(table: Table) -> list[tuple[str, int]]:
    """Headings above columns, and over how many columns each reaches."""
    return [(name, len(list(columns))) for name, columns in groupby(table.columns, key=lambda column: column.group)]


def _latex_cells(row: Row, table: Table) -> list[str]:
    texts = [_latex(cell_text(cell, column)) for cell, column in zip(row.cells, table.columns, strict=True)]
    return [f"\\textbf{{{t}}}" if cell.best else t for t, cell in zip(texts, row.cells, strict=True)]


# ---- CSV

FORMULA, NUMBER = "=+-@", re.compile(r"[-+][\d.,]+(e[-+]?\d+)?")


def tidy_csv(table: Table, folder: Path = Path()) -> str:
    """One line per cell, numbers in full: what a spreadsheet or a data frame wants; no words are a formula there."""
    table, link = printed(table), link_from(folder)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            "group",
            _no_formula(table.label),
            "column",
            "value",
            "deviation",
            "low",
            "high",
            "p",
            "seeds",
            "records",
            "text",
            "note",
        ]
    )
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            seeds, runs = " ".join(map(str, cell.seeds)), " ".join(map(link, cell.runs))
            numbers = [cell.value, cell.deviation, *(cell.interval or (None, None)), cell.p]
            words = [_no_formula(word) for word in (row.group, row.label, column.title)]
            after = [_no_formula(word) for word in (seeds, runs, cell.text, cell.note)]
            writer.writerow([*words, *numbers, *after])
    return out.getvalue()


def _no_formula(word: str) -> str:
    """A word that a spreadsheet does not compute."""
    return f"'{word}" if word and word[0] in FORMULA and not NUMBER.fullmatch(word) else word


# ---- HTML


def html_table(table: Table, folder: Path = Path()) -> str:
    """One <table> without style or script; every number leads to its records."""
    table, link = printed(table), link_from(folder)
    lines = ['<table class="snv-table">', f"<caption>{html.escape(table.title)}</caption>", "<thead>"]
    if any(name for name, _ in _spans(table)):
        above = "".join(f'<th colspan="{n}" scope="colgroup">{html.escape(name)}</th>' for name, n in _spans(table))
        lines.append(f"<tr><td></td>{above}</tr>")
    names = "".join(f'<th scope="col">{html.escape(column.name)}</th>' for column in table.columns)
    lines += [f'<tr><th scope="col">{html.escape(table.label)}</th>{names}</tr>', "</thead>"]
    for name, rows in table.groups():
        lines.append("<tbody>")
        if name and len(table.groups()) > 1:
            lines.append(f'<tr><th colspan="{len(table.columns) + 1}" scope="rowgroup">{html.escape(name)}</th></tr>')
        lines += [_html_row(row, table, link) for row in rows] + ["</tbody>"]
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in table.notes)
    return "\n".join([*lines, "</table>", *([f'<div class="snv-notes">{notes}</div>'] if notes else [])]) + "\n"


def _html_row(row: Row, table: Table, link: Link) -> str:
    cells = "".join(_html_cell(cell, column, link) for cell, column in zip(row.cells, table.columns, strict=True))
    return f'<tr><th scope="row">{html.escape(row.label)}</th>{cells}</tr>'


def _html_cell(cell: Cell, column: Column, link: Link) -> str:
    """The number, and the seeds it was made of as links behind it."""
    seeds = " ".join(
        f'<a href="{html.escape(link(run), quote=True)}">{seed}</a>'
        for seed, run in zip(cell.seeds, cell.runs, strict=True)
    )
    text = html.escape(cell_text(cell, column))
    if column.kind == "runs":
        return f"<td>{seeds or text}</td>"
    inside = f"<strong>{text}</strong>" if cell.best else text
    title = f' title="{html.escape(cell.note, quote=True)}"' if cell.note else ""
    return f"<td{title}>{inside}{f' <small>{seeds}</small>' if seeds else ''}</td>"


FORMATS: dict[str, Callable[[Table, Path], str]] = {
    "md": markdown,
    "tex": latex,
    "csv": tidy_csv,
    "html": html_table,
}
