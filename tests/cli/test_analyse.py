"""`snv analyse`: analyses of a saved run from the command line."""

from __future__ import annotations

import json

import pytest

import snv.report
from snv.files import read_json
from snv.report.analyses import ANALYSES

QUICK = {
    "pruning": ["--set", "shares=[0, 0.9]"],
    "capacity": [],
    "costs": ["--set", "task=2"],
    "estimators": ["--set", "permutations=2", "--set", "reference=4", "--set", "seeds=2"],
    "exact": ["--set", "players=[2, 3]"],
}


@pytest.fixture
def run(cli, tmp_path):
    out, small = tmp_path / "run", ["network.name=mlp", "network.hidden=[10]", "--epochs", 2]
    told = cli("run", "--method", "snv", "data.tasks=2", "data.classes=4", "data.per_class=40", *small, "--out", out)
    assert told.code == 0, told.err
    return out


def test_every_analysis_is_made_told_and_kept(cli, run):
    assert QUICK.keys() == ANALYSES.keys()
    for name, settings in QUICK.items():
        told = cli("analyse", name, run, *settings)
        assert told.code == 0, told.err
        assert f"saved: {run / 'analyses' / name}.json" in told.out
        shown = json.loads(cli("analyse", name, run.parent, *settings, "--json").out)
        kept = read_json(run / "analyses" / f"{name}.json")
        assert {**kept, "file": str(run / "analyses" / f"{name}.json")} == shown


def test_a_run_with_analyses_can_be_shown_and_drawn(cli, run, tmp_path):
    snv.report.analyse("pruning", run, shares=(0, 0.5))
    snv.report.analyse("capacity", run)
    assert cli("show", run).code == 0
    for name in snv.report.FIGURES:
        told = cli("figure", name, run, "--out", tmp_path / f"{name}.pdf")
        assert told.code == 0, told.err
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_analyses_are_listed_with_their_settings(cli):
    told = cli("analyse", "--list")
    assert all(name in told.out for name in ANALYSES) and "max_seconds" in told.out


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ([], "Which analysis, of which run?"),
        (["prunning", "{run}"], "Did you mean 'pruning'?"),
        (["pruning", "{run}", "--set", "share=0.1"], "Did you mean 'shares'?"),
        (["capacity", "{run}", "--set", "task=1"], "capacity has no settings"),
        (["exact", "{run}", "--set", "task=3"], "The run has tasks 1 to 2; got --task 3."),
        (["pruning", "nowhere"], "There is no run in nowhere"),
    ],
)
def test_a_mistake_gets_one_sentence_and_exit_code_2(cli, run, arguments, answer):
    told = cli("analyse", *(argument.format(run=run) for argument in arguments))
    assert told.code == 2
    assert answer in told.err
