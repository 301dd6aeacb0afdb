"""The command line: what it prints, its exit codes, and one clear sentence for every mistake, before any training."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
from PIL import Image

from snv.training.loop import Training

QUICK = ["--data", "digits", "--tasks", "5", "--epochs", "8", "network.name=mlp", "network.hidden=[32]"]


def pictures(root: Path, n_classes: int = 4, each: int = 8) -> Path:
    rng = np.random.default_rng(0)
    for c in range(n_classes):
        (root / f"class{c}").mkdir(parents=True)
        for i in range(each):
            Image.fromarray(rng.integers(0, 255, (20, 24, 3), dtype=np.uint8)).save(root / f"class{c}" / f"{i}.png")
    return root


def test_run_then_show_tells_the_whole_story(cli, tmp_path):
    out = tmp_path / "run"
    assert cli("run", "--method", "sgd", "--scenario", "til", "--seed", "0", "--out", out, *QUICK).code == 0
    told = json.loads(cli("show", out, "--json").out)
    assert {"method", "scenario", "data", "tasks", "seed", "status", "accuracy", "metrics", "cost"} <= told.keys()
    assert (told["method"], told["scenario"], told["data"], told["tasks"]) == ("sgd", "til", "digits", 5)
    assert told["status"] == "finished"
    assert set(told["metrics"]) == {"ACC", "AvgAcc", "BWT", "FWT", "forgetting", "PS", "CAP"}
    assert np.array(told["accuracy"], float).shape == (5, 5)
    assert told["metrics"]["ACC"] == pytest.approx(np.mean(told["accuracy"][-1]))
    assert set(told["cost"]["latency_ms"]) == {"1", "64"}
    assert told["cost"]["seconds"]["train"] > 0
    assert told["cost"]["macs"]["train"] > told["cost"]["macs"]["evaluate"] > 0
    for name in ("config.json", "environment.json", "record.json", "log.jsonl", "costs.json"):
        assert (out / name).exists()
    assert len(list((out / "checkpoints").glob("task-*.safetensors"))) == 5
    table = cli("show", out).out
    assert "task 5" in table
    assert "ACC" in table
    assert "ms/image" in table
    assert "network in use           100.0 % of parameters, 100.0 % of neurons" in table
    assert "kept beyond the network  0.00 MiB" in table
    alone, in_64s = (told["cost"]["latency_ms"][batch] for batch in ("1", "64"))
    assert f"{alone:.2f} ms at batch 1, {in_64s:.2f} ms at batch 64" in table


def test_a_record_of_the_version_before_is_shown(cli, tmp_path):
    """It knew neither the bytes kept nor whose peak it had measured."""
    cli("run", "--out", tmp_path / "run", *QUICK)
    for name, new in (("record.json", "bytes_kept"), ("costs.json", "peak_of")):
        path = tmp_path / "run" / name
        stored = json.loads(path.read_text())
        del stored[new]
        path.write_text(json.dumps(stored))
    told = cli("show", tmp_path / "run")
    assert told.code == 0, told.err
    assert "kept beyond" not in told.out
    assert "(of the process, with all it did before)" in told.out


def test_MACs_of_a_run_equal_the_hand_count(cli, tmp_path):
    """An MLP 64-32-2 in TIL: forward 64·32 + 32·2; backward twice that less the input gradient of the first layer."""
    overrides = ["data.classes=2", "data.tasks=1", "train.epochs=3", "train.patience=0"]
    network = ["network.name=mlp", "network.hidden=[32]"]
    assert cli("run", *overrides, *network, "--out", tmp_path / "run").code == 0
    told = json.loads(cli("show", tmp_path / "run", "--json").out)
    entries = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    from snv.data import TaskStream, load_source

    task = TaskStream(load_source("digits"), 1, 0, n_classes=2).task(0)
    forward = 64 * 32 + 32 * 2
    train = 3 * len(task.train) * (3 * forward - 64 * 32)
    validate = 3 * len(task.val) * forward
    assert len(entries) == 3
    assert told["cost"]["macs"]["train"] == pytest.approx(train + validate)
    assert told["cost"]["macs"]["evaluate"] == pytest.approx(2 * len(task.test) * forward)


def test_the_picture_of_matrices_is_drawn(cli, tmp_path):
    for method in ("sgd", "joint"):
        cli("run", "--method", method, "--out", tmp_path / "runs" / method, *QUICK)
    told = cli("show", tmp_path / "runs", "--picture", tmp_path / "m.png")
    assert told.code == 0
    with Image.open(tmp_path / "m.png") as picture:
        assert picture.size[0] > 300
    assert told.out.count("finished") == 2


@pytest.mark.parametrize("kind", ["methods", "datasets", "networks", "estimators"])
def test_lists_are_for_people_and_machines(cli, kind):
    rows = json.loads(cli("list", kind, "--json").out)
    assert all(row["name"] for row in rows)
    assert rows[0]["name"] in cli("list", kind).out


def test_the_list_of_methods_says_what_each_can_do(cli):
    rows = {row["name"]: row for row in json.loads(cli("list", "methods", "--json").out)}
    assert rows["joint"]["memory"].startswith("all training")
    assert rows["sgd"]["scenarios"] == ["til", "cil"]


def test_the_list_of_estimators_says_what_each_promises_and_with_which_settings(cli):
    from snv.learners.snv_config import SNVConfig
    from snv.valuation import ESTIMATORS

    rows = {row["name"]: row for row in json.loads(cli("list", "estimators", "--json").out)}
    for name, estimator in ESTIMATORS.items():
        assert rows[name]["promise"] == estimator.promise
        assert rows[name]["certifies"] == estimator.certifies
    assert rows["gradient"]["needs_gradient"]
    assert rows["gradient"]["settings"]["draws"] == 48
    assert not rows["montecarlo"]["needs_gradient"]
    assert rows["montecarlo"]["unbiased"]
    assert rows["taylor"]["needs_gradient"]
    assert rows["activation"]["promise"].startswith("The mean size of a neuron's response")
    for name in rows:
        SNVConfig(estimator=name)  # each is one a run may ask for


def test_a_run_of_SNV_shows_what_its_valuations_said_of_themselves(cli, tmp_path):
    out = tmp_path / "run"
    cli("run", "--method", "snv", "--tasks", 2, "--epochs", 2, "network.width=4", "--out", out)
    record = json.loads(cli("show", out, "--json").out)
    assert [told["estimator"] for told in record["valuations"]] == ["gradient", "gradient"]
    assert all(isinstance(told["efficiency_ratio"], float) for told in record["valuations"])
    assert all(told["evaluations"] > 2 and told["stopped"] == "all draws done" for told in record["valuations"])
    assert len(record["cost"]["valuation_seconds"]) == 2
    assert sum(record["cost"]["valuation_seconds"]) == pytest.approx(record["cost"]["seconds"]["value"])
    shown = cli("show", out).out
    ratios = ", ".join(f"{told['efficiency_ratio']:.2f}" for told in record["valuations"])
    assert f"gradient: Σφ / (V(all) − V(∅)) = {ratios} task by task" in shown
    assert "Not certified" in shown


@pytest.mark.parametrize(("estimator", "has_ratio"), [("in-run", True), ("taylor", False)])
def test_other_values_tell_what_they_are_and_a_ratio_only_if_there_is_one(cli, tmp_path, estimator, has_ratio):
    out = tmp_path / "run"
    quick = ("--tasks", 2, "--epochs", 2, "network.width=4", f"learner.estimator={estimator}")
    cli("run", "--method", "snv", *quick, "--out", out)
    for told in json.loads(cli("show", out, "--json").out)["valuations"]:
        assert told["estimator"] == estimator
        assert (told["efficiency_ratio"] is not None) == has_ratio
        assert told["certificate"].startswith("Not certified")


def test_records_from_before_valuations_were_kept_are_still_shown(cli, tmp_path):
    out = tmp_path / "run"
    cli("run", "--method", "snv", "--tasks", 2, "--epochs", 2, "network.width=4", "--out", out)
    record, costs = (json.loads((out / name).read_text()) for name in ("record.json", "costs.json"))
    del record["valuations"], costs["valuation_seconds"]
    (out / "record.json").write_text(json.dumps(record))
    (out / "costs.json").write_text(json.dumps(costs))
    told = cli("show", out)
    assert told.code == 0, told.err
    assert "Σφ" not in told.out


def test_a_folder_of_pictures_is_a_stream_of_tasks(cli, tmp_path):
    root = pictures(tmp_path / "pets")
    told = cli("run", "--data", f"folder:{root}", "--tasks", 2, "--epochs", 1, "data.size=16", "--out", tmp_path / "r")
    assert told.code == 0, told.err


def truncated_zip(tmp: Path) -> list[object]:
    (tmp / "tiny-imagenet-200.zip").write_bytes(b"PK\x03\x04" + bytes(100))
    return ["--data", "tiny-imagenet", "--data-dir", tmp]


def broken_picture(tmp: Path) -> list[object]:
    root = pictures(tmp / "pets")
    (root / "class1" / "3.png").write_bytes(b"\x89PNG no picture")
    return ["--data", f"folder:{root}", "--tasks", 2]


def lonely_picture(tmp: Path) -> list[object]:
    root = pictures(tmp / "pets")
    (root / "single").mkdir()
    Image.new("RGB", (8, 8)).save(root / "single" / "one.png")
    return ["--data", f"folder:{root}", "--tasks", 2]


def nan_pixels(tmp: Path) -> list[object]:
    images = np.zeros((20, 8, 8), np.float32)
    images[7, 1, 1] = np.nan
    np.savez(tmp / "a.npz", images=images, labels=np.arange(20) % 2)
    return ["--data", f"npz:{tmp / 'a.npz'}", "--tasks", 2]


def out_is_a_file(tmp: Path) -> list[object]:
    (tmp / "file").write_text("x")
    return ["--out", tmp / "file" / "run"]


def typo_in_a_file(tmp: Path) -> list[object]:
    (tmp / "c.toml").write_text("[train]\nepohcs = 3\n")
    return [tmp / "c.toml"]


def foreign_folder(tmp: Path) -> list[object]:
    (tmp / "mine").mkdir()
    (tmp / "mine" / "thesis.tex").write_text("x")
    return ["--out", tmp / "mine"]


MISTAKES = {
    "unknown method": (lambda tmp: ["--method", "sdg"], "no method called 'sdg'. Did you mean 'sgd'?"),
    "unknown data": (lambda tmp: ["--data", "cifr10"], "no dataset called 'cifr10'. Did you mean 'cifar10'?"),
    "unknown network": (lambda tmp: ["network.name=resnet"], "no network called 'resnet'. Did you mean 'resnet18'?"),
    "truncated zip": (truncated_zip, "tiny-imagenet-200.zip"),
    "picture that does not decode": (broken_picture, "3.png"),
    "class with one image": (lonely_picture, "Class 'single' has 1 image;"),
    "more tasks than classes": (lambda tmp: ["--tasks", 11], "11 tasks need at least 11 classes"),
    "NaN pixels": (nan_pixels, "7"),
    "output inside a file": (out_is_a_file, "cannot be written"),
    "typo in a config": (typo_in_a_file, "'epohcs'. Did you mean 'epochs'?"),
    "folder with other things": (foreign_folder, "holds no run (found thesis.tex)"),
    "missing folder": (lambda tmp: ["--data", f"folder:{tmp / 'nowhere'}"], "nowhere"),
    "no such device": (lambda tmp: ["--device", "cuda:99"], "Device 'cuda:99' cannot be used"),
}


@pytest.mark.parametrize(("arguments", "answer"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_gets_one_sentence_and_exit_code_2_before_any_training(cli, arguments, answer, tmp_path, monkeypatch):
    monkeypatch.setattr(Training, "run", lambda *_: pytest.fail("training began"))
    monkeypatch.chdir(tmp_path)
    told = cli("run", *arguments(tmp_path))
    assert told.code == 2
    assert answer in told.err
    assert told.err.startswith("error: ")
    assert told.err.count("\n") == 1
    assert "Traceback" not in told.err
    assert not (tmp_path / "runs").exists(), "nothing half-written remains"


def test_data_that_are_not_there_are_asked_for_by_file_name(cli, tmp_path, monkeypatch):
    import urllib.request

    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: (_ for _ in ()).throw(OSError("no network")))
    told = cli("run", "--data", "cifar100", "--data-dir", tmp_path, "--out", tmp_path / "run")
    assert told.code == 2
    assert "cifar-100-python.tar.gz" in told.err
    assert str(tmp_path) in told.err


def test_a_method_for_TIL_only_refuses_CIL(cli, monkeypatch):
    from snv.learners import SGD

    monkeypatch.setattr(SGD, "card", dataclasses.replace(SGD.card, scenarios=("til",)))
    told = cli("run", "--method", "sgd", "--scenario", "cil")
    assert (told.code, told.err.count("\n")) == (2, 1)
    assert "sgd cannot do CIL" in told.err


def test_too_little_disk_space_is_noticed_before_anything_is_written(cli, tmp_path, monkeypatch):
    import shutil

    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 1000))
    told = cli("run", *QUICK, "--out", tmp_path / "run")
    assert told.code == 2
    assert re.search(r"needs about [\d,]+ MiB .* has 0 MiB free", told.err)
    assert not (tmp_path / "run").exists()


def test_a_disk_that_fills_up_is_one_sentence_and_the_run_continues_later(cli, tmp_path, monkeypatch):
    whole = safetensors.torch.save_file
    calls = []

    def full(tensors, path, metadata):
        calls.append(path)
        if len(calls) == 3:
            Path(path).write_bytes(b"half of it")
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        whole(tensors, path, metadata=metadata)

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    told = cli("run", *QUICK, "--out", tmp_path / "run")
    assert told.code == 2
    assert "The disk is full" in told.err
    assert not list((tmp_path / "run").rglob("*.tmp")), "nothing half-written remains"
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) == 2
    assert cli("run", *QUICK, "--out", tmp_path / "run").code == 0
    cli("run", *QUICK, "--out", tmp_path / "other")
    assert (tmp_path / "run/record.json").read_bytes() == (tmp_path / "other/record.json").read_bytes()


def test_a_folder_without_runs_is_said_to_be_one(cli, tmp_path):
    told = cli("show", tmp_path)
    assert told.code == 2
    assert "There is no run in" in told.err


def test_other_settings_in_the_same_directory_are_refused(cli, tmp_path):
    cli("run", *QUICK, "--out", tmp_path / "run")
    told = cli("run", *QUICK, "--out", tmp_path / "run", "--seed", 5)
    assert told.code == 2
    assert "seed was 0 and is now 5" in told.err


def test_ctrl_c_saves_and_says_how_to_continue(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "snv.cli.main", "run", "--out", str(out), "--epochs", "3000", "train.patience=0"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        while not (out / "config.json").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Run the same command again to continue" in err
    assert (out / "checkpoints" / "now.safetensors").exists()
    told = subprocess.run(
        [sys.executable, "-m", "snv.cli.main", "show", str(out), "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(told.stdout)["status"] == "interrupted"


def test_the_doctor_finds_this_machine_healthy(cli):
    told = cli("doctor", "--json")
    facts = json.loads(told.out)
    assert told.code == (1 if facts["problems"] else 0)
    assert facts["torch"]
    assert "digits" in facts["data found"]


def test_help_is_there_for_every_command(cli):
    for command in ([], ["run"], ["show"], ["list"], ["doctor"], ["demo"]):
        assert cli(*command, "--help").code == 0


def test_a_method_that_drops_old_tasks_in_CIL_says_why(cli, tmp_path):
    told = cli("run", "--method", "sgd", "--scenario", "cil", "--tasks", "3", "--epochs", "6", "--out", str(tmp_path))
    assert "This is what the method does in CIL: no image of an old class is seen again" in told.out
    told = cli(
        "run", "--method", "sgd", "--scenario", "til", "--tasks", "3", "--epochs", "1", "--out", str(tmp_path / "t")
    )
    assert "This is what the method does" not in told.out
