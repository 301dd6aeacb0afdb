"""One row of the accuracy matrix, by real evaluation, in TIL and CIL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from snv.data import Split
from snv.learners import Learner
from snv.training import Stage, n_right


@torch.inference_mode()
def accuracy(
    learner: Learner[Any],
    test: Split,
    block: range,
    known: bool | None = None,
    tell: Callable[[float], None] = lambda _: None,
) -> float:
    """Percent of test images of one task answered right: within ``block`` if it is known, else among all classes seen.

    ``known`` is by default as the learner's scenario has it; ``tell`` hears what share of the images is done.

    Note: not known, a task that was not learned yet is answered wrong by definition: its classes are no candidates.
    """
    known = learner.setting.scenario == "til" if known is None else known
    if not known and block not in learner.blocks:
        return 0.0
    learner.set_training(False, Stage("evaluate", learner.setting.train))
    of_task = f"{block.start} {'learned' if block in learner.blocks else 'to come'}"  # it may have its own network
    work, scope = f"evaluate {of_task if known else len(learner.blocks)}", block if known else None
    right = done = 0
    tell(0)
    for images, labels in learner.setting.prepared(test):
        with learner.reporter.counted(work, len(labels)):
            right += int(n_right(learner.logits(images, scope), labels, scope))
        done += len(labels)
        tell(done / len(test))
    return 100 * right / len(test)
