"""Every switch of SNV, and those it once had."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from snv.errors import UserError, unknown
from snv.networks import Directions
from snv.neurons import Neurons
from snv.shapley import ESTIMATORS
from snv.subnetworks import RULES, Budget
from snv.valuation import SCORES

IN_RUN = "in-run"
ONNX = "onnx:"
"""Before the name of a file with a pretrained network."""

RETIRED: dict[str, Any] = {
    "consolidate": True,
    "norm": "per-task",
    "answer": "subnetwork",
    "scope": "task",
    "cumulative": True,
    "released": 0.0,
    "outside": "silent",
    "coverage": 0.9,
    "distil": 0.0,
    "fresh": False,
    "rotations": False,
}
"""Switches that older runs have stored, and the one value that SNV still does; most others are `snv-paper`'s."""

ADDED: dict[str, Any] = {"common": "none", "others": "means", "directions": "random"}
"""Switches that older runs do not name, and what they did."""


@dataclass(frozen=True)
class SNVConfig:
    """Every switch of the method; the comment says where its default comes from."""

    capacity: float = 0.3  # c: share of neurons a task may keep. The paper: 0.1 of all; with few epochs more is better
    size: Literal["remaining", "top-k"] = "remaining"  # new neurons: c of those still free, so that the network fills
    # slowly; c of all (the paper)
    reuse: Literal["free", "counted", "none"] = "free"  # frozen neurons cost nothing, count like new ones, stay out
    largest: float = 1.0  # share of neurons a subnetwork may have with reused ones: smaller is faster, and worse
    layer_share: float = 0.5  # of the budget, reserved for each layer's own best: half was a good start
    dense_share: float = 0.5  # of the epochs before neurons are valued; the subnetwork needs the rest
    estimator: str = "gradient"  # any of `snv list estimators`
    others: Literal["silent", "means"] = "silent"  # neurons outside a coalition while they are valued: as in the
    # subnetwork that will answer, or at their mean responses (the paper)
    draws: int | None = None  # gradients (24) or permutations (32) of the estimator
    floor: float | None = None  # τ of tmab and truncated, a share of V(all) − V(none); None: 0.05, the paper's
    confidence: float | None = None  # α of tmab and hybrid; None: 0.95, the paper's
    common: str = (
        "patches"  # a fixed space in which all classes are compared, its opinion joined with the specialists':
    )
    # filters for patches; onnx:FILE, a pretrained network; none, specialists alone
    directions: Directions = "clusters"  # of the filters for patches: what those of the first task cluster around, or
    # drawn at random as in slda
    rule: str = "combined"  # of CIL inference without a common space: the best of `RULES` on validation images

    def __post_init__(self) -> None:
        for name in ("capacity", "dense_share", "largest"):
            if not 0 < getattr(self, name) <= 1:
                raise UserError(f"learner.{name} is a share, so it lies in (0, 1]; got {getattr(self, name)}.")
        if not 0 <= self.layer_share <= 1:
            raise UserError(f"learner.layer_share is a share, so it lies in [0, 1]; got {self.layer_share}.")
        if self.estimator not in (known := [*ESTIMATORS, *SCORES, IN_RUN]):
            raise unknown("estimator", self.estimator, known)
        if self.common not in ("patches", "none") and not self.common.startswith(ONNX):
            raise UserError(f"learner.common is patches, none or {ONNX}FILE; got {self.common!r}.")
        if self.rule not in RULES:
            raise unknown("rule", self.rule, RULES)
        if self.draws is not None and self.draws < 1:
            raise UserError(f"learner.draws is at least 1, or left out; got {self.draws}.")
        for name in ("floor", "confidence"):
            self._check_estimator_has(name)

    def budget(self, neurons: Neurons) -> Budget:
        """How many neurons of this network a task takes."""
        return Budget(
            neurons.n, self.capacity, self.size == "remaining", len(neurons.layers), int(self.largest * neurons.n)
        )

    def _check_estimator_has(self, name: str) -> None:
        """A setting that goes to the estimator is refused where it would go nowhere, or makes no sense there."""
        if (value := getattr(self, name)) is None:
            return
        having = [known for known, other in ESTIMATORS.items() if name in (f.name for f in fields(other.settings))]
        if self.estimator not in having:
            raise UserError(
                f"learner.{name} is a setting of {' and '.join(having)}; learner.estimator={self.estimator} has none."
            )
        ESTIMATORS[self.estimator].settings(**{name: value})
