"""The catalogue of methods, on one screen."""

from snv.learners.base import SCENARIOS, Learner, Scenario, Setting
from snv.learners.joint import Joint
from snv.learners.sgd import SGD

LEARNERS: dict[str, type[Learner]] = {
    "sgd": SGD,
    "joint": Joint,
}

__all__ = ["LEARNERS", "SCENARIOS", "SGD", "Joint", "Learner", "Scenario", "Setting"]
