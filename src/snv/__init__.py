"""Networks that learn task after task, forget nothing and store no old data.

The public names; each is imported when first used, so ``import snv`` and ``snv --help`` are quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snv.config import RunConfig, load_config
    from snv.data import Preprocess, Task, TaskStream, from_arrays, load_source
    from snv.errors import UserError
    from snv.learners import LEARNERS, Learner
    from snv.model import Model, SNVClassifier
    from snv.networks import build_network
    from snv.runs import Record, evaluate_run, load_record, value_run
    from snv.runs.run import run
    from snv.shapley import Valuation
    from snv.valuation import value_neurons

__version__ = "0.1.0"

__all__ = [
    "LEARNERS",
    "Learner",
    "Model",
    "Preprocess",
    "Record",
    "RunConfig",
    "SNVClassifier",
    "Task",
    "TaskStream",
    "UserError",
    "Valuation",
    "build_network",
    "evaluate_run",
    "from_arrays",
    "load_config",
    "load_record",
    "load_source",
    "run",
    "value_neurons",
    "value_run",
]

_HOME = {
    "snv.model": ("Model", "SNVClassifier"),
    "snv.config": ("RunConfig", "load_config"),
    "snv.data": ("Preprocess", "Task", "TaskStream", "from_arrays", "load_source"),
    "snv.errors": ("UserError",),
    "snv.learners": ("LEARNERS", "Learner"),
    "snv.networks": ("build_network",),
    "snv.runs": ("Record", "evaluate_run", "load_record", "run", "value_run"),
    "snv.shapley": ("Valuation",),
    "snv.valuation": ("value_neurons",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module 'snv' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
