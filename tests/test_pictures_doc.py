"""The page on pictures is true: its commands run in its order, and print the same kind of lines."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from drawn import draw, make_pictures
from snv import Model

PAGE = (Path(__file__).parents[1] / "docs" / "pictures.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n(.+?)```", PAGE, flags=re.DOTALL)
RUNS = [run.split("\n", 1) for block in BLOCKS for run in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
"""Every command of the page, and what it printed."""


def words(text: str) -> list[str]:
    """What stays the same from run to run: numbers, names of files and padding left out."""
    return [re.sub(r"\S*\d\S*|[━─┏┳┓┡╇┩└┴┘]+|\s+", " ", line).split() for line in text.splitlines() if line.strip()]


@pytest.fixture
def folders(tmp_path, monkeypatch) -> None:
    """The folders of the page, with drawn pictures."""
    monkeypatch.chdir(tmp_path)
    for name, classes in re.findall(r"─ (\w+)/ +(.+)$", PAGE, flags=re.MULTILINE):
        make_pictures(Path("pictures") / name, tuple(classes.replace("/", "").split()), 6)
    Path("new").mkdir()
    for file in set(re.findall(r"new/(\d+)\.jpg", PAGE)):
        draw("goldfish", int(file)).save(f"new/{file}.jpg")


def test_every_command_of_the_page_runs_and_prints_lines_like_those_of_the_page(cli, folders):
    pytest.importorskip("onnxruntime")
    for command, printed in RUNS:
        arguments = shlex.split(command)[1:]
        if arguments[0] == "learn":
            if "--epochs" in arguments:
                arguments[arguments.index("--epochs") + 1] = "1"
            else:
                arguments += ["--epochs", "1"]
            if not Path("pets.snv").exists():
                arguments += ["--size", "16", "--width", "8"]
        told = cli(*arguments)
        assert told.code == 0, told.err
        if arguments[0] in ("learn", "verify", "status", "export"):
            assert words(told.out) == words(printed), command
        elif arguments[0] == "predict":
            assert len(told.out.splitlines()) == len(printed.splitlines())
    assert [task.name for task in Model.open("pets.snv").tasks] == ["water", "beach"]


def test_the_page_shows_all_eight_commands():
    shown = {shlex.split(command)[1] for command, _ in RUNS}
    assert shown == {"learn", "predict", "status", "verify", "plan", "forget", "export", "audit"}


def test_the_python_of_the_page_runs(folders, monkeypatch):
    pytest.importorskip("onnxruntime")
    (code,) = re.findall(r"```python\n(.+?)```", PAGE, flags=re.DOTALL)
    whole, made = Model.learn, Model.create
    monkeypatch.setattr(Model, "create", lambda path: made(path, size=16, width=8))
    monkeypatch.setattr(Model, "learn", lambda self, folder: whole(self, folder, epochs=1))
    names: dict[str, object] = {}
    exec(code, names)
    assert all(verdict.unchanged for verdict in names["model"].verify())
