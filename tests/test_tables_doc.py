"""The tables of README and docs are what the records in results/ give."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import tables

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", tables.PAGES)
def test_the_tables_of_a_page_are_up_to_date(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert tables.MARK.search(text)
    assert tables.refreshed(text, (ROOT / name).parent) == text, "run make tables"


def test_a_stale_table_is_made_anew_and_what_stands_around_it_stays():
    text = "before\n<!-- snv table small results/small-cifar -->\nstale\n<!-- end of table -->\nafter"
    made = tables.refreshed(text, ROOT)
    assert re.fullmatch(r"before\n<!-- .+? -->\n\| method .+\n<!-- end of table -->\nafter", made, flags=re.DOTALL)
    assert tables.refreshed(made, ROOT) == made


def test_a_record_counts_once_git_knows_it(tmp_path, monkeypatch):
    assert {path.parent for path in tables.records("results/small-cifar")} == {ROOT / "results/small-cifar"}
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    assert tables.records("results") == []
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "a.json").write_text("{}")
    assert tables.records("results") == [tmp_path / "results" / "a.json"], "no git here, so all count"


def test_the_python_of_the_page_of_tables_runs(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.+?)```", page, flags=re.DOTALL)
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert "Printed(value=54.7, deviation=0.42)" in capsys.readouterr().out
    assert "\\toprule" in (tmp_path / "cil.tex").read_text()
