from __future__ import annotations

import csv
import dataclasses
import io
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hostile import NAMES
from snv.report.cells import Cell, Column, Row, Table
from snv.report.formats import FORMATS, html_table, latex, markdown, tidy_csv

RUNS = (Path("results/a-seed0.json"), Path("results/a-seed1.json"))
TABLE = Table(
    "some",
    "Accuracy & more, 10 % <each>",
    (Column("ACC", "TIL"), Column("seeds", "TIL", kind="runs"), Column("ACC", "CIL", better="higher")),
    (
        Row("der++", (Cell(50.126, 1.5, (0, 1), RUNS, p=0.01), Cell(seeds=(0, 1), runs=RUNS), Cell(3.0)), "images"),
        Row("a_b|c", (Cell(text="not yet run"), Cell(text="–"), Cell(7.0, best=True, note='say "so"')), "none"),
    ),
    notes=("c < 1 & α = 0.5",),
)


def test_markdown_has_a_row_per_row_and_seeds_that_lead_to_their_records():
    assert markdown(TABLE, Path("docs")).splitlines()[:6] == [
        "| method | ACC, TIL | seeds, TIL | ACC, CIL |",
        "|---|---|---|---|",
        "| *images* |  |  |  |",
        "| der++ | 50.13 ± 1.50\\* | [0](../results/a-seed0.json), [1](../results/a-seed1.json) | 3.00 |",
        "| *none* |  |  |  |",
        "| a_b\\|c | not yet run | – | **7.00** |",
    ]


def test_csv_has_every_number_in_full_and_reads_back():
    lines = list(csv.DictReader(io.StringIO(tidy_csv(TABLE, Path()))))
    assert len(lines) == 6
    assert (lines[0]["value"], lines[0]["deviation"], lines[0]["p"], lines[0]["seeds"]) == (
        "50.126",
        "1.5",
        "0.01",
        "0 1",
    )
    assert lines[0]["records"].split() == [run.as_posix() for run in RUNS]
    assert lines[3] | {"text": "not yet run", "value": ""} == lines[3]


def test_latex_is_balanced_escaped_and_uses_booktabs():
    text = latex(TABLE, Path())
    assert text.count("\\begin{") == text.count("\\end{")
    body = [line for line in text.splitlines() if line.endswith("\\\\")]
    widths = [line.count("&") - line.count("\\&") for line in body if "multicolumn" not in line]
    assert widths == [3, 3, 3]
    assert "a\\_b|c" in text
    assert "10 \\% <each>" in text
    assert "\\multicolumn{2}{c}{TIL} & \\multicolumn{1}{c}{CIL} \\\\\n\\cmidrule(lr){2-3}\\cmidrule(lr){4-4}" in text
    assert "\\textbf{7.00}" in text
    assert all(rule in text for rule in ("\\toprule", "\\midrule", "\\bottomrule"))
    assert text.isascii(), [c for c in text if not c.isascii()]


def test_a_table_longer_than_a_page_breaks():
    long = dataclasses.replace(TABLE, rows=TABLE.rows * 30)
    text = latex(long, Path())
    assert text.count("\\begin{longtable}{lrrr}") == text.count("\\end{longtable}") == 1
    assert "tabular" not in text


class Reader(HTMLParser):
    """Checks that tags are closed in order; collects links and rows."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.widths: list[int] = []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        given = dict(attrs)
        if tag == "tr":
            self.widths.append(0)
        if tag in ("td", "th"):
            self.widths[-1] += int(given.get("colspan", 1))
        if tag == "a":
            self.links.append(given["href"])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_is_well_formed_and_every_number_leads_to_its_records():
    reader = Reader()
    reader.feed(html_table(TABLE, Path("page")))
    assert reader.open == []
    assert set(reader.widths) == {4}
    assert reader.links == 2 * [f"../{run.as_posix()}" for run in RUNS]
    assert "<strong>7.00</strong>" in html_table(TABLE)
    assert 'title="say &quot;so&quot;"' in html_table(TABLE)
    assert "c &lt; 1 &amp; α" in html_table(TABLE)


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
def test_every_format_shows_every_label_and_what_is_not_there(write):
    text = write(TABLE, Path()).replace("\\", "")
    assert all(word in text for word in ("der++", "a_b|c", "not yet run", "images"))


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_does_nothing_in_any_format(name):
    """Neither as the label of a row, nor as a note, nor as the file it leads to."""
    runs = (Path(name.replace("\0", "")[:200]),)
    cells = (Cell(text=name, note=name), Cell(seeds=(0,), runs=runs), Cell(1.0))
    table = Table(name, name, TABLE.columns, (Row(name, cells, name), *TABLE.rows), label=name, notes=(name,))
    plain = markdown(TABLE).count("\n")
    text = markdown(table)
    assert text.count("\n") == plain + 2, "a row more, and the group of its own"
    assert "<script" not in text and "\x1b" not in text
    assert "<script" not in html_table(table)
    assert "\\input{" not in latex(table) and "\x1b" not in latex(table)
    rows = list(csv.reader(io.StringIO(tidy_csv(table))))
    assert all(cell[:1] not in ("=", "@") for row in rows for cell in row)


def test_a_file_called_like_a_script_is_a_link_to_a_file():
    runs = (Path("javascript:alert(1).json"), Path("a) [x](http://evil"))
    table = Table("t", "t", (Column("s", kind="runs"),), (Row("r", (Cell(seeds=(0, 1), runs=runs),)),))
    assert 'href="javascript%3Aalert%281%29.json"' in html_table(table)
    assert "(javascript%3Aalert%281%29.json)" in markdown(table)
    assert "](http" not in markdown(table)
