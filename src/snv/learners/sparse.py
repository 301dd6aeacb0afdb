"""What sparse methods have in common: a network of units and connections, most of which do not exist."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from snv.components import Frozen, Masks
from snv.errors import UserError
from snv.learners.base import Learner
from snv.networks import Body, Network, use_instance_norm
from snv.neurons import Connections, find_neurons, units_of
from snv.training import Batch, Setting, Stage, descend

log = logging.getLogger(__name__)

Which: TypeAlias = Literal["native", "adapted"]
"""The network of the method's authors, or the run's with InstanceNorm, of which they say nothing."""

C = TypeVar("C")


def check_idle(config: Any, name: str) -> None:
    """A setting of the paper's grid that the method has no term for: accepted, and said to do nothing."""
    value, default = getattr(config, name), getattr(type(config), name)
    if value <= 0:
        raise UserError(f"learner.{name} is positive; got {value}. Leave it at {default}: it changes nothing.")
    if value != default:
        log.info("learner.%s has no counterpart in this method, so it changes nothing", name)


def check_sparsity(sparsity: float | None) -> None:
    if sparsity is not None and not 0 <= sparsity < 1:
        raise UserError(
            f"learner.sparsity is the share of connections left out, so it lies in [0, 1); got {sparsity}. Try 0.5."
        )


class SparseLearner(Learner[C]):
    """Weights are connections between units; one that does not exist is a zero that no step moves.

    A kernel of a convolution is one connection. In a residual network the convolutions that add to one stream share its
    units. Norm layers other than InstanceNorm would tie units to each other, so the run's network loses them.
    """

    def __init__(self, setting: Setting, config: C | None, native: Body | None) -> None:
        super().__init__(setting, config)
        if native is None:
            use_instance_norm(self.network.body)
        else:
            self.network = Network(native, setting.seed)
        self.network.to(setting.device)
        if setting.train.channels_last:
            self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        example = torch.zeros(2, *setting.preprocess.shape, device=setting.device)
        try:
            self.neurons = find_neurons(self.network.body, example, include=["*"])
        except ValueError as error:  # of InstanceNorm
            raise UserError(
                f"These images of {'×'.join(map(str, setting.preprocess.shape[1:]))} pixels shrink to one position in "
                f"the network, which InstanceNorm cannot measure. Use a shallower network. ({error})"
            ) from None
        self.units = units_of(self.neurons)
        self.frozen = Frozen([])  # what a step must not move, of body and newest head

    def connections(self) -> list[Connections]:
        """Of the body and, while there is one, of the newest head."""
        heads = [self.network.head(-1)] if len(self.network.heads) else []
        return [*self.units.connections, *map(self.units.head, heads)]

    def parameters(self, stage: Stage) -> Iterable[nn.Parameter]:
        """Those of the body and of the newest head: older heads are done."""
        return [*self.network.body.parameters(), *self.network.head(-1).parameters()]

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        """One update of what may move; everything else stays bit-identical."""
        return descend(
            self.losses(batch), optimizer, batch.stage.settings.clip_norm, self.before_update, self.after_update
        )

    def before_update(self) -> None:
        self.frozen.clear_gradients()

    def after_update(self) -> None:
        self.frozen.restore()

    def share_in_use(self, masks: Masks) -> dict[str, float]:
        """CAP: existing connections with the parameters of each neuron that has one, of all in the body."""
        kernels = {c.name: c.weight.numel() // c.weight.shape[:2].numel() for c in self.units.connections}
        used = torch.cat([masks[layer.name].any(1) for layer in self.neurons.layers])
        others = [owned for owned in self.neurons.owned if owned.role in ("bias", "norm")]
        count = sum(int(masks[name].sum()) * n for name, n in kernels.items())
        count += sum(int(used[owned.owner].sum()) for owned in others)
        total = sum(p.numel() for p in self.network.body.parameters())
        return {"parameters": count / total, "neurons": float(used.double().mean())}

    def bytes_of_masks(self) -> int:
        """One byte per connection of the body, and one per unit."""
        return sum(c.weight.shape[:2].numel() for c in self.units.connections) + self.units.n
