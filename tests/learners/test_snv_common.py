"""SNV with a common space: proved like everything else, heard where it knows something, asked about few."""

from __future__ import annotations

import pytest
import torch
from toy import learn, make, toy_stream

from snv.errors import UserError


def learned(scenario, n_tasks=3, **config):
    stream = toy_stream(3)
    learner = make("snv", scenario, stream, capacity=0.3, **config)
    for t in range(n_tasks):
        learn(learner, stream, t)
    return learner, stream


def parts(common, t):
    """Every tensor of the common space that task t's answers are computed from, by what a proof calls it."""
    task = common.tasks[t]
    named = {"weights": [common.space.filters.weight, task.head.weight, task.head.bias, task.weights]}
    if task.classes is not None:
        named |= {"class sums": [task.classes.counts, task.classes.sums], "weights of opinions": [task.open_weights]}
    return [(name, tensor) for name, tensors in named.items() for tensor in tensors]


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_one_changed_bit_of_the_common_space_is_found_and_named(scenario):
    learner, _ = learned(scenario, 2)
    learner.specialists.verify()
    for name, tensor in parts(learner.specialists.common, 0):
        before = tensor.clone()
        tensor.data.view(torch.uint8).view(-1)[0] ^= 1
        assert name in learner.specialists.changed()[0]
        tensor.data.copy_(before)
    learner.specialists.verify()


def test_with_the_task_known_answers_stay_bit_identical():
    stream = toy_stream(3)
    learner = make("snv", "til", stream, capacity=0.3)
    images = torch.randn(8, 1, 8, 8)
    learn(learner, stream, 0)
    learner.network.eval()
    answers = learner.logits(images, stream.blocks[0])
    for t in (1, 2):
        learn(learner, stream, t)
    learner.network.eval()
    assert torch.equal(learner.logits(images, stream.blocks[0]), answers)


def test_the_joint_answer_is_not_the_specialist_alone():
    learner, stream = learned("til")
    learner.network.eval()
    images = torch.randn(8, 1, 8, 8)
    own = learner.specialists.answer(images, 0)[1].log_softmax(1)
    assert not torch.allclose(learner.logits(images, stream.blocks[0]), own, atol=1e-3)


def test_one_schedule_runs_through_both_stages():
    stream = toy_stream(3)
    learner = make("snv", "til", stream, dense_share=0.5)
    dense, consolidate = (learner.stage(stream.task(0), index) for index in (0, 1))
    train = learner.setting.train
    assert dense.settings.epochs + consolidate.settings.epochs == train.epochs
    assert [consolidate.lr_at(e) for e in (0, 2, 4)] == [train.lr_at(e) for e in (4, 6, 8)]


def test_a_space_that_does_not_exist_is_refused_in_the_config():
    from snv.config import load_config

    with pytest.raises(UserError, match=r"learner\.common"):
        load_config(None, ["method=snv", "learner.common=words"])
