"""What each neuron is worth. `ESTIMATORS` holds all estimators by name, with what each promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from snv.valuation.examples import Examples, OfSplit
from snv.valuation.inrun import CarriedValues, LearnedValues
from snv.valuation.neuron_game import NeuronGame
from snv.valuation.scores import NEED_GRADIENT, SCORES
from snv.valuation.value import Bill, neuron_game, value_neurons

if TYPE_CHECKING:
    from snv.shapley import ESTIMATORS

__all__ = [
    "ESTIMATORS",
    "NEED_GRADIENT",
    "SCORES",
    "Bill",
    "CarriedValues",
    "Examples",
    "LearnedValues",
    "NeuronGame",
    "OfSplit",
    "neuron_game",
    "value_neurons",
]


def __getattr__(name: str) -> Any:
    if name != "ESTIMATORS":
        raise AttributeError(f"module 'snv.valuation' has no attribute {name!r}")
    from snv.shapley import ESTIMATORS

    return ESTIMATORS
