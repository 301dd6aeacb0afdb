"""The method of CONTRIBUTING.md, in a file of one's own, runs by its name, also in another process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import snv
from snv.cli.side_by_side import run_all
from snv.config import load_config
from snv.errors import UserError
from snv.learners import LEARNERS, SGD, method_named, register
from snv.learners.own import require_method
from snv.runs import evaluate_run, load_record, run

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
SMALL = ["data.tasks=2", "data.classes=4", "data.per_class=20", "train.epochs=1", "network.width=4", "threads=1"]


@pytest.fixture
def mine(tmp_path) -> Path:
    (tmp_path / "mine.py").write_text(re.findall(r"```python\n(.+?)```", PAGE, flags=re.DOTALL)[0], encoding="utf-8")
    return tmp_path / "mine.py"


def test_it_runs_by_its_name_with_its_settings_and_is_measured_again(mine, tmp_path, cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = cli("run", "--method", "mine.py:L2", "--out", "run", *SMALL, "learner.strength=2")
    assert told.code == 0, told.err
    record = load_record(tmp_path / "run")
    assert (record.config["method"], record.config["learner"]) == (f"{mine}:L2", {"strength": 2.0})
    assert "│ mine.py:L2 · TIL · seed 0" in told.out
    assert cli("evaluate", "run").code == 2
    assert cli("evaluate", "run", "--own-method", "mine.py:L2").code == 0
    assert cli("value", "run", "--task", 1, "--own-method", "mine.py:L2", "--set", "draws=2").code == 0


def test_without_an_out_its_directory_has_the_name_of_the_class(mine, tmp_path, cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli("run", "--method", "mine.py:L2", *SMALL).code == 0
    assert (tmp_path / "runs" / "digits-til-2" / "L2-seed0" / "record.json").exists()


def test_other_processes_find_it_by_its_name(mine, tmp_path):
    config = load_config(None, [*SMALL, f"method={mine}:L2"])
    (record,) = run_all([(config, tmp_path / "run")])
    assert record.status == "finished"
    code = f"from snv.learners import method_named; print(method_named({f'{mine}:L2'!r}).card.title)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert told.stdout.strip() == "L2 (weights pulled back)"


def test_a_file_that_changed_is_another_method(mine, tmp_path):
    config = load_config(None, [*SMALL, f"method={mine}:L2"])
    run(config, tmp_path / "run")
    mine.write_text(mine.read_text().replace("return super().loss(batch)", "return 2 * super().loss(batch)"))
    for again in (
        lambda: run(config, tmp_path / "run"),
        lambda: evaluate_run(tmp_path / "run", own_method=f"{mine}:L2"),
    ):
        with pytest.raises(UserError, match="began with another method file"):
            again()


@pytest.fixture
def catalogue():
    """The methods there are, and again afterwards."""
    before = dict(LEARNERS)
    yield LEARNERS
    LEARNERS.clear()
    LEARNERS.update(before)


def test_a_class_is_registered_in_one_line_and_then_runs_by_that_name(tmp_path, catalogue):
    class Mine(SGD):
        """Plain training under another name."""

    register("mine", Mine)
    assert run(load_config(None, [*SMALL, "method=mine"]), tmp_path / "a").status == "finished"
    register("mine", type("Mine", (Mine,), {}))  # as a notebook does that runs its cell again
    with pytest.raises(UserError, match="'ewc' is a method of snv"):
        register("ewc", Mine)
    with pytest.raises(UserError, match=r"subclass of snv\.Learner with a card; got <class 'int'>"):
        require_method(int)


FILES = {
    "no class of that name": ("L3", lambda text: text, "no method in .* called 'L3'. Did you mean 'L2'"),
    "no method at all": ("L2", lambda _: "x = 1", "holds no method: a subclass of snv.Learner with a card"),
    "only an import": ("SGD", lambda _: "from snv.learners import SGD", "holds no method"),
    "a mistake in it": ("L2", lambda text: text + "\n1 / 0\n", "cannot be executed .ZeroDivisionError"),
    "no Python": ("L2", lambda _: "def", "cannot be executed .SyntaxError"),
}


@pytest.mark.parametrize(("kind", "change", "told"), FILES.values(), ids=FILES)
def test_a_file_without_the_method_is_refused_in_one_sentence(kind, change, told, mine):
    mine.write_text(change(mine.read_text()))
    with pytest.raises(UserError, match=told):
        load_config(None, [f"method={mine}:{kind}"])


def test_a_file_that_is_missing_and_a_class_that_is_not_named_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"nowhere\.py, cannot be read"):
        method_named(f"{tmp_path}/nowhere.py:Mine")
    with pytest.raises(UserError, match=r"such as mine\.py:Mine"):
        method_named("mine.py")


def test_the_door_of_the_library_is_enough(mine):
    assert issubclass(method_named(f"{mine}:L2"), snv.Learner)
