"""Values that come with training: what each neuron learned, and what it carries, without a valuation afterwards."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snv.errors import UserError
from snv.files import State
from snv.neurons import Forward, Neurons, Owned, evaluating, find_neurons, mean_responses_to
from snv.seeding import generator
from snv.shapes import Values
from snv.shapley import GradientSettings, Number, Valuation, gates_of_pair, how_many
from snv.valuation.examples import READ_AT_ONCE, Examples, as_examples
from snv.valuation.neuron_game import NeuronGame
from snv.valuation.payoffs import Terms

_COUNTERS = ("steps", "refreshed", "first_loss", "seconds")


class LearnedValues:
    """φ_i = −Σ_s ⟨∇_{θ_i} L_val, Δθ_i⟩: how much the moves of neuron i's own parameters lowered the validation loss.

    Δθ is what really happened between ``before_step`` and ``after_step``, whatever the optimiser and whatever was put
    back afterwards, so a frozen neuron gets exactly 0. ∇L_val is taken in evaluation mode and refreshed ``every`` few
    steps. Training is not disturbed: gradients, statistics and random numbers stay as they were.

    Note: this values what a neuron learned in this run, not what it carries, so it is no Shapley value of V.
    """

    def __init__(
        self,
        model: nn.Module,
        neurons: Neurons,
        images: Tensor | Examples,
        labels: Tensor,
        *,
        every: int = 4,
        forward: Forward | None = None,
        batch_size: int = 256,
    ) -> None:
        self.model, self.neurons, self.every, self.batch_size = model, neurons, every, batch_size
        self.examples, self.labels = as_examples(images), labels
        self.forward: Forward = forward or model
        self.steps = self.refreshed = 0
        self.first_loss = math.nan  # L_val when the first gradient was taken
        self.seconds = 0.0
        self._total = torch.zeros(neurons.n, dtype=torch.float64)
        self._slopes: list[Tensor] = []
        self._before: list[Tensor] | None = None

    @classmethod
    def of(cls, model: nn.Module, images: Tensor | Examples, labels: Tensor, *, every: int = 4) -> LearnedValues:
        """For all neurons of a model that returns logits."""
        few = next(as_examples(images).batches([torch.arange(min(2, len(images)))]))
        return cls(model, find_neurons(model, few), images, labels, every=every)

    def before_step(self) -> None:
        """Remember where the parameters are; call it before ``optimizer.step()``."""
        if self.steps % self.every == 0 or not self._slopes:
            self._refresh()
        self._before = [owned.tensor.detach().clone() for owned in self._blocks]

    def after_step(self) -> None:
        """Credit every neuron with the move of its parameters; call it when the step's last change is made."""
        if self._before is None:
            raise RuntimeError("after_step() needs to know where the step began; call before_step() first")
        for owned, slope, before in zip(self._blocks, self._slopes, self._before, strict=True):
            moved = owned.tensor.detach().double() - before.double()
            credit = -(slope.double() * moved).reshape(len(moved), -1).sum(1)
            self._total.index_add_(0, owned.owner, credit.cpu())
        self._before = None
        self.steps += 1

    @contextmanager
    def step(self) -> Iterator[None]:
        """Around one optimiser step: ``with learned.step(): optimizer.step()``."""
        self.before_step()
        yield
        self.after_step()

    def values(self) -> Values:
        """φ so far."""
        return self._total.clone()

    def valuation(self, k: Number = 0.1) -> Valuation:
        """φ so far as a result; its V(M) − V(∅) is the fall of the validation loss, heads and statistics included."""
        n = self.neurons.n
        return Valuation(
            method="in-run",
            seed=0,
            values=self.values(),
            stderr=torch.full((n,), math.inf, dtype=torch.float64),
            counts=torch.full((n,), self.steps),
            k=how_many(k, n),
            v_all=-self._loss_and_gradient([])[0],
            v_none=-self.first_loss,
            evaluations=1 + 3.0 * self.refreshed,
            seconds={"gradients": self.seconds},
            stopped=f"training ended after {self.steps} steps",
            names=tuple(self.neurons.names),
            layers=tuple(layer.name for layer in self.neurons.layers for _ in range(layer.n)),
        )

    def state_dict(self) -> State:
        return {
            **{name: getattr(self, name) for name in _COUNTERS},
            "total": self._total.clone(),
            "slopes": [slope.clone() for slope in self._slopes],
        }

    def load_state_dict(self, state: State) -> None:
        _check_size(state["total"], self.neurons)
        for name in _COUNTERS:
            setattr(self, name, state[name])
        self._total = state["total"].clone()
        self._slopes = [
            slope.to(owned.tensor.device) for slope, owned in zip(state["slopes"], self._blocks, strict=False)
        ]
        self._before = None

    @property
    def _blocks(self) -> list[Owned]:
        return [owned for owned in self.neurons.owned if owned.role != "statistic"]

    def _refresh(self) -> None:
        """Take ∇L_val of every block; parameters that are not trained count as constant."""
        started = time.perf_counter()
        tensors = [owned.tensor for owned in self._blocks]
        loss, found = self._loss_and_gradient([tensor for tensor in tensors if tensor.requires_grad])
        slopes = iter(found)
        self._slopes = [next(slopes) if tensor.requires_grad else torch.zeros_like(tensor) for tensor in tensors]
        self.first_loss = loss if self.refreshed == 0 else self.first_loss
        self.refreshed += 1
        self.seconds += time.perf_counter() - started

    def _loss_and_gradient(self, trained: list[Tensor]) -> tuple[float, list[Tensor]]:
        """L_val in evaluation mode and its gradient, without touching ``.grad``."""
        value, total = 0.0, [torch.zeros_like(tensor) for tensor in trained]
        grads = torch.enable_grad() if trained else torch.no_grad()
        with evaluating(self.model), torch.random.fork_rng(devices=[]), grads:
            chunks = torch.split(torch.arange(len(self.labels)), self.batch_size)
            for images, rows in zip(self.examples.batches(chunks), chunks, strict=True):
                losses = F.cross_entropy(self.forward(images), self.labels[rows], reduction="none")
                loss = losses.sum() / len(self.labels)
                value += float(loss.detach())
                found = torch.autograd.grad(loss, trained, materialize_grads=True) if trained else ()
                for sum_, slope in zip(total, found, strict=True):
                    sum_ += slope
        return value, total


