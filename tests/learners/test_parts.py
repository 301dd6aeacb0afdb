"""Methods whose cards say that their loss adds up are right about it."""

from __future__ import annotations

import pytest
import torch
from toy import learn, make, toy_stream

from snv.learners import LEARNERS
from snv.training import differentiate
from snv.training.loop import Training

CASES = [(name, s) for name, kind in LEARNERS.items() if kind.card.adds_up for s in kind.card.scenarios]


def gradients(learner, batch, parts: int) -> dict[str, torch.Tensor]:
    """Of a step, without moving anything."""
    learner.parts = parts
    for parameter in learner.network.parameters():
        parameter.grad = None
    differentiate(learner.losses(batch), torch.optim.SGD(learner.network.parameters(), 0.1))
    return {name: p.grad.clone() for name, p in learner.network.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(("name", "scenario"), CASES, ids=[f"{n}-{s}" for n, s in CASES])
def test_gradients_of_parts_add_up_to_those_of_the_whole(name, scenario):
    """In the second task, where old ones matter; in evaluation mode, since norm layers see a part only."""
    stream = toy_stream()
    learner = make(name, scenario, stream)
    learn(learner, stream, 0)
    task = stream.task(1).without_test()
    learner.begin_task(task)
    stage = learner.stage(task, 0)
    batch = next(Training(learner, task, stage)._batches())
    learner.set_training(True, stage)
    for module in learner.network.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.eval()
    whole, parts = gradients(learner, batch, 1), gradients(learner, batch, 3)
    assert whole and whole.keys() == parts.keys()
    for name, gradient in whole.items():
        torch.testing.assert_close(parts[name], gradient, rtol=1e-3, atol=1e-6)


def test_a_batch_is_parted_evenly_and_never_into_single_images():
    stream = toy_stream()
    learner, task = make("sgd", "til", stream), stream.task(0).without_test()
    learner.begin_task(task)
    batch = next(Training(learner, task, learner.stage(task, 0))._batches())
    n = len(batch.labels)
    for asked in (1, 2, 3, n):
        parts = list(batch.parts(asked))
        assert torch.equal(torch.cat([part.labels for part in parts]), batch.labels)
        sizes = [len(part.images) for part in parts]
        assert max(sizes) - min(sizes) <= 1 and min(sizes) >= 2
    assert next(batch.parts(1)).images.equal(batch.images)
