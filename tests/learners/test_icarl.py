"""iCaRL: loss, exemplars and means against plain ones; answers by the nearest mean."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from test_learner_contract import assert_same
from toy import learn, make, toy_stream

from snv.components.replay import Joined
from snv.errors import UserError
from snv.files import cloned, load_state, save_state
from snv.learners.icarl import ICaRLConfig, class_means, nearness, targets
from snv.runs.evaluate import accuracy
from snv.training.loop import Training

SCENARIOS = pytest.mark.parametrize("scenario", ["til", "cil"])


def learned(scenario="cil", n_tasks=2, **config):
    stream = toy_stream()
    learner = make("icarl", scenario, stream, **config)
    for t in range(n_tasks):
        learn(learner, stream, t)
    return learner, stream


def begun(scenario="cil", **config):
    """One task learned, the next begun, and a batch of it."""
    learner, stream = learned(scenario, 1, **config)
    task = stream.task(1).without_test()
    learner.begin_task(task)
    training = Training(learner, task, learner.stage(task, 0))
    return learner, task, next(training._batches())


@torch.no_grad()
def plain_features(learner, pixels, mirrored=False):
    """One image at a time, divided by its length."""
    rows = []
    for image in learner.setting.preprocess(pixels, "cpu"):
        f = learner.network.features((image.flip(2) if mirrored else image)[None])[0]
        rows.append(f / math.sqrt(float((f * f).sum())))
    return rows


# ---- training


@SCENARIOS
def test_the_loss_equals_the_plain_one(scenario):
    learner, _, batch = begun(scenario)
    learner.network.train()
    with torch.no_grad():
        z, old = learner.network(batch.images).tolist(), learner.teacher(batch.images).tolist()
        total = 0.0
        for i, label in enumerate(batch.labels.tolist()):
            for c in range(4):
                q = 1 / (1 + math.exp(-old[i][c])) if c < 2 else float(label == c)
                p = 1 / (1 + math.exp(-z[i][c]))
                total -= q * math.log(p) + (1 - q) * math.log(1 - p)
        assert float(learner.loss(batch)) == pytest.approx(total / (len(z) * 4), abs=1e-5)


def test_the_first_task_has_no_teacher_and_one_hot_targets():
    learner, _ = learned(n_tasks=0)
    learner.begin_task(toy_stream().task(0).without_test())
    assert learner.teacher is None
    assert torch.equal(targets(torch.tensor([1, 0]), 2, None), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))


def test_old_classes_follow_the_teacher_also_on_their_own_exemplars():
    old_logits = torch.tensor([[2.0, -1.0], [0.5, 3.0]])
    q = targets(torch.tensor([1, 2]), 4, old_logits)
    torch.testing.assert_close(q[:, :2], old_logits.sigmoid())
    assert torch.equal(q[:, 2:], torch.tensor([[0.0, 0.0], [1.0, 0.0]]))


def test_at_the_first_step_of_a_task_old_classes_receive_no_gradient():
    learner, _, batch = begun()
    learner.network.eval()
    learner.loss(batch).backward()
    assert not learner.network.head(0).weight.grad.any()
    assert learner.network.head(1).weight.grad.any()


def test_classes_of_the_future_take_no_part_in_the_loss():
    learner, _, batch = begun()
    seen = []
    learner.network.register_forward_hook(lambda _module, _inputs, logits: seen.append(logits.shape[1]))
    learner.loss(batch)
    assert seen == [4]


def test_the_teacher_is_the_previous_model_and_never_moves():
    learner, stream = learned(n_tasks=1)
    before = cloned(dict(learner.network.state_dict()))
    task = stream.task(1).without_test()
    learner.begin_task(task)
    Training(learner, task, learner.stage(task, 0)).run()
    assert_same(dict(learner.teacher.state_dict()), before)
    assert not torch.equal(learner.network.head(0).weight, before["heads.0.weight"])
    learner.end_task(task)
    assert learner.teacher is None


def test_a_later_task_trains_on_its_images_and_all_exemplars():
    learner, task, _ = begun(buffer=20)
    split = learner.stage(task, 0).train
    assert isinstance(split, Joined)
    assert len(split) == len(task.train) + 20
    order = [torch.arange(len(split))]
    pixels, labels = next(iter(split.batches(order)))
    assert torch.equal(pixels[len(task.train) :], learner.exemplars.split().pixels)
    assert labels[len(task.train) :].bincount().tolist() == [10, 10]


def test_validation_is_the_training_loss_on_new_images():
    learner, task, _ = begun()
    learner.network.eval()
    images = learner.setting.preprocess(task.val.pixels, "cpu")
    with torch.no_grad():
        loss, right = learner.validation(images, task.val.labels, learner.stage(task, 0))
        logits, old_logits = learner.network(images), learner.teacher(images)
    q = targets(task.val.labels, 4, old_logits)
    expected = -(q * logits.sigmoid().log() + (1 - q) * (1 - logits.sigmoid()).log()).mean()
    torch.testing.assert_close(loss, expected)
    assert int(right) == int((logits.argmax(1) == task.val.labels).sum())


def test_the_papers_weight_decay_counts_unless_the_run_has_its_own():
    learner, stream = learned(n_tasks=0)
    assert learner.stage(stream.task(0), 0).settings.weight_decay == 5e-5
    train = dataclasses.replace(learner.setting.train, weight_decay=0.1)
    learner.setting = dataclasses.replace(learner.setting, train=train)
    assert learner.stage(stream.task(0), 0).settings.weight_decay == 0.1
    assert learner.stage(stream.task(0), 1) is None


# ---- exemplars and means


def test_the_memory_is_never_above_its_size_and_every_list_is_a_prefix_of_its_earlier_self():
    stream = toy_stream()
    learner = make("icarl", "cil", stream, buffer=25)
    before = []
    for t in range(3):
        learn(learner, stream, t)
        lists = learner.exemplars.of_class
        assert len(learner.exemplars) <= 25
        assert {len(pixels) for pixels in lists} == {25 // (2 * (t + 1))}
        for now, then in zip(lists, before, strict=False):
            assert torch.equal(now, then[: len(now)])
        before = lists


def test_with_fewer_places_than_classes_each_keeps_one_and_that_is_logged(caplog):
    learner, _ = learned(n_tasks=2, buffer=3)
    assert [len(pixels) for pixels in learner.exemplars.of_class] == [1, 1, 1, 1]
    assert "3 images for 4 classes" in caplog.text


def test_exemplars_are_herded_from_the_training_images_of_their_class():
    learner, stream = learned(n_tasks=1, buffer=10)
    train = stream.task(0).train
    for c in range(2):
        pixels = train.pixels[train.labels == c]
        rows = torch.stack(plain_features(learner, pixels))
        picks: list[int] = []
        for _ in range(5):
            left = [i for i in range(len(rows)) if i not in picks]
            gaps = [float((rows.mean(0) - rows[[*picks, i]].mean(0)).norm()) for i in left]
            picks.append(left[gaps.index(min(gaps))])
        assert torch.equal(learner.exemplars.of_class[c], pixels[picks])


@pytest.mark.parametrize("mirror", [False, True])
def test_class_means_equal_the_plain_ones_of_the_newest_features_for_old_classes_too(mirror):
    learner, _ = learned(n_tasks=2, buffer=12, mirror=mirror)
    assert learner.means.shape == (4, 24)
    for c, pixels in enumerate(learner.exemplars.of_class):
        rows = plain_features(learner, pixels)
        mean = sum(rows) / len(rows)
        if mirror:
            flipped = plain_features(learner, pixels, mirrored=True)
            mean = (mean + sum(flipped) / len(flipped)) / 2
        torch.testing.assert_close(learner.means[c], mean / mean.norm(), atol=1e-5, rtol=0)


def test_mirrored_exemplars_count_where_training_mirrors_images():
    learner, _ = learned(n_tasks=1)
    with torch.no_grad():
        unmirrored = learner._class_means()
    photographs = dataclasses.replace(learner.setting.preprocess, augmentation="crop-flip")
    learner.setting = dataclasses.replace(learner.setting, preprocess=photographs)
    assert torch.equal(unmirrored, learner.means)
    with torch.no_grad():
        assert not torch.equal(learner._class_means(), unmirrored)


def test_means_have_length_one_and_do_not_depend_on_how_many_exemplars_a_class_has():
    features = torch.nn.functional.normalize(torch.rand(6, 5), dim=1)
    labels = torch.tensor([0, 0, 0, 1, 1, 2])
    means = class_means(features, labels, 3)
    torch.testing.assert_close(means.norm(dim=1), torch.ones(3))
    torch.testing.assert_close(means[2], features[5])


# ---- prediction


def test_the_answer_is_the_nearest_mean():
    learner, stream = learned(n_tasks=3)
    learner.network.eval()
    pixels = stream.test(1).pixels
    rows = plain_features(learner, pixels)
    images = learner.setting.preprocess(pixels, "cpu")
    gaps = [[float((f - mean).norm()) for mean in learner.means] for f in rows]
    assert learner.logits(images, None).argmax(1).tolist() == [gap.index(min(gap)) for gap in gaps]
    for block in stream.blocks:
        assert (learner.logits(images, block).argmax(1) + block.start).tolist() == [
            min(block, key=gap.__getitem__) for gap in gaps
        ]


def test_scores_do_not_depend_on_the_length_of_features_nor_on_the_batch():
    features, means = torch.rand(40, 7), torch.nn.functional.normalize(torch.rand(30, 7), dim=1)
    scores = nearness(features, means)
    torch.testing.assert_close(scores, nearness(5 * features, means))
    assert torch.equal(scores[:3], nearness(features[:3], means))
    assert (scores <= 0).all()


def test_a_task_not_yet_over_is_answered_by_its_head():
    learner, task, batch = begun("til")
    with torch.no_grad():
        expected = learner.network(batch.images, 1)
        assert torch.equal(learner.logits(batch.images, task.block), expected)


def test_it_remembers_in_CIL_what_SGD_forgets():
    stream = toy_stream()
    final = {}
    for name in ("sgd", "icarl"):
        learner = make(name, "cil", stream, epochs=15)
        for t in range(3):
            learn(learner, stream, t)
        final[name] = [accuracy(learner, stream.test(j), stream.blocks[j]) for j in range(3)]
    assert sum(final["icarl"][:2]) > sum(final["sgd"][:2]) + 60


# ---- what is kept


def test_saved_in_the_middle_of_a_task_it_comes_back_with_its_teacher(tmp_path):
    learner, task, _ = begun()
    Training(learner, task, learner.stage(task, 0)).train_one_epoch()
    save_state(tmp_path / "state", learner.state_dict())
    copy = make("icarl", "cil", toy_stream())
    copy.load_state_dict(load_state(tmp_path / "state"))
    assert_same(copy.state_dict(), learner.state_dict())
    assert not any(p.requires_grad for p in copy.teacher.parameters())
    assert not copy.teacher.training


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"buffer": 0}, {"weight_decay": -1.0}):
        with pytest.raises(UserError, match=f"learner.{next(iter(wrong))}.*got"):
            ICaRLConfig(**wrong)
