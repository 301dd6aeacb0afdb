"""What SNV keeps of a task's images: from its own images alone, once, and without touching what others left."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from toy import learn, make, toy_stream

from snv.data.task import InMemory, Split
from snv.files import cloned
from snv.learners import snv_evidence
from snv.learners.snv_config import SNVConfig
from snv.learners.snv_evidence import add_statistics, add_to_common, common_space
from snv.training import Reporter


class Unread(Split):
    """A split that must not be looked at."""

    def __init__(self, split: Split) -> None:
        self.labels = split.labels

    def batches(self, order):
        pytest.fail("these images are for something else")

    def close(self) -> None:
        pass


def trained(scenario: str, tasks=(0, 1), **config):
    """A learner that has frozen some tasks and kept nothing of their images, and its stream."""
    stream = toy_stream()
    learner = make("snv", scenario, stream, capacity=0.3, **config)
    learner.end_task = lambda _task: None
    for t in tasks:
        learn(learner, stream, t)
    learner.network.eval()
    return learner, stream


def add(learner, task) -> None:
    with torch.no_grad():
        add_to_common(learner.specialists, task.without_test(), learner.setting, Reporter())


def measure(learner, task) -> None:
    with torch.no_grad():
        add_statistics(learner.specialists, task, learner.setting, Reporter())


def images_of(learner, split) -> torch.Tensor:
    return torch.cat([images for images, _ in learner.setting.prepared(split)])


def same(a, b) -> bool:
    """Whether two states have the same bits."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return a == b


# ---- the common space


def test_there_is_a_space_if_one_is_asked_for_and_answers_without_the_task_only_in_CIL():
    settings = {scenario: make("sgd", scenario, toy_stream()).setting for scenario in ("til", "cil")}
    assert common_space(SNVConfig(common="none"), settings["cil"]) is None
    assert [common_space(SNVConfig(), settings[scenario]).open_answers for scenario in ("til", "cil")] == [False, True]


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_the_first_task_whitens_the_filters_with_its_training_images_and_later_tasks_leave_them(scenario):
    learner, stream = trained(scenario)
    filters = learner.specialists.common.space.filters
    assert not filters.weight.any()
    add(learner, stream.task(0))
    first = cloned(dict(filters.state_dict()))
    patches = images_of(learner, stream.task(0).train).unfold(2, 6, 1).unfold(3, 6, 1).reshape(-1, 36)
    responses = patches @ filters.weight.flatten(1).T + filters.bias
    assert responses.mean(0).abs().max() < 0.1
    assert 0.6 < float(responses.std(0).min()) <= float(responses.std(0).max()) <= 1.1, "white, but for the ridge"
    add(learner, stream.task(1))
    assert same(dict(filters.state_dict()), first)


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_what_a_task_leaves_in_the_space_is_never_touched_by_the_next(scenario):
    learner, stream = trained(scenario)
    common = learner.specialists.common
    add(learner, stream.task(0))
    before = cloned(common.tasks[0].state())
    certificate = learner.specialists.certificates[0]
    add(learner, stream.task(1))
    assert same(common.tasks[0].state(), before)
    assert learner.specialists.certificates[0] == certificate
    learner.specialists.verify()


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_what_a_task_leaves_in_the_space_follows_from_its_own_images_whatever_came_before(scenario, monkeypatch):
    after_another, stream = trained(scenario)
    for t in (0, 1):
        add(after_another, stream.task(t))
    alone, _ = trained(scenario, tasks=(1,))
    filters = after_another.specialists.common.space.state_dict()
    monkeypatch.setattr(snv_evidence, "fit_space", lambda space, *_: space.load_state_dict(filters))
    add(alone, stream.task(1))
    second, only = after_another.specialists.common.tasks[1], alone.specialists.common.tasks[0]
    assert same(second.head.state(), only.head.state())
    if scenario == "cil":
        assert torch.equal(second.classes.sums, only.classes.sums)
        assert torch.equal(second.classes.counts, only.classes.counts)


def test_in_CIL_sums_are_those_of_training_images_by_class_and_products_grow_by_the_task():
    learner, stream = trained("cil")
    common = learner.specialists.common
    add(learner, stream.task(0))
    before, task = common.products.clone(), stream.task(1)
    add(learner, task)
    features = common.features(images_of(learner, task.train)).double()
    for c, label in enumerate(task.block):
        mine = features[task.train.labels == label]
        assert common.tasks[1].classes.counts[c] == len(mine)
        torch.testing.assert_close(common.tasks[1].classes.sums[c].double(), mine.sum(0), rtol=1e-4, atol=1e-2)
    torch.testing.assert_close(common.products.double(), before.double() + features.T @ features, rtol=1e-4, atol=1e-2)


