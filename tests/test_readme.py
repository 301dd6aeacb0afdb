"""The README is true: its Python runs, its commands run, its tables name what exists."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from drawn import BIRDS, FISH, draw, make_pictures

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (snv .+)$", README, flags=re.MULTILINE)


def test_the_ten_lines_of_python_print_what_they_promise(tmp_path):
    code = re.findall(r"```python\n(.+?)```", README, flags=re.DOTALL)[0]
    told = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    sgd, joint = told.stdout.splitlines()
    assert sgd.startswith("sgd ")
    assert float(joint.split()[-1]) > float(sgd.split()[-1]) + 20


def test_the_readme_names_commands():
    assert len(COMMANDS) >= 6


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_readme_runs(command, cli, tmp_path, monkeypatch):
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    if "runs/mine" in command and command.split()[1] in ("show", "report"):
        assert cli("run", "--epochs", "1", "--out", "runs/mine").code == 0
    arguments = [*shlex.split(command, comments=True)[1:]]
    if "--model" in arguments:
        _prepare_pictures(tmp_path, cli, first="birds" in command)
    if arguments[0] == "run":
        arguments.append("train.epochs=1") if arguments[-1].count("=") else arguments.extend(["--epochs", "1"])
    elif arguments[0] == "learn":
        arguments.extend(["--epochs", "1", *(["--width", "4", "--size", "16"] if "birds" in command else [])])
    told = cli(*arguments)
    assert told.code == 0, told.err


def _prepare_pictures(folder, cli, first: bool) -> None:
    """Pictures of two tasks, and a model that knows the first of them unless the command teaches it."""
    make_pictures(folder / "pictures" / "birds", BIRDS)
    make_pictures(folder / "pictures" / "fish", FISH)
    draw(BIRDS[0], 0).save(folder / "photo.jpg")
    if not first:
        small = ["--epochs", "1", "--width", "4", "--size", "16", "--model", "pets.snv"]
        assert cli("learn", "pictures/birds", *small).code == 0


def test_every_dataset_has_a_row():
    from snv.data import SOURCES

    for name in SOURCES:
        assert f"`{name}`" in README


def test_every_link_leads_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
