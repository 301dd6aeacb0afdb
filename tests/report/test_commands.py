"""The command a page prints is the run: read back, it gives the same settings."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from snv.config import RunConfig, build, load_config, without_retired
from snv.errors import UserError
from snv.report import write_report
from snv.report.commands import command, flat
from snv.runs import read_results

RESULTS = Path(__file__).parents[2] / "results"


def read_back(text: str) -> RunConfig:
    program, verb, *overrides = shlex.split(text)
    assert (program, verb) == ("snv", "run")
    return load_config(None, overrides)


def test_the_command_of_every_kept_record_gives_its_settings_again():
    repeatable = 0
    for result in read_results([RESULTS]):
        try:
            text = command(result.record.config, result.path)
        except UserError as error:
            assert "older version" in str(error)
            continue
        again = build(RunConfig, without_retired(result.record.config, result.path))
        assert read_back(text).as_dict() == again.as_dict()
        repeatable += 1
    assert repeatable > 50


@pytest.mark.parametrize(
    "name", ["true", "5", "none", "a b", "folder:/a 'b' \"c\"", "$(touch x)", "<script>", "x=1", "[1]", "", "a\\n"]
)
def test_a_name_that_looks_like_something_else_comes_back_as_it_was(name):
    stored = RunConfig("sgd").as_dict()
    stored["data"]["name"] = name
    assert read_back(command(stored, Path("x"))).data.name == name


def test_what_is_the_default_is_not_said_and_what_is_not_is():
    text = command(RunConfig("snv", learner={"capacity": 0.5}).as_dict(), Path("x"))
    assert text == "snv run method=snv scenario=til seed=0 data.name=digits data.tasks=5 learner.capacity=0.5"


def test_parts_of_unequal_tasks_and_settings_without_a_value_are_said():
    config = build(RunConfig, {"data": {"tasks": [4, 3, 3]}, "train": {"lr": 0.5, "clip_norm": None}})
    assert read_back(command(config.as_dict(), Path("x"))) == config


def test_a_method_that_is_not_known_is_a_sentence():
    with pytest.raises(UserError, match="method"):
        command(RunConfig().as_dict() | {"method": "<b>"}, Path("x"))


def test_settings_are_named_with_dots():
    assert dict(flat({"a": 1, "b": {"c": 2, "d": {"e": 3}}})) == {"a": 1, "b.c": 2, "b.d.e": 3}


def test_a_record_that_names_a_file_of_code_does_not_have_it_executed(tmp_path):
    trap = tmp_path / "trap.py"
    trap.write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'executed')!r}).touch()")
    stored = json.loads((RESULTS / "small-cifar" / "sgd-til-seed0.json").read_text())
    stored["config"]["method"] = f"{trap}:Trap"
    (tmp_path / "record.json").write_text(json.dumps(stored))
    results = read_results([tmp_path / "record.json"])
    with pytest.raises(UserError, match="not executed to make a page"):
        command(results[0].record.config, tmp_path)
    write_report(results, tmp_path / "report")
    assert not (tmp_path / "executed").exists()
