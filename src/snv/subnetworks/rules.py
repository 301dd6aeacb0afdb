"""Class-incremental inference: every task has a frozen specialist; a rule says which of them to believe.

A specialist never drifts, so what was measured of it when its task ended stays true forever. Statistics come from a
task's own training images, before they are gone; no rule ever sees another task's data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from snv.files import State
from snv.shapes import Features, Indices, Labels, Logits

SHRINKAGE = 0.01
"""Of the covariance towards the identity: enough to invert it when a class has fewer images than features."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """What one task leaves behind, so that it can be told from the others."""

    energy: Float[Tensor, " 2"]  # mean and deviation of the energy of its own images
    means: list[Tensor]  # of its classes in the features of specialists 0 … t: (k, F_s) each
    covariance: Float[Tensor, "f f"]  # within its classes, in its own features

    @cached_property
    def precision(self) -> Float[Tensor, "f f"]:
        """The inverse of the covariance."""
        covariance = self.covariance.double()
        f = len(covariance)
        ridge = SHRINKAGE * covariance.diagonal().mean() + 1e-12
        shrunk = (1 - SHRINKAGE) * covariance + ridge * torch.eye(f, dtype=torch.float64, device=covariance.device)
        return torch.cholesky_inverse(torch.linalg.cholesky(shrunk))

    def state(self) -> State:
        return {
            "energy": self.energy,
            "means": list(self.means),
            "covariance": self.covariance[*_triangle(len(self.covariance))],  # symmetric: half is enough
            "features": len(self.covariance),
        }

    @staticmethod
    def from_state(state: State, device: torch.device | None = None) -> Statistics:
        n = state["features"]
        if n * (n + 1) // 2 != len(state["covariance"]):
            raise ValueError("a covariance is not of its features")
        rows, columns = _triangle(n)
        covariance = torch.zeros(n, n).to(state["covariance"])
        covariance[rows, columns] = state["covariance"]
        covariance[columns, rows] = state["covariance"]
        energy, covariance, *means = (x.to(device) for x in (state["energy"], covariance, *state["means"]))
        return Statistics(energy, means, covariance)


def _triangle(n: int) -> tuple[Tensor, Tensor]:
    rows, columns = torch.triu_indices(n, n)
    return rows, columns


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the specialists say about a batch of images."""

    logits: list[Tensor]  # (b, k_t) of each task's own classes
    features: list[Tensor]  # (b, F_t)
    statistics: list[Statistics]
    unmasked: Callable[[], Logits] | None = None  # the whole network, all heads


def single_head(evidence: Evidence) -> Logits:
    """The paper's: the unmasked network, all classes in one softmax."""
    assert evidence.unmasked is not None
    return evidence.unmasked()


def concatenated(evidence: Evidence) -> Logits:
    """The specialists' logits side by side, as if they had one scale."""
    return torch.cat(evidence.logits, dim=1)


def max_prob(evidence: Evidence) -> Logits:
    """The most confident head."""
    return torch.cat([z.log_softmax(1) for z in evidence.logits], dim=1)


def energy(evidence: Evidence) -> Logits:
    """The specialist with the largest log Σ exp z."""
    return _believe(torch.stack([z.logsumexp(1) for z in evidence.logits], dim=1), evidence.logits)


def energy_z(evidence: Evidence) -> Logits:
    """The same, each energy measured against those of the task's own training images."""
    energies = torch.stack([z.logsumexp(1) for z in evidence.logits], dim=1)
    usual = torch.stack([statistics.energy for statistics in evidence.statistics])
    return _believe((energies - usual[:, 0]) / usual[:, 1], evidence.logits)


def density(evidence: Evidence) -> Logits:
    """Gaussian classes in the features of every specialist that has seen them.

    A class of task t has a mean in the features of specialists 0 … t, since those existed when its images were there.
    In specialist s all classes of tasks s, s + 1, … compete on equal terms: one shared covariance, one softmax. A
    class is worth the mean, over the specialists that know it, of its log-posterior there.

    Note: log-likelihoods of different specialists are not commensurable, log-posteriors among (nearly) the same
    classes are.
    """
    sizes = [len(statistics.means[0]) for statistics in evidence.statistics]
    starts = [sum(sizes[:t]) for t in range(len(sizes))]
    features = evidence.features[0]
    total = torch.zeros(len(features), sum(sizes), dtype=torch.float64, device=features.device)
    for s, start in enumerate(starts):
        known = torch.cat([statistics.means[s] for statistics in evidence.statistics[s:]])
        likelihood = _log_likelihood(evidence.features[s], known, evidence.statistics[s].precision)
        total[:, start:] += likelihood.log_softmax(1)
    times = torch.repeat_interleave(torch.arange(1, len(sizes) + 1), torch.tensor(sizes)).to(total)
    return (total / times).to(features.dtype)


def combined(evidence: Evidence) -> Logits:
    """Two opinions with equal weight: the log-posteriors of `density` and of the logits side by side."""
    return density(evidence) + concatenated(evidence).log_softmax(1)


RULES: dict[str, Callable[[Evidence], Logits]] = {
    "single-head": single_head,
    "concatenated": concatenated,
    "max-prob": max_prob,
    "energy": energy,
    "energy-z": energy_z,
    "density": density,
    "combined": combined,
}


def sample_of_all(labels: Labels, order: Indices, n: int) -> Indices:
    """The first ``n`` rows of an order, and the first of every class that is not among them."""
    first: dict[int, int] = {}
    for place, label in enumerate(labels[order].tolist()):
        first.setdefault(label, place)
    late = [place for place in first.values() if place >= n]
    return torch.cat([order[:n], order[torch.tensor(late, dtype=torch.long)]])


@torch.no_grad()
def measure(labels: Labels, features: list[Tensor], logits: Logits, k: int) -> Statistics:
    """The statistics of a task from its training images.

    ``labels`` are 0 … k−1 within the task, ``features`` those of specialists 0 … t, ``logits`` its own.
    """
    counts = torch.bincount(labels, minlength=k).clamp(min=1)
    sums = [torch.zeros(k, f.shape[1], device=f.device).index_add_(0, labels, f.float()) for f in features]
    means = [total / counts[:, None] for total in sums]
    spread = (features[-1].float() - means[-1][labels]).double()
    covariance = (spread.T @ spread / max(1, len(labels) - k)).float()
    covariance = (covariance + covariance.T) / 2  # symmetric to the last bit
    return Statistics(_mean_and_deviation(logits.logsumexp(1)), means, covariance)


def _mean_and_deviation(scores: Float[Tensor, " b"]) -> Float[Tensor, " 2"]:
    deviation = scores.float().std() if len(scores) > 1 else torch.ones((), device=scores.device)
    return torch.stack([scores.float().mean(), deviation.clamp(min=1e-6)])


def _believe(scores: Float[Tensor, "b t"], logits: list[Tensor]) -> Logits:
    """All classes of the most believable task before all classes of the next, each task's by its own head."""
    rank = (-scores).argsort(1).argsort(1)
    return torch.cat([z.log_softmax(1) - 1e3 * rank[:, t : t + 1] for t, z in enumerate(logits)], dim=1)


def _log_likelihood(
    features: Features, means: Float[Tensor, "c f"], precision: Float[Tensor, "f f"]
) -> Float[Tensor, "b c"]:
    """−½ (x − μ)ᵀ P (x − μ), up to what is the same for all classes."""
    x, m = features.double(), means.double()
    return x @ precision @ m.T - 0.5 * ((m @ precision) * m).sum(1)