class CarriedValues:
    """The mean over training steps of ∂v/∂m at random gates: the ``gradient`` estimator, spread over the last epochs.

    Every ``every``-th call of ``after_step`` takes one pair of gates on a minibatch of the validation data, with mean
    responses of that minibatch. It values what neurons carry; start it when training is nearly done.
    """

    def __init__(
        self,
        model: nn.Module,
        neurons: Neurons,
        images: Tensor | Examples,
        labels: Tensor,
        seed: int,
        *,
        every: int = 10,
        examples: int = 64,
        payoff: str | Terms = "loss",
        forward: Forward | None = None,
    ) -> None:
        self.every, self.examples, self.seed = every, min(examples, len(labels)), seed
        self.game = NeuronGame(model, images, labels, neurons, payoff, forward=forward, share_prefixes=False)
        if not self.game.samples_examples:
            raise UserError("Values carried are averaged over minibatches, so the payoff must be a mean over examples.")
        self.steps = 0
        self.draws = 0
        self._total = torch.zeros(neurons.n, dtype=torch.float64)

    def before_step(self) -> None:
        """Nothing to remember; here so that any training loop can treat both forms alike."""

    def after_step(self) -> None:
        """Take one pair of gradients if it is time to."""
        if self.steps % self.every == 0:
            self._draw()
        self.steps += 1

    def values(self) -> Values:
        """Mean gate gradient so far."""
        if self.draws == 0:
            raise RuntimeError("no gradient was taken yet; call after_step() after each optimiser step")
        return self._total / self.draws

    def state_dict(self) -> State:
        return {"steps": self.steps, "draws": self.draws, "total": self._total.clone()}

    def load_state_dict(self, state: State) -> None:
        _check_size(state["total"], self.game.neurons)
        self.steps, self.draws, self._total = state["steps"], state["draws"], state["total"].clone()

    def _draw(self) -> None:
        game = self.game
        rows = torch.randperm(game.n_examples, generator=generator(self.seed, "in-run rows", self.draws))
        rows = rows[: self.examples]
        batches = game.examples.batches(torch.split(rows, READ_AT_ONCE))
        game.means = mean_responses_to(game.model, game.neurons, batches, game.forward)
        gates = gates_of_pair(game.n, GradientSettings(), self.seed, self.draws)
        self._total += game.gradient(gates, rows)[0].mean(0)
        self.draws += 1


def _check_size(total: Tensor, neurons: Neurons) -> None:
    if len(total) != neurons.n:
        raise UserError(
            f"These values are for {len(total)} neurons, the network has {neurons.n}; they do not belong together."
        )
