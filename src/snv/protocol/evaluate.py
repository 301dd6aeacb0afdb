"""One row of the accuracy matrix, by real evaluation, in TIL and CIL."""

from __future__ import annotations

import torch

from snv.data.task import Split
from snv.learners.base import Learner
from snv.training.loop import Surroundings, prepared
from snv.training.stage import Stage


@torch.inference_mode()
def accuracy(learner: Learner, test: Split, block: range, around: Surroundings) -> float:
    """Percent of test images of one task answered right: within ``block`` (TIL), among all classes seen (CIL).

    Note: in CIL a task that was not learned yet is answered wrong by definition, since its classes are no candidates.
    """
    til = learner.setting.scenario == "til"
    if not til and block not in learner.blocks:
        return 0.0
    learner.set_training(False, Stage("evaluate", learner.setting.train))
    right = 0
    for images, labels in prepared(test, around, learner.setting.train.channels_last):
        work = (
            f"evaluate {len(learner.blocks)} {block.start if til else ''}".rstrip()
        )  # a task may have its own network
        with around.counted("evaluate", work, len(labels)):
            right += int((learner.predict(images, block if til else None) == labels).sum())
    return 100 * right / len(test)
