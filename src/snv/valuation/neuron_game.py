"""The game whose players are the neurons of a trained network."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, Protocol

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from snv.machine import halving, ranks
from snv.neurons import Forward, Means, Neurons, evaluating, find_neurons, mean_responses_to, silent_responses
from snv.seeding import generator
from snv.shapes import Gates, Indices, Mask
from snv.shapley import Coalitions, Game, Payoffs
from snv.valuation.examples import Examples, LaidOut, as_examples, in_batches
from snv.valuation.hooked import Hooked
from snv.valuation.payoffs import Payoff, Terms, make_payoff
from snv.valuation.prefix import Plan, Replay, Untraceable, traced
from snv.valuation.slopes import Slopes

log = logging.getLogger(__name__)

ROWS = 16  # examples per forward pass and coalition; the rest of the memory goes to further coalitions
MEMORY = {"cpu": 2**28}  # bytes; on a processor, tensors that outgrow the cache are slower than more of smaller ones
ELSEWHERE = 2**30
LEAST = 2**14  # less is not tried where memory runs out
BLOCK = 512  # coalitions laid out at once


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
            layout = _fastest_layout(self.forward, self.neurons, few)
        self._inputs = LaidOut(self.examples, layout)
        if means is None:
            batches = self._inputs.batches(in_batches(self.n_examples)[ranks.rank() :: ranks.size()])
            means = mean_responses_to(model, self.neurons, batches, forward)
        self.means = silent_responses(self.neurons, means) if silent else means
        with self._at_rest(), torch.inference_mode():
            few = few.contiguous(memory_format=layout)
            logits = self.forward(few)
            _check_independence(logits, torch.cat([self.forward(image[None]) for image in few]))
            self.payoff = make_payoff(payoff, logits, labels[: len(few)], groups)
            self._engine = self._choose_engine(few, share_prefixes)
        self.samples_examples = self.payoff.samples_examples
        self._slopes = Slopes(model, self.forward, self.neurons, self.means, self.payoff, labels, self._inputs)

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
        with self._at_rest():
            found, self.memory = halving(partial(self._slopes.at, gates, rows), self.memory, LEAST)
        self.evaluations += 3 * len(gates) * len(rows) / self.n_examples
        return found

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
            for images, chunk in zip(self._inputs.batches(mine), mine, strict=True)
        ]
        if ranks.size() > 1:
            parts = [part.to(self.labels.device) for part in ranks.interleaved([part.cpu() for part in parts])]
        return self.payoff.total(torch.cat(parts, dim=1), self.labels[rows], rows).cpu()

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
