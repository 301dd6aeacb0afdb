"""Values that come with training: what each neuron learned, and what it carries, without a valuation afterwards."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snv.files import State
from snv.neurons import Forward, Neurons, Owned, evaluating, find_neurons
from snv.seeding import derived_seed
from snv.shapes import Images, Labels, Values
from snv.shapley import GradientSettings, Number, Valuation, gates_of_pair, how_many
from snv.valuation.examples import Examples, as_examples
from snv.valuation.neuron_game import NeuronGame


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

    @property
    def _blocks(self) -> list[Owned]:
        return [owned for owned in self.neurons.owned if owned.role != "statistic"]

    def _refresh(self) -> None:
        """Take ∇L_val of every block; parameters that are not trained count as constant."""
        started = time.perf_counter()
        tensors = [owned.tensor for owned in self._blocks]
        loss, gradient = self._loss_and_gradient([tensor for tensor in tensors if tensor.requires_grad])
        slopes = iter(gradient)
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
                slopes = torch.autograd.grad(loss, trained, materialize_grads=True) if trained else ()
                for sum_, slope in zip(total, slopes, strict=True):
                    sum_ += slope
        return value, total


class CarriedValues:
    """The mean over training steps of ∂v/∂m at random gates: the ``gradient`` estimator, spread over training.

    Every step that is added gives one pair of gates on its own batch, in evaluation mode and with mean responses of
    that batch, so training is not disturbed. The pair follows from the step's seed and the number of pairs before it,
    and sums are in float64, so a continued run has the bits of an uninterrupted one. These are, bit for bit, the values
    of the SNV learner's ``estimator = "in-run"``.

    Note: values hold for the networks training passed through, not for the one it ended with.
    """

    def __init__(self, n: int) -> None:
        self.total = torch.zeros(n, dtype=torch.float64)
        self.pairs = 0

    def add(
        self, network: nn.Module, neurons: Neurons, images: Images, labels: Labels, forward: Forward, seed: int
    ) -> None:
        """One pair of gradients on the batch of one step; ``labels`` count within the logits of ``forward``."""
        game = NeuronGame(network, images, labels, neurons, forward=forward, share_prefixes=False)
        gates = gates_of_pair(game.n, GradientSettings(), derived_seed(seed, "in-run"), self.pairs)
        self.total += game.gradient(gates)[0].mean(0)
        self.pairs += 1

    @property
    def values(self) -> Values:
        """φ so far; 0 before the first pair."""
        return self.total / max(1, self.pairs)

    def state(self) -> State:
        return {"carried": self.total.clone(), "pairs": self.pairs}

    @staticmethod
    def from_state(state: State) -> CarriedValues:
        """What `state` returned; other keys beside its own are left alone."""
        carried = CarriedValues(len(state["carried"]))
        carried.total, carried.pairs = state["carried"].clone(), state["pairs"]
        return carried
