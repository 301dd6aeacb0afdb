"""A body and one linear head per task; without a task the heads' logits are joined in task order."""

from __future__ import annotations

import copy

import torch
from torch import nn

from snv.networks.body import Body, linear
from snv.networks.layers import MAPS
from snv.seeding import generator
from snv.shapes import Features, Images, Logits


class Network(nn.Module):
    """What learners train: ``body`` gives features, ``heads[t]`` the logits of task t."""

    def __init__(self, body: Body, seed: int) -> None:
        super().__init__()
        self.body = body
        self.heads = nn.ModuleList()
        self.seed = seed

    @property
    def head_sizes(self) -> list[int]:
        """How many classes each head tells apart, in task order."""
        return [head.out_features for head in self.heads]  # type: ignore[misc]

    def head(self, t: int) -> nn.Linear:
        """The head of task t; −1 is the newest."""
        head = self.heads[t]
        assert isinstance(head, nn.Linear)
        return head

    def fresh_head(self, start: int, k: int) -> nn.Linear:
        """The untrained head of the ``k`` classes from ``start`` on: a pure function of the seed, start and k."""
        head = linear(self.body.n_features, k, rng=generator(self.seed, "head", start))
        return head.to(next(self.body.parameters()).device)

    def add_head(self, k: int) -> nn.Linear:
        """Append the head of the next task and return it."""
        head = self.fresh_head(sum(self.head_sizes), k)
        self.heads.append(head)
        return head

    def remove_heads(self) -> None:
        self.heads = nn.ModuleList()

    def features(self, images: Images) -> Features:
        return self.body(images)

    def forward(self, images: Images, task: int | None = None) -> Logits:
        """Logits of one task's head, or of all heads side by side."""
        return self.classify(self.body(images), task)

    def classify(self, features: Features, task: int | None = None) -> Logits:
        """Logits from features that were computed before."""
        if len(self.heads) == 0:
            raise ValueError("The network has no head yet, so there are no logits; call add_head(n_classes) first.")
        if task is not None:
            logits: Logits = self.heads[task](features)
            return logits
        return torch.cat([head(features) for head in self.heads], dim=1)


def frozen_copy(network: Network, n_heads: int | None = None) -> Network:
    """The network with its first heads (by default all), not to be trained: its norm layers stand still too."""
    twin = copy.deepcopy(network)
    twin.heads = twin.heads[:n_heads]
    return twin.eval().requires_grad_(False)


def bytes_of(module: nn.Module) -> int:
    """Of its parameters and buffers."""
    return sum(x.nbytes for x in module.state_dict().values())


def n_parameters(*modules: nn.Module) -> int:
    return sum(p.numel() for module in modules for p in module.parameters())


def n_units(*modules: nn.Module) -> int:
    """Filters of convolutions and units of linear layers."""
    return sum(m.weight.shape[0] for module in modules for m in module.modules() if isinstance(m, MAPS))


class Specialist(nn.Module):
    """A network as one task sees it: the shared body with that task's head, or with all heads."""

    def __init__(self, network: Network, task: int | None) -> None:
        super().__init__()
        self.body, self.heads, self.task = network.body, network.heads, task

    def forward(self, images: Images) -> Logits:
        features = self.body(images)
        heads = self.heads if self.task is None else [self.heads[self.task]]
        return torch.cat([head(features) for head in heads], dim=1)
