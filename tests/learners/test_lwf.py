"""LwF keeps old answers on new images, checked against its loss written out in loops."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from plain import plain_kd, softmax
from test_learner_contract import assert_same
from torch import nn
from toy import learn, make, toy_stream

from snv.data import TaskStream, load_source
from snv.errors import UserError
from snv.files import cloned
from snv.learners.lwf import LwF
from snv.networks import build_network
from snv.runs.evaluate import accuracy
from snv.training.loop import Training
from snv.training.stage import Batch


def learned(scenario: str = "cil", n_tasks: int = 1, **config):
    stream = toy_stream()
    learner = make("lwf", scenario, stream, **config)
    for t in range(n_tasks):
        learn(learner, stream, t)
    return learner, stream


def with_norm_layers(**config):
    """A convnet that has learned one task."""
    stream = toy_stream()
    network = build_network("convnet", stream.source.shape, 0, width=4)
    setting = dataclasses.replace(make("lwf", "cil", stream, epochs=2).setting, network=network)
    learner = LwF(setting, LwF.Config(**config))
    learn(learner, stream, 0)
    return learner, stream


def a_batch(learner, task, index: int = 0) -> Batch:
    places = torch.arange(9)
    pixels, labels = next(iter(task.train.batches([places])))
    images = learner.setting.preprocess(pixels, "cpu")
    return Batch(images, labels, pixels, places, learner.stage(task, index), task.id, 0, 0, 1, seed=0)


@pytest.mark.parametrize("tau", [2.0, 4.0])
@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_without_the_factor_of_squared_temperature_the_strength_is_that_much_larger(float64, scenario, tau):
    learner, stream = learned(scenario, 2, strength=0.5, temperature=tau)
    task = stream.task(2)
    learner.begin_task(task)
    with torch.no_grad():
        for p in learner.network.parameters():
            p.mul_(1.3)
    batch, elsewhere = a_batch(learner, task), 0.5 * tau**2
    weights = list(learner.network.parameters())
    ours = learner.loss(batch)
    z, a = learner.network(batch.images), learner.teacher(batch.images)
    new = nn.functional.cross_entropy(z[:, 4:], batch.labels - 4)
    tempered, divergence, over_classes = torch.zeros(3)
    for old in [slice(0, 4)] if scenario == "cil" else [slice(0, 2), slice(2, 4)]:
        p, q = (x[:, old].softmax(1) ** (1 / tau) for x in (a, z))  # the original's form
        p, q = p / p.sum(1, keepdim=True), q / q.sum(1, keepdim=True)
        tempered = tempered - (p * q.log()).sum(1).mean()
        divergence = divergence + nn.functional.kl_div(q.log(), p, reduction="batchmean")
        over_classes = over_classes + p.shape[1] * (p * (p / q).log()).mean()  # a mean over classes too, times K
    torch.testing.assert_close(ours, new + elsewhere * tempered, rtol=1e-12, atol=0)
    gradients = torch.autograd.grad(ours, weights)
    for form in (tempered, divergence, over_classes):  # they differ by the teacher's entropy, which has no gradient
        for g, h in zip(
            gradients, torch.autograd.grad(new + elsewhere * form, weights, retain_graph=True), strict=True
        ):
            torch.testing.assert_close(g, h, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("scope", ["new", "seen"])
@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_the_loss_is_cross_entropy_plus_distillation_in_the_right_softmaxes(scenario, scope):
    learner, stream = learned(scenario, 2, strength=0.7, temperature=3.0, ce_scope=scope)
    task = stream.task(2)
    learner.begin_task(task)
    with torch.no_grad():
        for p in learner.network.parameters():
            p.mul_(1.3)
    batch = a_batch(learner, task)
    new, old = learner.network(batch.images).tolist(), learner.teacher(batch.images).tolist()
    assert (len(new[0]), len(old[0])) == (6, 4)
    first = 0 if scenario == "cil" and scope == "seen" else 4
    rows = zip(new, batch.labels.tolist(), strict=True)
    expected = -sum(math.log(softmax(z[first:])[y - first]) for z, y in rows) / len(new)
    for start, stop in [(0, 4)] if scenario == "cil" else [(0, 2), (2, 4)]:
        expected += 0.7 * plain_kd([z[start:stop] for z in old], [z[start:stop] for z in new], 3.0)
    assert learner.loss(batch).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_at_the_start_of_a_task_distillation_pulls_nowhere(scenario):
    learner, stream = learned(scenario)
    task = stream.task(1)
    learner.begin_task(task)
    images = a_batch(learner, task).images
    logits = learner.network(images)[:, :2].detach().requires_grad_()
    learner.forgotten(logits, learner.teacher(images)).backward()
    assert logits.grad.abs().max() < 1e-6


def test_the_teacher_stands_still_while_its_norm_layers_see_new_images():
    learner, stream = with_norm_layers()
    before = cloned(dict(learner.teacher.state_dict()))
    task = stream.task(1)
    learner.begin_task(task)
    Training(learner, task, learner.stage(task, 0)).run()
    assert_same(dict(learner.teacher.state_dict()), before)
    assert not learner.teacher.training
    assert not torch.equal(learner.network.body.bn1.running_mean, learner.teacher.body.bn1.running_mean)


def test_the_teacher_sees_the_very_tensor_the_student_learns_from():
    learner, stream = learned()
    task = stream.task(1)
    learner.begin_task(task)
    seen = []
    learner.teacher.register_forward_pre_hook(lambda _, inputs: seen.append((inputs[0], torch.is_grad_enabled())))
    batch = a_batch(learner, task)
    learner.loss(batch)
    [(images, with_gradients)] = seen
    assert images is batch.images
    assert not with_gradients


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_with_strength_zero_it_is_SGD_on_the_new_classes_bit_for_bit(scenario):
    lwf, stream = learned(scenario, 3, strength=0.0)
    sgd = make("sgd", scenario, stream, ce_scope="new")
    for t in range(3):
        learn(sgd, stream, t)
    assert_same(dict(lwf.network.state_dict()), dict(sgd.network.state_dict()))


def test_in_TIL_old_answers_last_longer_with_distillation_than_without():
    stream, kept = TaskStream(load_source("digits"), 2, seed=0), {}
    for strength in (0.0, 0.5):
        learner = make("lwf", "til", stream, strength=strength)
        for t in range(2):
            learn(learner, stream, t)
        kept[strength] = accuracy(learner, stream.test(0), stream.blocks[0])
    assert kept[0.5] > kept[0.0] + 1


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_old_heads_move_under_distillation(scenario):
    learner, stream = learned(scenario)
    before = learner.network.heads[0].weight.detach().clone()
    learn(learner, stream, 1)
    assert not torch.equal(learner.network.heads[0].weight, before)


def test_a_softmax_over_all_seen_classes_pushes_old_logits_down():
    gradients = {}
    for scope in ("new", "seen"):
        learner, stream = learned("cil", 1, ce_scope=scope)
        task = stream.task(1)
        learner.begin_task(task)
        learner.loss(a_batch(learner, task)).backward()
        gradients[scope] = learner.network.heads[0].bias.grad
    assert gradients["new"].abs().max() < 1e-6
    assert (gradients["seen"] > 1e-3).all()


def test_only_the_latest_network_is_the_teacher():
    learner, _ = learned("cil", 3)
    assert_same(dict(learner.teacher.state_dict()), dict(learner.network.state_dict()))
    assert not any(p.requires_grad for p in learner.teacher.parameters())
    assert len(learner.state_dict()["teacher"]) == len(learner.state_dict()["network"])


def test_a_warm_up_moves_the_new_head_and_nothing_else():
    learner, stream = with_norm_layers(head_epochs=2)
    task = stream.task(1)
    learner.begin_task(task)
    before = cloned(dict(learner.network.state_dict()))
    stage = learner.stage(task, 0)
    assert (stage.name, stage.settings.epochs) == ("head", 2)
    Training(learner, task, stage).run()
    after = dict(learner.network.state_dict())
    moved = {name for name, x in after.items() if not torch.equal(x, before[name])}
    assert moved == {"heads.1.weight", "heads.1.bias"}
    assert [learner.stage(task, k).name for k in (0, 1)] == ["head", "train"]
    assert learner.stage(task, 2) is None


def test_half_way_through_a_task_its_state_brings_back_the_smaller_teacher():
    learner, stream = learned("til", 2)
    learner.begin_task(stream.task(2))
    state = cloned(learner.state_dict())
    other = make("lwf", "til", stream)
    other.load_state_dict(state)
    assert (len(other.network.heads), len(other.teacher.heads)) == (3, 2)
    assert_same(other.state_dict(), state)
    assert isinstance(other.teacher.heads, nn.ModuleList)


@pytest.mark.parametrize("wrong", [{"strength": -1.0}, {"temperature": 0.0}, {"head_epochs": -1}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(UserError, match=rf"learner\.{next(iter(wrong))} .*; got .*"):
        LwF.Config(**wrong)
