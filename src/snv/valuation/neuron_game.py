"""The game whose players are the neurons of a trained network."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, Protocol

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from snv import ranks
from snv.neurons import Forward, Means, Neurons, evaluating, find_neurons, mean_responses_to, silent_responses
from snv.seeding import generator
from snv.shapes import Gates, Indices, Mask
from snv.shapley import Coalitions, Game, Payoffs
from snv.shortage import halving
from snv.valuation.examples import Examples, as_examples, in_batches
from snv.valuation.hooked import Hooked, gated_logits, n_bytes
from snv.valuation.payoffs import Payoff, Terms, make_payoff
from snv.valuation.prefix import Plan, Replay, Untraceable, traced

log = logging.getLogger(__name__)

ROWS = 16  # examples per forward pass and coalition; the rest of the memory goes to further coalitions
MEMORY = {"cpu": 2**28}  # bytes; on a processor, tensors that outgrow the cache are slower than more of smaller ones
ELSEWHERE = 2**30
LEAST = 2**14  # less is not tried where memory runs out
BLOCK = 512  # coalitions laid out at once
SUMMED = 1024  # parts of a gradient that are added up together


class NeuronGame(Game):
    """V(S): the score of ``model`` on ``images`` with every neuron outside S held at its mean response.

    ``images`` is a tensor, or `Examples`, of which a batch at a time is fetched. Besides them an evaluation keeps one
    number per example and coalition (their logits, if the payoff is one number for all examples).

    With ``silent`` neurons outside S say nothing at all, as in a subnetwork that was cut out.

    ``memory`` bounds the activations alive at once, in bytes (256 MiB on a processor, 1 GiB elsewhere): as many
    coalitions and examples share a forward pass as fit, and at least one of each. What coalitions have in common is
    computed once wherever the model can be traced (``shares_prefixes``), so flips, and coalitions that grow along a
    permutation, cost a fraction of a forward pass.
    """

    differentiable = True

    def __init__(
        self,
        model: nn.Module,
        images: Tensor | Examples,
        labels: Tensor,
        neurons: Neurons | None = None,
        payoff: str | Terms | Payoff = "loss",
        *,
        means: Means | None = None,
        silent: bool = False,
        groups: Tensor | None = None,
        forward: Forward | None = None,
        memory: int | None = None,
        share_prefixes: bool = True,
    ) -> None:
        if len(images) == 0 or len(images) != len(labels):
            raise ValueError(f"every image needs a label, and there must be some; got {len(images)} and {len(labels)}")
        self.model, self.images, self.labels = model, images, labels
        self.examples = as_examples(images)
        self.forward: Forward = forward or model
        self.n_examples = len(labels)
        few = next(self.examples.batches([torch.arange(min(2, self.n_examples))]))
        self.memory = memory or MEMORY.get(few.device.type, ELSEWHERE)
        self.neurons = neurons or find_neurons(model, few, forward=forward)
        self.n = self.neurons.n
        with self._at_rest(), torch.inference_mode():
            self._layout = _fastest_layout(self.forward, self.neurons, few)
        if means is None:
            batches = self._batches(in_batches(self.n_examples)[ranks.rank() :: ranks.size()])
            means = mean_responses_to(model, self.neurons, batches, forward)
        self.means = silent_responses(self.neurons, means) if silent else means
        with self._at_rest(), torch.inference_mode():
            few = few.contiguous(memory_format=self._layout)
            logits = self.forward(few)
            _check_independence(logits, torch.cat([self.forward(image[None]) for image in few]))
            self.payoff = make_payoff(payoff, logits, labels[: len(few)], groups)
            self._engine = self._choose_engine(few, share_prefixes)
        self.samples_examples = self.payoff.samples_examples

    def __reduce__(self) -> tuple[Callable[..., NeuronGame], tuple[Any, ...]]:
        """On its way to another process: what it is made of, to be made there with the same means."""
        images = self.images.clone() if isinstance(self.images, Tensor) else self.images  # not what it is a part of
        make = partial(
            NeuronGame,
            means=self.means,
            forward=self.forward,
            memory=self.memory,
            share_prefixes=self.shares_prefixes,
        )
        return make, (self.model, images, self.labels.clone(), self.neurons, self.payoff)

    @property
    def names(self) -> list[str]:
        """One per player, such as ``layer1.0.conv1[17]``."""
        return self.neurons.names

    @property
    def layers(self) -> list[str]:
        """The layer of each player."""
        return [layer.name for layer in self.neurons.layers for _ in range(layer.n)]

    @property
    def shares_prefixes(self) -> bool:
        return isinstance(self._engine, Replay)

    @property
    def engine(self) -> str:
        """How coalitions are evaluated, in words."""
        return "shared prefixes" if self.shares_prefixes else "whole forward passes"

    @cached_property
    def everyone(self) -> float:
        """V(all): the network as it is."""
        return self(torch.ones(self.n, dtype=torch.bool))

    @cached_property
    def no_one(self) -> float:
        """V(∅): every neuron at its mean."""
        return self(torch.zeros(self.n, dtype=torch.bool))

    def values(self, coalitions: Coalitions, rows: Indices | None = None) -> Payoffs:
        """V(S) of each coalition; neighbours that differ only in late layers are cheap."""
        rows = torch.arange(self.n_examples) if rows is None else rows
        most = max(1, min(BLOCK, self.memory // (8 * max(1, len(rows)))))  # each keeps a number per example
        payoffs, start = [torch.zeros(0, dtype=torch.float64)], 0
        with self._at_rest(), torch.inference_mode():
            while start < len(coalitions):
                gates = coalitions[start : start + most].to(self.means)
                (plan, part), self.memory = halving(partial(self._evaluated, gates, rows), self.memory, LEAST)
                payoffs.append(part)
                self.evaluations += plan.cost * len(rows) / self.n_examples
                start += len(plan.gates)
        return torch.cat(payoffs)

    def flips(self, coalition: Mask, players: Indices, rows: Indices | None = None) -> Payoffs:
        """V(S ∪ i) − V(S ∖ i): one of the two is V(S), the other shares everything up to neuron i's layer with it."""
        order = players.argsort(stable=True)
        base = self.values(coalition[None], rows)
        flipped = base[:0]
        for block in torch.split(players[order], BLOCK):
            changed = coalition.repeat(len(block), 1)
            changed[torch.arange(len(block)), block] ^= True
            flipped = torch.cat([flipped, self.values(changed, rows)])
        marginals = torch.empty_like(flipped)
        marginals[order] = torch.where(coalition[players[order]], base - flipped, flipped - base)
        return marginals

    def gradient(self, gates: Gates, rows: Indices | None = None) -> tuple[Float64[Tensor, "p n"], Payoffs]:
        """∂v/∂m and v at each row of ``gates``; accuracy is continued by the probability of the true class."""
        rows = torch.arange(self.n_examples) if rows is None else rows
        found, self.memory = halving(partial(self._differentiated, gates, rows), self.memory, LEAST)
        self.evaluations += 3 * len(gates) * len(rows) / self.n_examples
        return found

    def _differentiated(self, gates: Gates, rows: Indices, memory: int) -> tuple[Float64[Tensor, "p n"], Payoffs]:
        """The same within so much memory."""
        room = max(1, memory // self._bytes_to_differentiate)
        together = max(1, room // len(rows)) if self.neurons.batchable else 1
        slopes, values = [], []
        with self._at_rest(), _frozen(self.model):
            for part in torch.split(gates, together):
                slope, value = self._slopes(part, rows, max(1, room // len(part)))
                slopes.append(slope)
                values.append(value)
        return torch.cat(slopes), torch.cat(values)

    def _slopes(self, gates: Gates, rows: Indices, at_once: int) -> tuple[Float64[Tensor, "p n"], Payoffs]:
        """The same for as many coalitions as fit, ``at_once`` rows at a time: one part's graph is alive at once."""
        leaves = [part.to(self.means).clone().requires_grad_() for _, part in self.neurons.by_layer(gates)]
        chunks = torch.split(rows, at_once)
        if len(chunks) > 1 and not self.samples_examples:
            return self._slopes_of_whole(leaves, rows, chunks)
        slopes, values = torch.zeros(gates.shape, dtype=torch.float64), torch.zeros(len(gates), dtype=torch.float64)
        for first in range(0, len(chunks), SUMMED):
            some = chunks[first : first + SUMMED]
            parts = [
                self._slopes_of_part(leaves, images, chunk)
                for images, chunk in zip(self._batches(some), some, strict=True)
            ]
            shares = torch.tensor([len(chunk) / len(rows) for chunk in some], dtype=torch.float64)
            slope, value = (torch.stack(part) for part in zip(*parts, strict=True))
            slopes, values = slopes + torch.tensordot(shares, slope, 1), values + shares @ value
        return slopes, values

    def _slopes_of_part(
        self, leaves: list[Tensor], images: Tensor, rows: Indices
    ) -> tuple[Float64[Tensor, "p n"], Payoffs]:
        """∂v/∂m and v on some rows, for payoffs that are means over rows."""
        values = self.payoff.smooth(self._gated_logits(leaves, images), self.labels[rows], rows)
        slopes = torch.autograd.grad(values.sum(), leaves, materialize_grads=True)
        return torch.cat(slopes, dim=1).double().cpu(), values.detach().double().cpu()

    def _slopes_of_whole(
        self, leaves: list[Tensor], rows: Indices, chunks: Sequence[Indices]
    ) -> tuple[Float64[Tensor, "p n"], Payoffs]:
        """For any other payoff: v's slope in all logits first, then pulled back chunk by chunk."""
        with torch.no_grad():
            logits = torch.cat([self._gated_logits(leaves, images) for images in self._batches(chunks)], dim=1)
        values = self.payoff.smooth(logits.requires_grad_(), self.labels[rows], rows)
        pull = torch.autograd.grad(values.sum(), logits)[0]
        slopes = torch.zeros(len(leaves[0]), self.n, dtype=torch.float64)
        for images, slope in zip(self._batches(chunks), torch.split(pull, len(chunks[0]), dim=1), strict=True):
            part = torch.autograd.grad(self._gated_logits(leaves, images), leaves, slope, materialize_grads=True)
            slopes += torch.cat(part, dim=1).double().cpu()
        return slopes, values.detach().double().cpu()

    def _evaluated(self, gates: Gates, rows: Indices, memory: int) -> tuple[Plan, Tensor]:
        """As many of these coalitions as share a forward pass within so much memory, and V of each."""
        plan = self._engine.plan(gates, min(ROWS, len(rows)), memory)
        return plan, self._payoffs(plan, rows)

    def _payoffs(self, plan: Plan, rows: Indices) -> Payoffs:
        """V of the coalitions of a plan; of each example only what V needs is kept, and processes share them."""
        chunks = torch.split(rows, plan.examples)
        mine = chunks[ranks.rank() :: ranks.size()]
        parts = [
            self.payoff.parts(self._engine.logits(images, plan, self.means), self.labels[chunk])
            for images, chunk in zip(self._batches(mine), mine, strict=True)
        ]
        if ranks.size() > 1:
            parts = [part.to(self.labels.device) for part in ranks.interleaved([part.cpu() for part in parts])]
        return self.payoff.total(torch.cat(parts, dim=1), self.labels[rows], rows).cpu()

    def _gated_logits(self, leaves: list[Tensor], images: Tensor) -> Float[Tensor, "p b k"]:
        return gated_logits(self.forward, self.neurons, leaves, self.means, images)

    def _batches(self, order: Sequence[Indices]) -> Iterator[Tensor]:
        """The inputs of each vector of rows, as the network takes them fastest."""
        for images in self.examples.batches(order) if order else ():
            yield images.contiguous(memory_format=self._layout)

    @contextmanager
    def _at_rest(self) -> Iterator[None]:
        """Evaluation mode; and whatever a model or a payoff draws at random leaves no trace."""
        with evaluating(self.model), torch.random.fork_rng(devices=[]):
            yield

    def _choose_engine(self, few: Tensor, share_prefixes: bool) -> Engine:
        """Shared prefixes if the model can be traced and then answers as it does with hooks; else whole passes."""
        hooked = Hooked(self.forward, self.neurons)
        hooked.profile(self.model, few[:1])
        if not share_prefixes:
            return hooked
        gates = torch.rand(3, self.n, generator=generator(0, "engine check")).round().to(self.means)
        try:
            replay = traced(self.model, self.neurons, self.forward)
            replay.profile(few[:1])
            ours = replay.logits(few, replay.plan(gates, len(few), memory=2**62), self.means)
        except (Untraceable, RuntimeError, NotImplementedError) as error:
            log.warning(
                "Every coalition costs a whole forward pass, because the model cannot be followed step by step: %s. "
                "Values are the same; estimators that flip neurons or walk permutations take several times as long.",
                error,
            )
            return hooked
        truth = torch.cat([hooked.logits(few, Plan(gate[None], len(few), 1.0), self.means) for gate in gates])
        if _close(ours, truth):
            return replay
        log.warning(
            "The model followed step by step answers differently from the model itself: logits of size %.3g differ by "
            "up to %.3g. Whole forward passes are used, so values are right, but this is a defect of snv, or the model "
            "computes something else each time it is called. Please report it.",
            float(truth.abs().amax()),
            float((ours - truth).abs().amax()),
        )
        return hooked

    @cached_property
    def _bytes_to_differentiate(self) -> int:
        """What a backward pass keeps of one example, or the example itself, if that is larger."""
        sizes: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            sizes[tensor.data_ptr()] = n_bytes(tensor)
            return tensor

        weights = {p.data_ptr() for p in [*self.model.parameters(), *self.model.buffers()]}
        leaves = [torch.ones(1, layer.n).to(self.means).requires_grad_() for layer in self.neurons.layers]
        hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
        one = next(self._batches([torch.zeros(1, dtype=torch.long)]))
        with self._at_rest(), _frozen(self.model), hooks:
            self._gated_logits(leaves, one)
        return max(n_bytes(one), sum(size for place, size in sizes.items() if place not in weights))


class Engine(Protocol):
    """Logits of several coalitions at once."""

    def plan(self, gates: Gates, examples: int, memory: int) -> Plan: ...

    def logits(self, images: Tensor, plan: Plan, means: Means) -> Float[Tensor, "p b k"]: ...


def _fastest_layout(forward: Forward, neurons: Neurons, images: Tensor) -> torch.memory_format:
    """Channels last for two-dimensional convolutions, unless the model takes views that this layout does not have."""
    if images.ndim != 4 or not any(isinstance(layer.module, nn.Conv2d) for layer in neurons.layers):
        return torch.contiguous_format
    try:
        forward(images.contiguous(memory_format=torch.channels_last))
    except RuntimeError:
        return torch.contiguous_format
    return torch.channels_last


def _check_independence(together: Tensor, alone: Tensor) -> None:
    """Coalitions and examples share batches, so an answer must not depend on its neighbours."""
    if together.shape != alone.shape or not _close(together, alone):
        raise ValueError(
            "The model answers an example differently when another one is in the batch, also in evaluation mode, so V "
            "would depend on the batch size. Remove what mixes examples, e.g. statistics over the batch axis."
        )


def _close(ours: Tensor, truth: Tensor) -> bool:
    return torch.allclose(ours, truth, rtol=1e-3, atol=1e-4 * float(truth.abs().amax()))


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """No parameter needs a gradient inside the block."""
    before = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        for parameter, _ in before:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter, needed in before:
            parameter.requires_grad_(needed)
