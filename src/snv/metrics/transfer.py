"""Numbers from the accuracy matrix: ``accuracy[i, j]`` is the accuracy on task j after learning task i, in percent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def final_accuracy(accuracy: Matrix) -> float:
    """ACC: mean accuracy over all tasks after the last one."""
    return float(accuracy[-1].mean())


def average_accuracy(accuracy: Matrix) -> float:
    """AvgAcc: mean over i of the mean accuracy on the tasks learned so far, A[i, j ≤ i]."""
    return float(np.mean([row[: i + 1].mean() for i, row in enumerate(accuracy)]))


def backward_transfer(accuracy: Matrix) -> float:
    """BWT: mean change on each earlier task since it was learned, A[T, j] − A[j, j], in percentage points."""
    _needs_two_tasks(accuracy, "BWT compares a task with its past")
    return float((accuracy[-1, :-1] - accuracy.diagonal()[:-1]).mean())


def forgetting(accuracy: Matrix) -> float:
    """Mean distance of each earlier task from its best time, max_{i ≥ j} A[i, j] − A[T, j], in percentage points."""
    _needs_two_tasks(accuracy, "Forgetting compares a task with its past")
    best = [accuracy[j:, j].max() for j in range(len(accuracy) - 1)]
    return float((np.array(best) - accuracy[-1, :-1]).mean())


def forward_transfer(accuracy: Matrix, untrained: Matrix) -> float:
    """FWT: mean_{j ≥ 2} A[j−1, j] − b_j, b_j being the accuracy of the untrained network, in percentage points."""
    _needs_two_tasks(accuracy, "FWT looks at a task before it is learned")
    return float((accuracy.diagonal(offset=1) - untrained[1:]).mean())


def plasticity(accuracy: Matrix) -> float:
    """P = mean_{j ≥ 2} (A[j, j] − A[j−1, j]) / (1 − A[j−1, j]), accuracies as fractions: learned of what was open."""
    _needs_two_tasks(accuracy, "Plasticity compares a task after and before it is learned")
    after, before = accuracy.diagonal()[1:] / 100, accuracy.diagonal(offset=1) / 100
    return float(((after - before) / np.maximum(1 - before, 1e-12)).mean())


def plasticity_stability(accuracy: Matrix) -> float:
    """PS = 2P⁺S⁺ / (P⁺ + S⁺), the harmonic mean of plasticity P and stability S = 1 + BWT (as a fraction)."""
    p = float(np.maximum(0.0, plasticity(accuracy)))
    s = float(np.maximum(0.0, 1 + backward_transfer(accuracy) / 100))
    return 2 * p * s / (p + s) if p + s else 0.0


def summary(accuracy: Matrix, untrained: Matrix, capacity: float | None) -> dict[str, float | None]:
    """All metrics of a run by name; None where a metric needs more tasks, or rows, than there are."""
    several = len(accuracy) > 1
    found = {
        "ACC": final_accuracy(accuracy) if len(accuracy) else None,
        "AvgAcc": average_accuracy(accuracy) if len(accuracy) else None,
        "BWT": backward_transfer(accuracy) if several else None,
        "FWT": forward_transfer(accuracy, untrained) if several else None,
        "forgetting": forgetting(accuracy) if several else None,
        "PS": plasticity_stability(accuracy) if several else None,
        "CAP": capacity,
    }
    return {name: None if value is None or np.isnan(value) else value for name, value in found.items()}


def _needs_two_tasks(accuracy: Matrix, why: str) -> None:
    if len(accuracy) < 2:
        raise ValueError(f"{why}, so it needs two tasks; got {len(accuracy)}. Report ACC instead.")