def test_in_TIL_no_sums_are_kept_since_no_task_is_ever_unknown():
    learner, stream = trained("til", tasks=(0,))
    add(learner, stream.task(0))
    assert learner.specialists.common.tasks[0].classes is None and learner.specialists.common.products is None


def test_validation_images_decide_the_weights_of_opinions_and_nothing_else():
    parts = []
    for turned in (False, True):
        learner, stream = trained("cil")
        add(learner, stream.task(0))
        task = stream.task(1)
        val = InMemory(task.val.pixels, task.val.labels.flip(0) if turned else task.val.labels)
        add(learner, dataclasses.replace(task, val=val))
        parts.append(learner.specialists.common.tasks[1])
    assert same(parts[0].head.state(), parts[1].head.state())
    assert same(parts[0].classes.state(), parts[1].classes.state())
    assert not torch.equal(parts[0].weights, parts[1].weights)
    assert not torch.equal(parts[0].open_weights, parts[1].open_weights)


def test_a_task_that_is_alone_asks_for_no_weights_among_tasks():
    learner, stream = trained("cil")
    add(learner, stream.task(0))
    common = learner.specialists.common
    assert not common.tasks[0].open_weights.any()
    assert torch.equal(common.open_weights(), common.tasks[0].weights.flip(0).double())
    add(learner, stream.task(1))
    assert common.tasks[1].open_weights.any()
    assert torch.equal(common.open_weights(), common.tasks[1].open_weights.double())


# ---- statistics of the specialists' features


def test_statistics_are_class_means_of_training_images_in_every_specialist_so_far():
    learner, stream = trained("cil", common="none")
    specialists, task = learner.specialists, stream.task(1)
    measure(learner, stream.task(0))  # as if both tasks were known by then
    measure(learner, dataclasses.replace(task, val=Unread(task.val), test=Unread(task.test)))
    images = images_of(learner, task.train)
    found = specialists.statistics[1]
    assert len(found.means) == 2
    for s in (0, 1):
        features = specialists.specialist(s).features(images)
        for c, label in enumerate(task.block):
            torch.testing.assert_close(found.means[s][c], features[task.train.labels == label].mean(0))


def test_a_task_measured_later_leaves_the_statistics_and_certificates_of_earlier_ones_as_they_were():
    learner, stream = trained("cil", tasks=(0,), common="none")
    specialists = learner.specialists
    measure(learner, stream.task(0))
    before, certificate = cloned(specialists.statistics[0].state()), specialists.certificates[0]
    learn(learner, stream, 1)
    learner.network.eval()
    measure(learner, stream.task(1))
    now = specialists.statistics[0].state()
    assert all(same(now[key], before[key]) for key in ("energy", "covariance", "features"))
    assert all(torch.equal(*pair) for pair in zip(now["means"], before["means"], strict=True))
    assert specialists.certificates[0] == certificate
    specialists.verify()


def test_of_many_images_some_of_every_class_are_measured_the_same_ones_each_time(monkeypatch):
    monkeypatch.setattr(snv_evidence, "N_MEASURED", 10)
    states, n_images = [], []
    for _ in range(2):
        learner, stream = trained("cil", tasks=(0,), common="none")
        body, seen = learner.specialists.specialist(0).body, []
        body.register_forward_pre_hook(lambda _module, inputs, seen=seen: seen.append(len(inputs[0])))
        measure(learner, stream.task(0))
        states.append(learner.specialists.statistics[0].state())
        n_images.append(max(seen))
    assert n_images == [10, 10]
    assert same({**states[0], "means": 0}, {**states[1], "means": 0})
    assert all(bool(mean.isfinite().all()) for mean in states[0]["means"]), "no class is without an image"


@pytest.mark.parametrize("common", ["patches", "none"])
def test_the_work_is_heard_of(common):
    learner, stream = trained("cil", tasks=(0,), common=common)
    counted, told = [], []

    def count(kind: str, _n: int):
        counted.append(kind)
        return Reporter().counted(kind, _n)

    reporter = Reporter(counted=count, tell=lambda what, done, total: told.append((what, done, total)))
    with torch.no_grad():
        (add_to_common if common == "patches" else add_statistics)(
            learner.specialists, stream.task(0).without_test(), learner.setting, reporter
        )
    assert f"{'opinions' if common == 'patches' else 'statistics'} 0" in counted
    assert told[0][:2] == ("statistics", 0) and told[-1][1] == told[-1][2] > 0
