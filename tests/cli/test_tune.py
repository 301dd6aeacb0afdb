"""`snv tune`: what the shell can ask for."""

from __future__ import annotations

import json

HERE = ["--jobs", "1"]
QUICK = ["data.classes=4", "data.per_class=20", "network.name=mlp", "network.hidden=[8]", "threads=1", "--tasks", "2"]


def test_a_search_tells_what_was_tried_and_how_to_use_the_choice(cli, tmp_path):
    asked = [
        "tune",
        "ewc",
        *QUICK,
        "--epochs",
        "2",
        "--space",
        "train.lr=[0.01,0.1]",
        "--out",
        tmp_path / "t",
        "--jobs",
        "1",
    ]
    told = cli(*asked)
    assert told.code == 0, told.err
    assert "train.lr=0.001 (as before)" in told.out
    chosen = tmp_path / "t" / "chosen.toml"
    assert f"snv run --method ewc --scenario til --preset {chosen}" in told.out
    ledger = json.loads(cli(*asked, "--json").out)
    assert len(ledger["trials"]) == 3
    ran = cli("run", *QUICK, "--method", "ewc", "--epochs", "1", "--preset", chosen, "--out", tmp_path / "r", "--json")
    assert json.loads(ran.out)["config"]["train"]["lr"] == ledger["chosen"]["train.lr"]


def test_mistakes_are_answered_in_one_sentence_before_anything_is_trained(cli, tmp_path):
    out = ["--out", tmp_path / "t", *HERE]
    assert "Did you mean 'ewc'" in cli("tune", "ewcc", *out).err
    assert "Did you mean 'halves'" in cli("tune", "ewc", "--protocol", "halfs", *out).err
    assert "Did you mean 'optuna'" in cli("tune", "ewc", "--sampler", "optna", *out).err
    assert "such as 0,1,2; got 0,x" in cli("tune", "ewc", "--seeds", "0,x", *out).err
    assert "such as train.lr=[0.001,0.01]" in cli("tune", "ewc", "--space", "train.lr=0.1", *out).err
    assert "nothing to choose for slda" in cli("tune", "slda", *out).err
    assert not (tmp_path / "t" / "trials").exists()


def test_a_run_takes_the_papers_choice_by_its_name(cli, tmp_path):
    asked = ["run", *QUICK, "--method", "wsn", "--epochs", "1", "--out", tmp_path / "r"]
    told = cli(*asked, "--preset", "paper/cifar10")
    assert told.code == 2
    assert "Did you mean 'paper/cifar100'" in told.err
    stored = json.loads(cli(*asked, "--preset", "paper/imagenet-1k", "--json").out)
    assert stored["config"]["train"]["lr"] == 0.0001


def test_a_search_at_a_url_goes_on_there_and_leaves_no_runs(cli, tmp_path):
    store = tmp_path / "store"
    asked = ["tune", "sgd", *QUICK, "--epochs", "1", "--space", "train.lr=[0.01]", "--out", store.as_uri(), *HERE]
    told = cli(*asked)
    assert told.code == 0, told.err
    assert f"{store.as_uri()}/ledger.md" in told.out
    assert sorted(path.name for path in store.iterdir()) == [
        "chosen.toml",
        "ledger.json",
        "ledger.md",
        "request.json",
        "trials",
    ]
    before = (store / "trials" / "000-seed0.json").stat().st_mtime_ns
    assert cli(*asked).code == 0
    assert (store / "trials" / "000-seed0.json").stat().st_mtime_ns == before
