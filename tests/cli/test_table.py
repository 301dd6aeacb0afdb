from __future__ import annotations

import csv
import io
import json

import pytest
from table_records import a_result, with_final

from snv.report import TABLES


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    for seed in (0, 1):
        result = a_result("ewc", "til", seed, with_final(*10 * [60.0 + seed]))
        (folder / f"ewc-til-seed{seed}.json").write_text(json.dumps(result.record.as_json()))
    return folder


def test_a_table_is_printed(cli, runs):
    told = cli("table", "small", runs)
    assert told.code == 0, told.err
    assert "\n| ewc | 60.50 ± 0.71 | 0.00 ± 0.00 | 50.59 ± 1.39 | +9.91 |" in told.out


def test_a_file_is_written_in_the_format_its_name_says_with_links_that_lead_somewhere(cli, runs, tmp_path):
    out = tmp_path / "paper" / "small.csv"
    out.parent.mkdir()
    assert cli("table", "small", runs, "--out", out).out == f"table: {out}\n"
    lines = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
    records = {name for line in lines for name in line["records"].split()}
    assert len(records) == 2
    assert all((out.parent / name).exists() for name in records)
    assert cli("table", "small", runs, "--format", "tex", "--out", tmp_path / "x.txt").code == 0
    assert "\\toprule" in (tmp_path / "x.txt").read_text()


def test_all_tables_are_listed(cli):
    told = cli("table", "--list")
    assert all(name in told.out for name in TABLES)


def test_a_wrong_name_is_answered_with_the_right_one(cli, runs):
    told = cli("table", "smal", runs)
    assert (told.code, "Did you mean 'small'?" in told.err) == (2, True)
    assert cli("table").code == 2
