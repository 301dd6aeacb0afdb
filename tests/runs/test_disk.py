"""Disks that fill up and folders that cannot be written, for real: small file systems made for the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quick_run import QUICK
from snv.files import load_state, read_json

SETTINGS = [*QUICK, "threads=1", "checkpoint_seconds=0"]


def mounted(folder: Path, *options: str) -> None:
    """A file system in memory, or a skipped test where nobody may make one."""
    folder.mkdir(exist_ok=True)
    try:
        done = subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(folder)], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("needs the command mount")
    if done.returncode != 0:
        pytest.skip(f"needs to mount a small file system: {done.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A disk of 6 MiB."""
    mounted(tmp_path / "disk", "-o", "size=6m")
    yield tmp_path / "disk"
    subprocess.run(["umount", str(tmp_path / "disk")], check=True)


def fill(disk: Path) -> None:
    """Not a byte is left."""
    with (disk / "other").open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def assert_whole(run: Path) -> None:
    """Whatever has a name is whole, and nothing half-written remains."""
    for path in (run / "checkpoints").glob("*"):
        load_state(path)
    for path in run.glob("*.json"):
        read_json(path)
    assert not list(run.rglob("*.tmp"))


@pytest.mark.parametrize("when", ["task 1 of 5, train", "task 3 of 5, train"])
def test_a_full_disk_leaves_everything_whole_and_the_run_continues_to_the_same_bits(when, cli, small_disk, tmp_path):
    """While the run is at work, somebody else fills the disk."""
    from snv.config import load_config
    from snv.runs.run import run

    arguments = ["run", *SETTINGS, "--out", small_disk / "run"]
    code = (
        "import sys, test_disk, snv.cli.progress as p\n"
        "from pathlib import Path\n"
        "tell = p.Bar.__call__\n"
        "def told(self, what, done, total):\n"
        f"    if what.startswith({when!r}) and done > 40 and not Path({str(small_disk / 'other')!r}).exists():\n"
        f"        test_disk.fill(Path({str(small_disk)!r}))\n"
        "    tell(self, what, done, total)\n"
        "p.Bar.__call__ = told\n"
        "from snv.cli.main import main\n"
        "main()\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path])}
    told = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, env=environment
    )
    assert told.returncode == 2, told.stderr
    assert "The disk is full" in told.stderr and "run the same command again to continue" in told.stderr
    assert "Traceback" not in told.stderr
    assert_whole(small_disk / "run")
    tasks = len(list((small_disk / "run" / "checkpoints").glob("task-*")))
    assert tasks == int(when[5]) - 1, "what was learned is kept"
    (small_disk / "other").unlink()
    again = cli(*arguments)
    assert again.code == 0, again.err
    run(load_config(None, [*overrides()]), tmp_path / "whole")
    for name in ("record.json", "log.jsonl", "checkpoints/task-005.safetensors"):
        assert (small_disk / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def overrides() -> list[str]:
    """The settings of the command as a config takes them."""
    words = {"--data": "data.name", "--tasks": "data.tasks", "--epochs": "train.epochs"}
    pairs = iter(SETTINGS)
    return [f"{words[word]}={next(pairs)}" if word in words else word for word in pairs]


def test_a_run_that_cannot_fit_is_refused_before_anything_is_written(cli, small_disk):
    fill(small_disk)
    (small_disk / "run").mkdir()
    told = cli("run", *SETTINGS, "--out", small_disk / "run")
    assert told.code == 2
    assert "MiB for its checkpoints" in told.err
    assert not list((small_disk / "run").iterdir())


def test_a_model_on_a_full_disk_stays_as_it_was(cli, taught, pictures, small_disk):
    import shutil

    shutil.copytree(taught, small_disk / "pets")
    before = {path.name: path.read_bytes() for path in (small_disk / "pets").iterdir() if path.name != "lock"}
    fill(small_disk)
    told = cli("learn", pictures / "trees", "--model", small_disk / "pets", "--epochs", 1)
    assert told.code == 2
    assert "what it held before is intact. Free some space" in told.err
    assert {p.name: p.read_bytes() for p in (small_disk / "pets").iterdir() if p.name != "lock"} == before
    (small_disk / "other").unlink()
    assert cli("learn", pictures / "trees", "--model", small_disk / "pets", "--epochs", 1).code == 0


@pytest.fixture
def read_only(tmp_path, cli, taught) -> Iterator[Path]:
    """A folder with a finished run and a model, mounted so that not even root may write."""
    import shutil

    folder = tmp_path / "fixed"
    mounted(folder, "-o", "size=60m")
    try:
        assert cli("run", *QUICK, "--out", folder / "run").code == 0
        shutil.copytree(taught, folder / "pets")
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_in_a_read_only_folder_what_is_there_is_read_and_what_would_be_written_is_refused(read_only, cli, pictures):
    assert cli("show", read_only / "run").code == 0
    assert json.loads(cli("run", *QUICK, "--out", read_only / "run", "--json").out)["status"] == "finished"
    assert cli("predict", pictures / "birds", "--model", read_only / "pets").code == 0
    assert cli("verify", "--model", read_only / "pets").code == 0
    refused = {
        ("run", *QUICK, "--out", read_only / "other"): "Results cannot be written to",
        ("learn", pictures / "trees", "--model", read_only / "pets", "--epochs", 1): "cannot be written",
        (
            "value",
            read_only / "run",
            "--task",
            1,
            "--out",
            read_only / "a.safetensors",
            "--set",
            "draws=2",
        ): "Read-only",
    }
    for arguments, answer in refused.items():
        told = cli(*arguments)
        assert told.code == 2, told.err
        assert answer in told.err.splitlines()[-1], "one sentence, after what was told on the way"
