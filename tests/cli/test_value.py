"""`snv value`: neurons of a recorded run, from the command line."""

from __future__ import annotations

import json

import pytest
from crews import crew_here

from snv.shapley import Workers


@pytest.fixture
def run(cli, tmp_path):
    out = tmp_path / "run"
    told = cli("run", "data.tasks=2", "data.classes=4", "--epochs", 4, "network.width=8", "--out", out)
    assert told.code == 0, told.err
    return out


@pytest.mark.parametrize("method", ["gradient", "montecarlo", "in-run"])
def test_a_run_is_valued_and_the_result_saved(cli, run, method):
    limit = ["--set", "permutations=2"] if method == "montecarlo" else []
    told = cli("value", run, "--task", 2, "--method", method, *limit, "--json")
    assert told.code == 0, told.err
    found = json.loads(told.out)
    assert found["method"] == method
    assert found["names"][0].startswith("body.")
    assert len(found["values"]) == found["neurons"] == len(found["names"])
    assert len(found["top_k"]) == found["k"]
    from snv.shapley.result import Valuation

    assert Valuation.load(found["file"]).values.tolist() == pytest.approx(found["values"])


def test_people_see_the_bill_first_and_the_certificate_last(cli, run):
    told = cli("value", run, "--task", 1, "--plots").out
    assert told.index("forward passes") < told.index("most valuable neurons") < told.index("certificate")
    assert (run / "values" / "task-001-gradient" / "layers.png").exists()


def test_a_valuation_can_be_continued(cli, run):
    cli("value", run, "--task", 1, "--set", "draws=8")
    continued = json.loads(cli("value", run, "--task", 1, "--set", "draws=32", "--continue", "--json").out)
    whole = json.loads(cli("value", run, "--task", 1, "--set", "draws=32", "--json").out)
    assert continued["values"] == whole["values"]


def test_in_run_values_repeat_the_training_bit_for_bit(cli, run):
    first = json.loads(cli("value", run, "--task", 2, "--method", "in-run", "--json").out)
    second = json.loads(cli("value", run, "--task", 2, "--method", "in-run", "--json").out)
    gradient = json.loads(cli("value", run, "--task", 2, "--json").out)
    assert first["values"] == second["values"]
    assert first["v_all"] == pytest.approx(gradient["v_all"], rel=1e-5), "the network trained again is the run's own"
    assert "Spearman with `gradient`" in first["certificate"]


@pytest.mark.parametrize("ray", [None, "auto"])
def test_workers_give_the_values_of_this_process(cli, run, monkeypatch, ray):
    hired = []
    monkeypatch.setattr(Workers, "crew", lambda self, game: hired.append(self) or crew_here(self, game))
    alone = json.loads(cli("value", run, "--task", 2, "--json").out)
    where = [] if ray is None else ["--ray", ray]
    shared = json.loads(cli("value", run, "--task", 2, "--workers", 3, *where, "--json").out)
    assert hired == [Workers(3, ray)]
    assert {**shared, "seconds": None} == {**alone, "seconds": None}


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["--task", 3], "The run has tasks 1 to 2; got --task 3."),
        (["--task", 2, "--after", 1], "Task 2 is valued after task 2 or a later one"),
        (["--task", 1, "--method", "shap"], "no estimator called 'shap'"),
        (["--task", 1, "--set", "drws=3"], "Did you mean 'draws'?"),
        (["--task", 1, "--continue"], "There is nothing to continue"),
        (["--task", 1, "--workers", 0], "Workers are 1 or more"),
        (["--task", 1, "--ray", "auto"], "--workers says how many"),
        (["--task", 1, "--method", "in-run", "--workers", 2], "which no workers can share"),
    ],
)
def test_a_mistake_gets_one_sentence_and_exit_code_2(cli, run, arguments, answer):
    told = cli("value", run, *arguments)
    assert told.code == 2
    assert answer in told.err


def test_a_missing_checkpoint_is_named(cli, run):
    (run / "checkpoints" / "task-001.safetensors").unlink()
    told = cli("value", run, "--task", 1)
    assert told.code == 2
    assert "task-001.safetensors does not exist" in told.err


def test_a_method_without_one_network_is_refused(cli, tmp_path):
    out = str(tmp_path / "wsn")
    cli("run", "--method", "wsn", "--tasks", "2", "--epochs", "1", "network.name=mlp", "--out", out)
    told = cli("value", out, "--task", "1")
    assert told.code == 2
    assert "wsn has no network that answers as it stands" in told.err
