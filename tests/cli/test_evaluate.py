"""`snv evaluate`: is a record what its checkpoints give?"""

from __future__ import annotations

import json

from quick_run import QUICK
from snv.files import read_json


def test_it_says_that_a_run_is_what_its_record_says_and_fails_if_it_is_not(cli, tmp_path):
    out = tmp_path / "run"
    cli("run", *QUICK, "scenario=cil", "--out", out)
    told = cli("evaluate", out, "--all")
    assert (told.code, told.out.splitlines()[-1]) == (0, "the same, to the last bit")
    assert "after task 1" in told.out and "measured now, task known" in told.out
    machine = json.loads(cli("evaluate", out, "--task", 2, "--json").out)
    assert machine["same"] is True
    assert machine["rows"][0]["measured"] == json.loads((out / "record.json").read_text())["accuracy"][1][:3]
    record = read_json(out / "record.json")
    record["accuracy"][4][1] += 0.5
    (out / "record.json").write_text(json.dumps(record))
    told = cli("evaluate", out)
    assert told.code == 1
    assert "largest difference: 0.5 points" in told.out
    assert told.out.splitlines()[-1] == "not the same: the record says otherwise"


def test_what_is_no_run_is_refused(cli, tmp_path):
    told = cli("evaluate", tmp_path)
    assert (told.code, told.err.count("\n")) == (2, 1)
    assert "is not a run directory" in told.err
