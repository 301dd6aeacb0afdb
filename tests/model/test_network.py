"""A model is made around any network that can be cut, and no other."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from drawn import small_model
from snv import Model, UserError
from taught import all_unchanged, answers


class Own(nn.Module):
    def __init__(self, extra: nn.Module | None = None, n: int = 12) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.norm, self.two = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Conv2d(8, n, 3, stride=2)
        self.extra = extra if extra is not None else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.extra(torch.relu(self.two(torch.relu(self.norm(self.one(x)))))).mean((2, 3))


class Undecided(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) if x.sum() > 0 else super().forward(-x)


class Dropping(nn.Module):
    def __init__(self, always: bool = False) -> None:
        super().__init__()
        self.always = always

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.3) if self.always else F.dropout(x, 0.3, self.training)


def test_dropout_as_a_function_learns_as_the_layer_does_bit_for_bit(pictures):
    models = [Model.create(network=Own(extra), size=16) for extra in (Dropping(), nn.Dropout(0.3))]
    for model in models:
        model.learn(pictures / "birds", epochs=3)
        assert all_unchanged(model)
    assert answers(models[0], None) == answers(models[1], None)


def test_a_network_of_ones_own_learns_and_is_needed_to_open_the_model(pictures, tmp_path):
    model = Model.create(tmp_path / "own.snv", network=Own(), size=16)
    for name in ("birds", "fish"):
        model.learn(pictures / name, epochs=2)
    assert all_unchanged(model)
    with pytest.raises(UserError, match="network of your own; give it again"):
        Model.open(model.path)
    with pytest.raises(UserError, match="Give the network it was made with"):
        Model.open(model.path, network=Own(n=13))
    again = Model.open(model.path, network=Own())
    assert answers(again, None) == answers(model, None)
    assert all_unchanged(again)


AGAIN = nn.Conv2d(12, 12, 1)

UNCUT = {
    "a norm without weights": (Own(nn.GroupNorm(2, 12, affine=False)), "turns the zeros of silent neurons"),
    "a sigmoid": (Own(nn.Sigmoid()), "turns the zeros of silent neurons"),
    "grouped convolution": (Own(nn.Conv2d(12, 12, 1, groups=3)), "cut out"),
    "weight norm": (Own(nn.utils.parametrizations.weight_norm(nn.Conv2d(12, 12, 1))), "computed from other tensors"),
    "spectral norm": (Own(nn.utils.spectral_norm(nn.Conv2d(12, 12, 1))), "computed from other tensors"),
    "a layer twice": (Own(nn.Sequential(AGAIN, nn.ReLU(), AGAIN)), "calls a Conv2d layer twice"),
    "dropout in answers too": (Own(Dropping(always=True)), r"given training=True when that answers .*use nn\.Dropout"),
    "a decision": (Undecided(), "cut out"),
}


@pytest.mark.parametrize(("module", "message"), UNCUT.values(), ids=UNCUT)
def test_a_network_that_cannot_be_cut_is_refused_before_anything_is_learned(module, message, tmp_path):
    with pytest.raises(UserError, match=message):
        Model.create(tmp_path / "own.snv", network=module, size=16)
    assert not (tmp_path / "own.snv").exists()


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"network": nn.Conv2d(3, 4, 3)}, r"gives \(2, 4, 14, 14\)"),
        ({"network": nn.Linear(3, 4)}, "cannot read images"),
        ({"network": "resnet"}, "Did you mean 'resnet18'"),
        ({"channels": 2}, "1 channel .* or 3"),
        ({"size": 0}, "at least 1"),
        ({"capacity": 0.0}, "capacity"),
        ({"device": "cuda:99"}, "Device 'cuda:99' cannot be used"),
    ],
)
def test_what_cannot_be_made_is_refused_with_a_reason(options, answer):
    with pytest.raises(UserError, match=answer):
        small_model(**{"width": None} | options)


def test_a_network_is_given_only_to_models_made_with_one(model):
    with pytest.raises(UserError, match="made with the network 'convnet'"):
        Model.open(model.path, network=Own())
