"""Training that goes wrong is noticed, mended once, then stopped; what a task came to is judged on its validation."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from broken import break_at
from toy import LR, learn, make, toy_stream

from snv.components import unmoved
from snv.data import InMemory, TaskStream, from_arrays
from snv.errors import DivergedError
from snv.files import cloned
from snv.learners import LEARNERS
from snv.training import learn_task
from snv.training.faults import (
    EVERY,
    EXPLODED,
    SLOWER,
    WentWrong,
    answers_judged,
    at_most,
    check_loss,
    check_outcome,
    judged,
)
from snv.training.loop import Training
from snv.training.reporter import Reporter
from snv.training.settings import TrainSettings
from snv.training.stage import Stage

METHODS = {name: kind.card.scenarios[-1] for name, kind in LEARNERS.items() if name != "slda"}  # which trains nothing
FIRST = {"nfl": "head", "nfl+": "head", "snv": "dense", "dcnet": "gather", "nispa": "phase 1"}
"""The first stage of a later task."""
CONFIGS = {"nispa": {"epochs": 8, "steps": 3}}
"""With which it has two epochs or more."""


def started(name: str = "sgd", scenario: str = "til", **settings):
    """A learner that has begun its first task, with 16 images to a batch and a listener for faults."""
    stream = toy_stream()
    learner = make(name, scenario, stream)
    task = stream.task(0).without_test()
    learner.begin_task(task)
    faults = []
    learner.reporter = Reporter(warn=faults.append)
    return learner, task, Stage("train", TrainSettings(batch_size=16, precision="fp32", **settings)), faults


def same(a, b) -> bool:
    """Bit-identical states."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else bool(a == b)


# ---- a loss that is no number, or explodes


def test_a_loss_explodes_if_the_epoch_and_its_last_step_are_far_above_the_stages_first():
    check_loss(mean=0.9 * EXPLODED, last=1e9, first=0.5)
    check_loss(mean=1e9, last=2.0, first=0.5)  # an outlier, and it has recovered
    check_loss(mean=50 * EXPLODED, last=50 * EXPLODED, first=100.0)  # a loss may be large from the start
    with pytest.raises(WentWrong, match=r"has grown from 0.5 to 2e\+03"):
        check_loss(mean=1.1 * EXPLODED, last=2 * EXPLODED, first=0.5)
    for mean in (math.nan, math.inf):
        with pytest.raises(WentWrong, match=f"training loss is {mean}"):
            check_loss(mean, 0.1, 0.5)


def test_weights_that_are_no_numbers_are_found_even_if_the_loss_is_one():
    check_outcome(0.5, [torch.zeros(3)])
    with pytest.raises(WentWrong, match="weights are no numbers"):
        check_outcome(0.5, [torch.zeros(3), torch.tensor([0.0, math.inf])])
    with pytest.raises(WentWrong, match="validation loss is nan"):
        check_outcome(math.nan, [torch.zeros(3)])


def test_an_infinite_loss_at_one_step_is_mended_and_training_ends_well():
    learner, task, stage, faults = started(epochs=8, lr=0.02)
    break_at(learner, task=0, stage="train", epoch=2, step=1, above=0.01)
    entries = []
    learner.reporter = dataclasses.replace(learner.reporter, on_epoch=entries.append)
    Training(learner, task, stage).run()
    (fault,) = faults
    assert {key: fault[key] for key in ("task", "kind", "stage", "epoch", "lr")} == {
        "task": 1,
        "kind": "rate lowered",
        "stage": "train",
        "epoch": 3,
        "lr": pytest.approx(0.002),
    }
    assert (
        "at step 3, the training loss is nan" in fault["text"]
        and "learning rate of 0.002 instead of 0.02" in fault["text"]
    )
    assert [entry["epoch"] for entry in entries] == list(range(1, 9))  # each is in the log once
    assert [entry["lr"] for entry in entries] == [0.02] * 2 + [SLOWER * 0.02] * 6
    assert entries[-1]["val_accuracy"] > 90
    assert all(p.isfinite().all() for p in learner.network.parameters())


def test_an_epoch_that_explodes_is_noticed_before_it_is_over():
    learner, task, stage, faults = started(epochs=1)
    stage = dataclasses.replace(stage, settings=dataclasses.replace(stage.settings, batch_size=1))
    pixels, labels = task.train.pixels.repeat(2, 1, 1, 1), task.train.labels.repeat(2)
    task = dataclasses.replace(task, train=InMemory(pixels, labels))
    loss = learner.loss
    learner.loss = lambda batch: loss(batch) * (1e9 if batch.step >= 5 and not faults else 1)
    Training(learner, task, stage).run()
    assert len(labels) > EVERY
    assert [fault["step"] for fault in faults] == [EVERY]
    assert "the training loss has grown from" in faults[0]["text"]


def test_a_rate_that_is_far_too_high_stops_with_the_reason_and_leaves_the_state_from_before():
    learner, task, stage, faults = started(epochs=3, lr=1e30)
    before = cloned(learner.state_dict())
    training = Training(learner, task, stage)
    with pytest.raises(DivergedError, match=r"task 1 diverged: in epoch 1 of stage train, .* Lower train\.lr"):
        training.run()
    assert [fault["kind"] for fault in faults] == ["rate lowered"]
    assert same(learner.state_dict(), before)
    assert not training.optimizer.state_dict()["state"]


