"""What each neuron is worth. `ESTIMATORS` holds all estimators by name, with what each promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snv.valuation.estimate import ESTIMATORS

__all__ = ["ESTIMATORS"]


def __getattr__(name: str) -> Any:
    if name != "ESTIMATORS":
        raise AttributeError(f"module 'snv.valuation' has no attribute {name!r}")
    from snv.valuation.estimate import ESTIMATORS  # a module of this package need not import all estimators

    return ESTIMATORS
