"""`snv run`: one command from data to a record; a mistake is one sentence, and a stopped run goes on."""

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

from quick_run import QUICK
from snv.training.loop import Training


def pictures(root: Path, n_classes: int = 4, each: int = 8) -> Path:
    rng = np.random.default_rng(0)
    for c in range(n_classes):
        (root / f"class{c}").mkdir(parents=True)
        for i in range(each):
            Image.fromarray(rng.integers(0, 255, (20, 24, 3), dtype=np.uint8)).save(root / f"class{c}" / f"{i}.png")
    return root


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
    evaluate = (2 * len(task.test) + len(task.val)) * forward  # before and after; what came of it
    assert told["cost"]["macs"]["evaluate"] == pytest.approx(evaluate)


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


def test_a_method_that_drops_old_tasks_in_CIL_says_why(cli, tmp_path):
    told = cli("run", "--method", "sgd", "--scenario", "cil", "--tasks", "3", "--epochs", "6", "--out", str(tmp_path))
    assert "This is what the method does in CIL: no image of an old class is seen again" in told.out
    told = cli(
        "run", "--method", "sgd", "--scenario", "til", "--tasks", "3", "--epochs", "1", "--out", str(tmp_path / "t")
    )
    assert "This is what the method does" not in told.out


def test_a_run_stops_after_as_many_tasks_as_asked_for_and_says_how_to_go_on(cli, tmp_path):
    told = cli("run", *QUICK, "--out", tmp_path / "run", "--stop-after", 2)
    assert told.code == 0, told.err
    assert "Stopped after 2 of 5 tasks; the same command without --stop-after goes on." in told.out
    assert json.loads(cli("show", tmp_path / "run", "--json").out)["tasks_done"] == 2
    told = cli("run", *QUICK, "--out", tmp_path / "run", "--json")
    assert json.loads(told.out)["status"] == "finished"
    told = cli("run", *QUICK, "--out", tmp_path / "other", "--stop-after", 0)
    assert (told.code, "stops after 1 task or more" in told.err) == (2, True)
