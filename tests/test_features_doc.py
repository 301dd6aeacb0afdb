"""The page on pretrained networks is true: its Python runs, and its options exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from onnx_files import Maps, write_onnx
from snv import Model
from snv.networks import MEAN, STD, read_pretrained

PAGE = (Path(__file__).parents[1] / "docs" / "features.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.+?)```", PAGE, flags=re.DOTALL)


class Classifier(nn.Module):
    """A small network with a last layer called `fc`."""

    def __init__(self) -> None:
        super().__init__()
        self.maps, self.fc = Maps(), nn.Linear(5, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(self.maps(images))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_file_made_as_the_page_says_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (made,) = [block for block in BLOCKS if "network.fc" in block]
    code = re.sub(r"network = \.\.\..*", "", made)
    exec(code, {"network": Classifier()})
    found = read_pretrained("network.onnx")
    assert (found.size, found.n_features) == (224, 5)


def test_the_python_of_the_page_makes_a_model_and_a_classifier(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_onnx(tmp_path / "lite0.onnx", size=160)
    names: dict[str, object] = {}
    exec(BLOCKS[-1], names)
    assert isinstance(names["model"], Model)
    assert names["model"].knowledge.spec["features"]["size"] == 160
    assert names["classifier"].features is names["features"]


def test_the_options_of_the_page_are_those_of_the_command_and_their_defaults_are_told_right(cli):
    told = cli("learn", "--help").out
    options = re.findall(r"`(--features[\w-]*)`", PAGE)
    assert {"--features-size", "--features-mean", "--features-std"} <= set(options)
    assert all(option in told for option in options)
    assert " ".join(map(str, MEAN)) in PAGE and " ".join(map(str, STD)) in PAGE
