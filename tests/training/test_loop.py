"""The loop: early stopping, the best epoch, schedules, and steps that depend on nothing but their place."""

from __future__ import annotations

import pytest
import torch
from toy import make, toy_stream

from snv.errors import UserError
from snv.files import cloned
from snv.seeding import generator
from snv.training.loop import Training, descend, epoch_order
from snv.training.reporter import Reporter
from snv.training.settings import TrainSettings
from snv.training.stage import Stage


def started(**settings):
    stream = toy_stream()
    learner = make("sgd", "til", stream)
    task = stream.task(0).without_test()
    learner.begin_task(task)
    return learner, task, Stage("train", TrainSettings(batch_size=16, precision="fp32", **settings))


def test_an_epoch_visits_every_image_once():
    order = torch.cat(epoch_order(100, 16, generator(0)))
    assert sorted(order.tolist()) == list(range(100))


def test_a_last_batch_of_one_image_joins_the_one_before():
    assert [len(b) for b in epoch_order(33, 16, generator(0))] == [16, 17]
    assert [len(b) for b in epoch_order(1, 16, generator(0))] == [1]


def test_training_stops_after_patience_epochs_without_improvement_and_restores_the_best():
    learner, task, stage = started(epochs=100, lr=0.05, patience=3)
    epochs, losses, states = [], [], []

    def note(entry):
        epochs.append(entry["epoch"])
        losses.append(entry["val_loss"])
        states.append(cloned(learner.state_dict()["network"]))

    learner.reporter = Reporter(on_epoch=note)
    Training(learner, task, stage).run()
    best = min(range(len(losses)), key=lambda e: (losses[e], e))
    assert len(epochs) < 100, "the toy task is learned long before the cap"
    assert len(epochs) - 1 - best == 3
    for key, value in learner.state_dict()["network"].items():
        assert torch.equal(value, states[best][key])


def test_without_patience_all_epochs_run_and_the_last_one_stays():
    learner, task, stage = started(epochs=7, lr=0.05, patience=0)
    entries = []
    learner.reporter = Reporter(on_epoch=entries.append)
    Training(learner, task, stage).run()
    assert len(entries) == 7


def test_cutting_training_at_any_step_and_going_on_gives_the_same_bits():
    learner, task, stage = started(epochs=3, patience=2)
    saved = []

    def keep(training):
        saved.append((cloned(training.state_dict()), cloned(learner.state_dict())))

    learner.reporter = Reporter(on_step=keep)
    Training(learner, task, stage).run()
    whole = cloned(learner.state_dict()["network"])
    for training_state, learner_state in saved:
        other, task, stage = started(epochs=3, patience=2)
        other.load_state_dict(learner_state)
        Training(other, task, stage, training_state).run()
        for key, value in other.state_dict()["network"].items():
            assert torch.equal(value, whole[key])


def test_a_loss_that_is_not_a_number_stops_training_with_advice():
    learner, task, stage = started(epochs=3)
    with torch.no_grad():
        next(learner.network.parameters()).fill_(float("nan"))
    with pytest.raises(UserError, match=r"diverged: in epoch 1 .* Lower train\.lr"):
        Training(learner, task, stage).run()


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_every_optimiser_learns(optimizer):
    learner, task, stage = started(epochs=30, lr=0.01, optimizer=optimizer, clip_norm=1.0)
    entries = []
    learner.reporter = Reporter(on_epoch=entries.append)
    Training(learner, task, stage).run()
    assert entries[-1]["train_loss"] < 0.5 * entries[0]["train_loss"]


def test_bf16_training_learns_too():
    stream = toy_stream()
    learner = make("sgd", "til", stream)
    object.__setattr__(learner.setting, "train", TrainSettings(epochs=15, batch_size=16, lr=5e-3, precision="bf16"))
    task = stream.task(0).without_test()
    learner.begin_task(task)
    entries = []
    learner.reporter = Reporter(on_epoch=entries.append)
    Training(learner, task, learner.stage(task, 0)).run()
    assert entries[-1]["val_accuracy"] > 90


def test_gradients_can_be_changed_before_an_update_and_looked_at_after_it():
    weight = torch.nn.Parameter(torch.ones(2))
    seen = []

    def look() -> None:
        seen.append((weight.detach().clone(), weight.grad.clone()))

    def halve() -> None:
        look()
        weight.grad *= 0.5

    loss = descend((weight * torch.tensor([2.0, 4.0])).sum(), torch.optim.SGD([weight], lr=1.0), None, halve, look)
    assert float(loss) == 6.0
    assert [x.tolist() for x in seen[0]] == [[1.0, 1.0], [2.0, 4.0]]
    assert [x.tolist() for x in seen[1]] == [[0.0, -1.0], [1.0, 2.0]]
    assert weight.grad is None
