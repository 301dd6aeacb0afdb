"""Gradients of cut-out, own and dense networks with few channels against a plain float64 reference; run by
`test_strided.py` in processes of its own, because a wrong one may end the process. Prints the largest error of each."""

from __future__ import annotations

import copy
import json
import sys

import torch
from torch import Tensor, nn

from snv.networks import OwnBody, build_network
from snv.neurons.find import find_neurons
from snv.subnetworks.cutting import compact
from snv.subnetworks.subnetwork import subnetwork_of

WIDEST = 17
SHAPE = (3, 12, 12)
LAYOUTS = {"channels last": torch.channels_last, "contiguous": torch.contiguous_format}


class EveryKind(nn.Module):
    """A body with every kind of layer that can be cut out."""

    def __init__(self, stride: int, channels: int = WIDEST) -> None:
        super().__init__()
        c = channels
        self.stem = nn.Sequential(nn.Conv2d(3, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU())
        self.narrow = nn.Sequential(nn.Conv2d(c, c, 1, stride, bias=False), nn.BatchNorm2d(c))
        self.broad = nn.Sequential(nn.Conv2d(c, c, 3, stride, 1), nn.BatchNorm2d(c), nn.SiLU())
        self.broader = nn.Sequential(nn.Conv2d(c, c, 5, stride, 2), nn.MaxPool2d(2), nn.Tanh())
        self.dilated = nn.Sequential(nn.Conv2d(c, c, 3, 1, 2, dilation=2), nn.LeakyReLU(), nn.AdaptiveAvgPool2d(2))
        self.linear = nn.Sequential(nn.Linear(4 * c, c), nn.BatchNorm1d(c), nn.GELU())

    def forward(self, images: Tensor) -> Tensor:
        x = self.stem(images)
        x = torch.relu(self.broad(x) + self.narrow(x))
        features: Tensor = self.linear(self.dilated(self.broader(x)).flatten(1))
        return features


def cut_out(channels: int, stride: int) -> nn.Module:
    """A subnetwork that keeps so many channels of every layer, not the same ones of all."""
    body = EveryKind(stride).eval()
    neurons = find_neurons(body, torch.zeros(2, *SHAPE), include=["*"])
    mask = torch.zeros(neurons.n, dtype=torch.bool)
    for i, layer in enumerate(neurons.layers):
        mask[layer.start + (i + torch.arange(channels)) % layer.n] = True
    return compact(body, nn.Linear(WIDEST, 3), neurons, subnetwork_of(body, neurons, mask), SHAPE)[0]


def dense(channels: int, stride: int) -> nn.Module:
    """A user's network with few channels."""
    return OwnBody(EveryKind(stride, channels), SHAPE)


def resnet(channels: int, stride: int) -> nn.Module:
    return build_network("resnet18", SHAPE, seed=0, width=channels, stem="3x3/2" if stride == 2 else "3x3").body


NETWORKS = {
    "cut out": (cut_out, range(1, WIDEST + 1)),
    "own": (dense, (1, 3, 6, 8, 13)),
    "resnet18": (resnet, (2, 7, 9)),
}
"""How to make each, and for which numbers of channels."""


def plain(network: nn.Module) -> nn.Module:
    """The same in float64, by nothing but PyTorch's own code."""
    twin = copy.deepcopy(network).double()
    for module in twin.modules():
        module.__dict__.pop("_conv_forward", None)
    return twin.to(memory_format=torch.contiguous_format)


def gradients(network: nn.Module, images: Tensor) -> list[Tensor]:
    network.train()
    leaf = images.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    out = network(leaf)
    pull = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    wanted = [leaf, *(p for p in network.parameters() if p.requires_grad)]
    return list(torch.autograd.grad((out * pull.to(out)).sum(), wanted))


def error(network: nn.Module, images: Tensor) -> float:
    """The largest relative error of any gradient; those that are 0 but for rounding are measured against all."""
    ours, truth = gradients(network, images), gradients(plain(network), images.double().contiguous())
    size = max(float(g.norm()) for g in truth)
    return max(float((a - b).norm() / max(float(b.norm()), 1e-2 * size)) for a, b in zip(ours, truth, strict=True))


def main() -> None:
    torch.manual_seed(0)
    kinds = sys.argv[1:] or list(NETWORKS)
    worst: dict[str, float] = {}
    for kind in kinds:
        make, numbers = NETWORKS[kind]
        for channels in numbers:
            for stride in (1, 2):
                made = make(channels, stride)
                images = torch.randn(4, *SHAPE)
                for name, layout in LAYOUTS.items():
                    for threads in (1, 2):
                        torch.set_num_threads(threads)
                        network = copy.deepcopy(made).to(memory_format=layout)
                        found = error(network, images.contiguous(memory_format=layout))
                        worst[f"{kind}, {channels} channels, stride {stride}, {name}, {threads} threads"] = found
    sys.stdout.write(json.dumps(worst) + "\n")


if __name__ == "__main__":
    main()
