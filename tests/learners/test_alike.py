"""A CIL run has the accuracies of a TIL run, once the task is known, of methods whose card says so and of no others."""

from __future__ import annotations

import pytest
import torch
from toy import learn, make, toy_stream

from snv.learners import LEARNERS, SCENARIOS

MEMORY = {"til": 4, "cil": 40}
"""Images kept where a method keeps some: more in CIL, as by default, and never all there are."""
BOTH = [name for name, kind in LEARNERS.items() if kind.card.scenarios == SCENARIOS]


@torch.inference_mode()
def answers(learner, stream):
    """Logits of the test images of every task learned, with the task known."""
    learner.network.eval()
    return [
        learner.logits(images, block)
        for j, block in enumerate(learner.blocks)
        for images, _ in learner.setting.prepared(stream.test(j))
    ]


@pytest.mark.parametrize("name", BOTH)
def test_a_method_trains_alike_in_both_scenarios_if_and_only_if_its_card_says_so(name):
    stream = toy_stream()
    sizes = [{"buffer": MEMORY[s]} if hasattr(LEARNERS[name].Config, "buffer") else {} for s in SCENARIOS]
    learners = [make(name, s, stream, epochs=2, **size) for s, size in zip(SCENARIOS, sizes, strict=True)]
    alike = True
    for t in range(len(stream)):
        for learner in learners:
            learn(learner, stream, t)
        til, cil = (answers(learner, stream) for learner in learners)
        if not (alike := all(torch.equal(one, other) for one, other in zip(til, cil, strict=True))):
            break
    assert alike == LEARNERS[name].card.alike
