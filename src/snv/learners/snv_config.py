"""Every switch of SNV, and the literal algorithm of the paper as one setting of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from snv.errors import UserError, unknown
from snv.inference import RULES
from snv.valuation.estimate import ESTIMATORS
from snv.valuation.scores import SCORES

IN_RUN = "in-run"

PAPER: dict[str, Any] = {
    "capacity": 0.1,
    "size": "top-k",
    "reuse": "counted",
    "layer_share": 0.0,
    "consolidate": False,
    "outside": "means",
    "norm": "shared",
    "answer": "whole",
    "scope": "seen",
    "rule": "single-head",
}
"""Algorithm 1 as printed: train, value, keep the global top-⌊cN⌋ (and a neuron in every layer, or nothing would get
through); one output matrix, argmax over all classes. Values are those of `gradient`: `estimator = "tmab"` is dear."""


@dataclass(frozen=True)
class SNVConfig:
    """Every switch of the method; the comment says where its default comes from."""

    presets: ClassVar[dict[str, dict[str, Any]]] = {"default": {}, "paper": PAPER}  # of config files and overrides
    capacity: float = 0.3  # c: share of neurons a task may keep. The paper: 0.1 of all; with few epochs more is better
    size: Literal["remaining", "top-k", "coverage", "even"] = "remaining"  # new neurons: c of those still free, so that
    # the network fills slowly; c of all (the paper); the fewest with `coverage` of the value; an N/T-th
    coverage: float = 0.9  # of the sum of positive values: the valuation study's
    reuse: Literal["free", "counted", "none"] = "free"  # frozen neurons cost nothing, count like new ones, stay out
    largest: float = 1.0  # share of neurons a subnetwork may have with reused ones: smaller is faster, and worse
    layer_share: float = 0.5  # of the budget, reserved for each layer's own best: half was a good start
    dense_share: float = 0.15  # of the epochs before neurons are valued; the subnetwork needs the rest
    estimator: str = "gradient"  # any of `snv list estimators`
    draws: int | None = None  # gradients (24) or permutations (32) of the estimator
    consolidate: bool = True  # train the subnetwork after it was chosen; the paper does not
    distil: float = 0.0  # weight of the dense network's own logits while consolidating
    fresh: bool = False  # draw all weights that no task reads anew at the start of a task
    outside: Literal["silent", "means"] = "silent"  # what other neurons tell a task: nothing, so the weights between
    # them and the task's stay free for later tasks; or their mean responses
    norm: Literal["per-task", "shared"] = "per-task"  # shared statistics drift, and old tasks with them
    answer: Literal["subnetwork", "whole"] = "subnetwork"  # what speaks for a task; the paper: the whole network
    scope: Literal["task", "seen"] = "task"  # classes in the CIL training softmax; the paper: one output matrix
    rule: str = "combined"  # of CIL inference: the best of `snv.inference.RULES` on validation images
    rotations: bool = False  # train on class × rotation (4K outputs), average four views; needed by rule "rotation"
    cumulative: bool = True  # False: only the newest task stays frozen
    released: float = 0.0  # share of frozen weights let go at every task: an experiment that forgets

    def __post_init__(self) -> None:
        for name in ("capacity", "coverage", "dense_share", "largest"):
            if not 0 < getattr(self, name) <= 1:
                raise UserError(f"learner.{name} is a share, so it lies in (0, 1]; got {getattr(self, name)}.")
        for name in ("layer_share", "released"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"learner.{name} is a share, so it lies in [0, 1]; got {getattr(self, name)}.")
        if self.estimator not in (known := [*ESTIMATORS, *SCORES, IN_RUN]):
            raise unknown("estimator", self.estimator, known)
        if self.rule not in RULES:
            raise unknown("rule", self.rule, RULES)
        if self.draws is not None and self.draws < 1:
            raise UserError(f"learner.draws is at least 1, or left out; got {self.draws}.")
        if self.rule == "rotation" and not self.rotations:
            raise UserError(
                "learner.rule=rotation reads rotations, so they must be trained: set learner.rotations=true."
            )
        if self.outside == "silent" and self.norm == "shared":
            raise UserError(
                "learner.outside=silent silences neurons in the norm layers of a task, but learner.norm=shared gives "
                "it none. Set learner.outside=means."
            )
        if self.outside == "silent" and self.answer == "whole":
            raise UserError(
                "learner.outside=silent silences all neurons but a task's own, so learner.answer=whole would ask its "
                "subnetwork. Set learner.outside=means."
            )
        if self.answer == "whole" and self.rule != "single-head":
            raise UserError(
                f"learner.rule={self.rule} compares subnetworks, but learner.answer=whole uses none. "
                "Set learner.rule=single-head."
            )

    @property
    def keeps_its_promise(self) -> bool:
        """Whether old answers cannot change; the experiments that give this up are measured instead of certified."""
        kept = self.cumulative and self.released == 0 and self.norm == "per-task" and self.answer == "subnetwork"
        return kept and self.scope == "task"
