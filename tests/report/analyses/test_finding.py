from __future__ import annotations

import dataclasses
import json

import pytest

from invented import a_result, kept
from snv.errors import UserError
from snv.report.analyses.exact import Enumeration, Exact
from snv.report.analyses.finding import file_of, load_finding
from snv.runs import read_results

FOUND = Exact("sgd", "til", 0, 1, 192, 39, (Enumeration(4, 16, 16, 0.5, "done"),), 0.03, 47.0)


def test_what_is_kept_beside_a_run_or_a_record_is_read_back(tmp_path):
    for run in (tmp_path / "run", tmp_path / "kept.json"):
        assert load_finding(Exact, run) is None
        assert FOUND.save(run) == file_of(run, "exact")
        assert load_finding(Exact, run) == FOUND


def test_a_finding_beside_a_record_is_not_taken_for_a_record(tmp_path):
    result = kept(a_result(tmp_path))
    FOUND.save(result.path)
    assert [found.path for found in read_results([tmp_path])] == [result.path]


def test_what_is_no_number_is_kept_as_none(tmp_path):
    path = dataclasses.replace(FOUND, log10_years=float("inf")).save(tmp_path)
    assert json.loads(path.read_text())["log10_years"] is None


@pytest.mark.parametrize("text", ["{", "[]", '{"analysis": "exact", "method": "sgd"}'])
def test_a_damaged_file_is_named(tmp_path, text):
    FOUND.save(tmp_path).write_text(text)
    with pytest.raises(UserError, match=r"exact\.json is damaged or of another version"):
        load_finding(Exact, tmp_path)
