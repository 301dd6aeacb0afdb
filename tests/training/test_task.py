"""A task is learned stage after stage, and left where it can go on if it diverges."""

from __future__ import annotations

import pytest
import torch
from broken import break_at
from toy import make, toy_stream

from snv.errors import DivergedError
from snv.files import cloned
from snv.neurons import own_weights
from snv.training import Reporter
from snv.training.task import Place, learn_task


def begun(faults):
    """SNV that has learned a task."""
    stream = toy_stream()
    learner = make("snv", "cil", stream, epochs=6)
    learner.reporter = Reporter(warn=faults.append)
    learn_task(learner, stream.task(0).without_test())
    return learner, stream.task(1).without_test()


def test_what_is_frozen_stays_bit_for_bit_when_a_stage_of_snv_goes_wrong():
    faults = []
    learner, task = begun(faults)
    reads = [(own.tensor, entries) for own, entries in owned(learner)]
    before = [tensor.detach()[entries].clone() for tensor, entries in reads]
    for stage in ("dense", "consolidate"):
        break_at(learner, 1, stage, epoch=1, step=1, above=0.5 * learner.setting.train.lr)
    learn_task(learner, task)
    assert [(fault["stage"], fault["kind"]) for fault in faults] == [
        ("dense", "rate lowered"),
        ("consolidate", "rate lowered"),
    ]
    for (tensor, entries), old in zip(reads, before, strict=True):
        assert torch.equal(tensor.detach()[entries], old)
    assert learner.specialists.changed() == {}


def owned(learner):
    """Weights of the dense network, and what the tasks so far read of each."""
    return zip(own_weights(learner.neurons), [x.clone() for x in learner.specialists.read_by()], strict=True)


@pytest.mark.parametrize("stage", ["dense", "consolidate"])
def test_a_task_that_diverges_is_left_at_its_last_good_epoch_and_goes_on_from_there(stage):
    learner, task = begun([])
    break_at(learner, 1, stage, epoch=1, step=1, above=0.0)
    place = Place()
    with pytest.raises(DivergedError, match=f"task 2 diverged: in epoch 2 of stage {stage}"):
        learn_task(learner, task, place)
    assert place.stage == ("dense", "consolidate").index(stage)
    progress = place.training["progress"]
    assert (progress["epoch"], progress["step"], progress["rate"]) == (1, 0, 0.1)
    assert all(x.isfinite().all() for x in learner.network.state_dict().values())

    whole, task = begun([])
    whole.load_state_dict(cloned(learner.state_dict()))  # the fault is gone: data were mended, say
    learn_task(whole, task, place)
    assert len(whole.specialists.subnetworks) == 2 and whole.specialists.changed() == {}