@pytest.mark.parametrize("name", METHODS)
def test_an_epoch_that_went_wrong_leaves_nothing_behind_but_a_lower_rate(name):
    """In the second task, when something is frozen or kept: as if the rate had been lowered with no fault at all."""
    stream, states = toy_stream(), []
    for broken in (True, False):
        learner = make(name, METHODS[name], stream, **{"epochs": 4, **CONFIGS.get(name, {})})
        learn(learner, stream, 0)
        faults, under_way = [], []

        def lower(entry, broken=broken, under_way=under_way):
            if not broken and (entry["stage"], entry["epoch"]) == (FIRST.get(name, "train"), 1):
                under_way[-1].progress.rate = SLOWER

        learner.reporter = Reporter(on_step=under_way.append, on_epoch=lower, warn=faults.append)
        if broken:
            break_at(learner, 1, FIRST.get(name, "train"), epoch=1, step=1, above=0.5 * LR.get(name, 5e-3))
        learn(learner, stream, 1)
        assert [fault["kind"] for fault in faults] == ["rate lowered"] * broken
        states.append(cloned(learner.state_dict()))
    assert same(*states)


def test_cut_at_any_step_around_a_fault_training_goes_on_to_the_same_bits():
    def ready():
        learner, task, stage, faults = started(epochs=4, lr=0.02, patience=2)
        break_at(learner, task=0, stage="train", epoch=1, step=1, above=0.01)
        return learner, task, stage, faults

    learner, task, stage, faults = ready()
    saved = []

    def keep(training):
        saved.append((cloned(training.state_dict()), cloned(learner.state_dict()), len(faults)))

    learner.reporter = dataclasses.replace(learner.reporter, on_step=keep)
    Training(learner, task, stage).run()
    whole = cloned(learner.state_dict())
    assert {before for *_, before in saved} == {0, 1}, "cut before the fault and after it"
    for training_state, learner_state, before in saved:
        other, task, stage, again = ready()
        other.load_state_dict(learner_state)
        Training(other, task, stage, training_state).run()
        assert same(other.state_dict(), whole)
        assert before + len(again) == 1


# ---- heads that stand still


def test_a_head_that_never_gets_a_gradient_is_named():
    learner, task, stage, faults = started(epochs=2)
    head = learner.network.head(-1)
    learner.loss = lambda batch: batch.cross_entropy(
        unmoved(head, learner.network.features(batch.images)), learner.scope()
    )
    Training(learner, task, stage).run()
    assert [fault["kind"] for fault in faults] == ["head without gradient"]
    assert "weight and bias of its head did not move in stage train" in faults[0]["text"]


# ---- answers


def test_the_tail_of_a_binomial_is_exact():
    for n, k in ((7, 2), (30, 3), (40, 10)):
        for right in range(n + 1):
            exact = sum(math.comb(n, i) * Fraction(1, k) ** i * Fraction(k - 1, k) ** (n - i) for i in range(right + 1))
            assert at_most(right, n, 1 / k) == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.parametrize(("n", "wrong"), [(28, False), (30, True)])  # 14 and 15 images of the other class
def test_one_answer_for_all_is_a_fault_once_it_is_no_accident(n, wrong):
    labels = torch.arange(n) % 2
    found = answers_judged(3, torch.ones(n, dtype=torch.long), labels, ("cat", "dog"))
    assert bool(found) == (wrong or 2.0 ** -(n // 2) < 1e-4)
    if found:
        assert found[0]["kind"] == "constant answers" and "'dog'" in found[0]["text"]


def test_one_answer_is_right_where_all_images_show_it():
    labels = torch.zeros(100, dtype=torch.long)
    assert answers_judged(1, labels, labels, ("cat", "dog")) == []


def test_few_right_answers_are_a_fault_only_if_a_guesser_would_have_more():
    rng = np.random.default_rng(0)
    labels = torch.from_numpy(rng.integers(0, 5, 200))
    guesses = [torch.from_numpy(rng.integers(0, 5, 200)) for _ in range(200)]
    assert not any(answers_judged(1, guess, labels, tuple("abcde")) for guess in guesses)
    (fault,) = answers_judged(1, (labels + 1) % 5, labels, tuple("abcde"))
    assert fault["kind"] == "below chance" and "0 of 200 validation images" in fault["text"]


def many(per_class: int = 200) -> TaskStream:
    """Two tasks of two classes with enough validation images to be sure."""
    labels = np.repeat(np.arange(4), per_class)
    images = np.random.default_rng(0).integers(0, 60, (len(labels), 8, 8), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[2 * label : 2 * label + 2] += 150
    return TaskStream(from_arrays(images, labels), 2, 0)


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_a_network_that_answers_a_constant_is_named_and_a_healthy_one_is_not(scenario):
    stream = many()
    learner = make("sgd", scenario, stream, epochs=2)
    for t in range(2):
        task = stream.task(t).without_test()
        learn_task(learner, task)
        assert judged(learner, task) == []
    with torch.no_grad():
        for weight in learner.network.body.parameters():
            weight.zero_()
    (fault,) = judged(learner, task)
    assert (fault["kind"], fault["task"]) == ("constant answers", 2)
    assert any(repr(name) in fault["text"] for name in task.names)


def test_validation_labels_that_mean_something_else_are_noticed():
    stream = many()
    learner, task = make("sgd", "til", stream, epochs=4), stream.task(0).without_test()
    val = InMemory(task.val.pixels, 1 - task.val.labels)
    swapped = dataclasses.replace(task, val=val)
    learn_task(learner, swapped)
    (fault,) = judged(learner, swapped)
    assert fault["kind"] == "below chance" and "training and validation images mean the same" in fault["text"]


def test_of_all_tasks_at_once_the_newest_is_judged():
    stream = many()
    learner = make("joint", "til", stream, epochs=4)
    for t in range(2):
        learn(learner, stream, t)
        assert judged(learner, stream.upto(t)) == []
