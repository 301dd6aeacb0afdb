"""Cut out and folded, a network with any activation answers as before; what a fold cannot do is left as it was."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snv.errors import UserError
from snv.networks.layers import KINDS
from snv.neurons.find import find_neurons
from snv.subnetworks.cutting import Compact, Merge, compact, require_cuttable
from snv.subnetworks.folding import Plain, folded
from snv.subnetworks.select import select
from snv.subnetworks.subnetwork import masked, subnetwork_of

SHAPE = (3, 8, 8)

POINTWISE = {kind: row for kind, row in KINDS.items() if row.family == "pointwise"}
FROM_ZERO = ("Sigmoid", "Hardsigmoid", "Softplus")
"""What turns 0 into another number, so silent neurons would not be silent behind it."""
MODULES = {kind.__name__: kind() for kind in POINTWISE if kind.__name__ not in FROM_ZERO}
FUNCTIONS = {
    name: getattr(F, name, None) or getattr(torch, name)
    for kind, row in POINTWISE.items()
    for name in row.functions
    if kind.__name__ not in FROM_ZERO and "dropout" not in name
}
WITH_SETTINGS = {
    "leaky_relu, 0.5": lambda x: F.leaky_relu(x, 0.5),
    "leaky_relu, all by name": lambda x: F.leaky_relu(input=x, negative_slope=0.5),
    "gelu, tanh": lambda x: F.gelu(x, approximate="tanh"),
    "elu, 2": lambda x: F.elu(x, alpha=2.0),
    "relu, in place": lambda x: F.relu(x, inplace=True),
    "a method": lambda x: x.tanh(),
    "module, leaky_relu": nn.LeakyReLU(0.5),
    "module, gelu": nn.GELU(approximate="tanh"),
    "module, elu": nn.ELU(2.0),
    "module, silu in place": nn.SiLU(inplace=True),
}
ACTIVATIONS = {**MODULES, **FUNCTIONS, **WITH_SETTINGS}


class Residual(nn.Module):
    """Padded convolutions with two sums; the activation is one object called four times."""

    def __init__(self, activation):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.layers = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(3))
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(3))
        self.activation = activation

    def branch(self, i: int, x: Tensor) -> Tensor:
        return self.norms[i](self.layers[i](x))

    def forward(self, images: Tensor) -> Tensor:
        x = self.activation(self.first(images))
        x = self.activation(x + self.branch(0, x))
        x = self.activation(x + self.branch(1, x))
        return self.activation(self.branch(2, x)).mean((2, 3))


class Straight(Residual):
    def forward(self, images: Tensor) -> Tensor:
        x = self.activation(self.first(images))
        for i in range(3):
            x = F.max_pool2d(self.activation(self.branch(i, x)), 3, stride=1, padding=1)
        return x.mean((2, 3))


class NormFirst(Residual):
    def forward(self, images: Tensor) -> Tensor:
        x = self.first(images)
        for i in range(3):
            x = x + self.layers[i](self.activation(self.norms[i](x)))
        return self.activation(x).mean((2, 3))


class Fork(Residual):
    def forward(self, images: Tensor) -> Tensor:
        x = self.activation(self.first(images))
        y, z = self.activation(x + self.branch(0, x)), self.activation(x + self.branch(1, x))
        return self.activation(y + self.branch(2, z)).mean((2, 3))


def cut(body: nn.Module) -> tuple[Compact, Tensor, Tensor]:
    """Half of a network cut out, images, and what the masked network says about them."""
    torch.manual_seed(0)
    for parameter in body.parameters():
        nn.init.normal_(parameter, std=0.3)
    images, head = torch.randn(6, *SHAPE), nn.Linear(8, 4)
    body.train()(images)
    neurons = find_neurons(body.eval(), images[:2], include=["*"])
    mask = select(torch.rand(neurons.n), neurons.layer_index, neurons.n // 2)
    subnetwork = subnetwork_of(body, neurons, mask)
    with torch.no_grad(), masked(body, neurons, subnetwork):
        expected = head(body(images))
    return compact(body, head, neurons, subnetwork, SHAPE)[0].eval(), images, expected


@pytest.mark.parametrize(
    ("build", "activation"),
    [(Residual, name) for name in ACTIVATIONS]
    + [(build, name) for build in (Straight, NormFirst, Fork) for name in ("relu", "gelu", "Tanh", "relu, in place")],
)
def test_any_activation_is_cut_out_and_folded_exactly(build, activation):
    small, images, expected = cut(build(ACTIVATIONS[activation]))
    with torch.no_grad():
        torch.testing.assert_close(small(images), expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(folded(small)(images), expected, rtol=1e-5, atol=3e-6)


@pytest.mark.parametrize("kind", [kind for kind in POINTWISE if kind.__name__ in FROM_ZERO])
def test_an_activation_that_would_end_silence_is_refused(kind):
    body = Residual(kind()).eval()
    neurons = find_neurons(body, torch.zeros(2, *SHAPE), include=["*"])
    with pytest.raises(UserError, match=f"{kind.__name__}' turns the zeros of silent neurons into other numbers"):
        require_cuttable(body, neurons, SHAPE)


@pytest.mark.parametrize("activation", ["relu", "gelu", "a method"])
def test_sums_and_norm_layers_are_gone_where_sums_follow_each_other(activation):
    small, *_ = cut(Residual(ACTIVATIONS[activation]))
    kinds = {type(part) for part in folded(small).body.children()}
    assert Merge in {type(part) for part in small.body.children()}
    assert Plain in kinds
    assert not kinds & {Merge, nn.BatchNorm2d}


@pytest.mark.parametrize("build", [NormFirst, Fork])
def test_sums_stay_where_others_would_find_their_channels(build):
    small, *_ = cut(build(nn.ReLU()))
    assert Merge in {type(part) for part in folded(small).body.children()}
