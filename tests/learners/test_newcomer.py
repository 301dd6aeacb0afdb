"""A method added as CONTRIBUTING.md says, in one file and one line, is listed, shown, run and tested like any other."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from pathlib import Path

import pytest
import test_learner_contract as contract

from snv.cli import demo, lists
from snv.config import load_config
from snv.learners import LEARNERS, SCENARIOS, method_table
from snv.runs import run

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
CHECKS = {name: check for name, check in vars(contract).items() if name.startswith("test_")}


@pytest.fixture(autouse=True)
def newcomer(tmp_path, monkeypatch) -> None:
    """The file of the page under the name it gives, and the line in the catalogue."""
    name, code = "snv.learners.l2", re.findall(r"```python\n(.+?)```", PAGE, flags=re.DOTALL)[0]
    (tmp_path / "l2.py").write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, tmp_path / "l2.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    monkeypatch.setitem(LEARNERS, "l2", module.L2)


def test_it_is_listed():
    row = {row["name"]: row for row in lists.methods()}["l2"]
    assert (row["memory"], row["settings"]) == ("1 number per weight", {"strength": 0.1})


def test_the_demo_shows_it(tmp_path):
    assert {config.scenario for config, _ in demo.jobs(tmp_path, 0) if config.method == "l2"} == set(SCENARIOS)


def test_it_has_a_row_in_the_table():
    assert "| `l2` | [`learners/l2.py`](src/snv/learners/l2.py) | an example | TIL, CIL |" in method_table(LEARNERS)


def test_it_runs_with_its_settings(tmp_path):
    small = ["data.tasks=2", "data.classes=4", "data.per_class=20", "train.epochs=1", "network.width=4", "threads=1"]
    record = run(load_config(None, [*small, "method=l2", "learner.strength=1"]), tmp_path / "run")
    assert (record.status, record.config["learner"]) == ("finished", {"strength": 1.0})


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("check", CHECKS)
def test_it_keeps_the_contract(check, scenario, tmp_path):
    more = {"tmp_path": tmp_path} if "tmp_path" in inspect.signature(CHECKS[check]).parameters else {}
    CHECKS[check]("l2", scenario, **more)
