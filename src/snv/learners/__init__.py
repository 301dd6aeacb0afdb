"""The catalogue of methods, on one screen."""

from snv.learners.base import SCENARIOS, Learner, Scenario, Setting
from snv.learners.joint import Joint
from snv.learners.sgd import SGD
from snv.learners.snv import SNV

LEARNERS: dict[str, type[Learner]] = {
    "sgd": SGD,
    "joint": Joint,
    "snv": SNV,
}

__all__ = ["LEARNERS", "SCENARIOS", "SGD", "SNV", "Joint", "Learner", "Scenario", "Setting"]
