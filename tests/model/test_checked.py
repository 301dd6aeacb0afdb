"""A manifest that is signed and lies is refused before anything is built from it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from snv import Model
from snv.errors import UserError
from snv.model.manifest import _with_checksum

BEFORE = Path(__file__).parents[1] / "before" / "digits.snv"


def signed(folder: Path, change) -> Path:
    """The model with another manifest, whose checksum is right."""
    path = shutil.copytree(BEFORE, folder / "digits.snv")
    fields = json.loads((path / "model.json").read_text())
    del fields["checksum"]
    change(fields)
    (path / "model.json").write_bytes(_with_checksum(fields))
    return path


LIES = {
    "a width of a billion": lambda f: f["content"]["spec"].update(width=10**9),
    "a width of 20,000": lambda f: f["content"]["spec"].update(network="resnet18", width=20_000),
    "pictures of a million pixels": lambda f: f["content"]["spec"].update(shape=[1, 10**6, 10**6]),
    "two sides only": lambda f: f["content"]["spec"].update(shape=[1, 8]),
    "a word as capacity": lambda f: f["content"]["spec"].update(capacity="much"),
    "a network of a list": lambda f: f["content"]["spec"].update(network=["resnet18"]),
    "no tasks": lambda f: f["content"].pop("tasks"),
    "a task of no classes": lambda f: f["content"]["tasks"][0].update(classes=[]),
    "a class that is a number": lambda f: f["content"]["tasks"][0].update(classes=[1, 2]),
    "a temperature of 0": lambda f: f["content"]["tasks"][0].update(temperature=0.0),
    "a billion threads": lambda f: f["content"]["tasks"][0]["certificate"].update(threads=10**9),
    "one more class": lambda f: f["content"]["tasks"][0]["classes"].append("x"),
    "one number for two tasks": lambda f: f["content"]["tasks"][1].update(uid=0),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_that_is_signed_is_refused(lie, tmp_path):
    path = signed(tmp_path, LIES[lie])
    with pytest.raises(UserError, match=r"digits\.snv"):
        Model.open(path)


@pytest.mark.parametrize(
    "name", ["../evil-0123456789abcdef.safetensors", "/etc/passwd", "a/b-0123456789abcdef.safetensors"]
)
def test_a_manifest_that_names_a_file_elsewhere_is_refused(name, tmp_path):
    def change(fields) -> None:
        next(iter(fields["files"].values()))["file"] = name

    with pytest.raises(UserError, match="names a file that no model contains"):
        Model.open(signed(tmp_path, change))


def test_a_manifest_that_names_one_file_many_times_is_refused(tmp_path):
    def change(fields) -> None:
        first = next(iter(fields["files"].values()))
        fields["files"] |= {f"again {i}": first for i in range(1000)}

    with pytest.raises(UserError, match="names a file twice"):
        Model.open(signed(tmp_path, change))


def test_links_and_pipes_in_a_model_are_refused_instead_of_followed(tmp_path):
    path = shutil.copytree(BEFORE, tmp_path / "linked.snv")
    file = next(path.glob("network-*.safetensors"))
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="is a symbolic link"):
        Model.open(path)
    piped = shutil.copytree(BEFORE, tmp_path / "piped.snv")
    (piped / "model.json").unlink()
    os.mkfifo(piped / "model.json")
    with pytest.raises(UserError, match="is not an ordinary file"):
        Model.open(piped)


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "a\nb", ".hidden", "c:x"])
def test_a_task_whose_name_leads_elsewhere_is_not_exported_under_it(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = Model.open(BEFORE)
    with pytest.raises(UserError, match="cannot be the name of a file"):
        model.export(name)
    assert not list(tmp_path.iterdir())
