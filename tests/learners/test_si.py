"""SI credits each weight with its part in the fall of the loss, checked against a training loop written out plainly."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from test_learner_contract import assert_same
from torch import nn
from toy import learn, make, toy_stream

from snv.components.penalty import weighted_distance
from snv.data import TaskStream, load_source
from snv.errors import UserError
from snv.files import cloned
from snv.learners.si import SI, importance
from snv.networks import build_network
from snv.runs.evaluate import accuracy
from snv.training.loop import Training
from snv.training.reporter import Reporter
from snv.training.settings import TrainSettings
from snv.training.stage import Batch, Stage


def learned(scenario: str = "cil", n_tasks: int = 1, **config):
    stream = toy_stream()
    learner = make("si", scenario, stream, **config)
    for t in range(n_tasks):
        learn(learner, stream, t)
    return learner, stream


def whole_batch(learner, task, settings: TrainSettings | None = None) -> Batch:
    index = torch.arange(len(task.train))
    pixels, labels = next(iter(task.train.batches([index])))
    images = learner.setting.preprocess(pixels, "cpu")
    stage = Stage("train", settings or learner.setting.train)
    return Batch(images, labels, pixels, index, stage, task.id, 0, 0, 1, seed=0)


def test_on_a_convex_loss_the_path_integral_sums_to_the_loss_decrease():
    stream = toy_stream()
    learner = make("si", "cil", stream)
    learner.network.body.requires_grad_(False)  # a linear model on fixed features
    task = stream.task(0)
    learner.begin_task(task)
    batch = whole_batch(learner, task)
    optimizer = torch.optim.SGD(learner.network.parameters(), lr=2e-2)
    losses = [learner.step(batch, optimizer).item() for _ in range(201)]
    end = learner.loss(batch).item()
    total = sum(float(w.sum()) for w in learner.path.values())
    assert total == pytest.approx(losses[0] - end, rel=0.01)
    assert losses[0] - end > 0.05


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_path_and_weights_are_those_of_a_plain_training_loop(scenario):
    learner, stream = learned(scenario, 1, strength=20.0)
    task = stream.task(1)
    learner.begin_task(task)
    twin, block = copy.deepcopy(learner.network), task.block
    start = {name: p.detach().clone() for name, p in twin.named_parameters()}
    path = {name: torch.zeros_like(p) for name, p in start.items()}
    optimizers = [torch.optim.Adam(n.parameters(), lr=5e-3) for n in (learner.network, twin)]
    batch = whole_batch(learner, task)
    for k in range(6):
        part = slice(7 * k, 7 * k + 7)
        small = dataclasses.replace(
            batch, images=batch.images[part], labels=batch.labels[part], pixels=batch.pixels[part]
        )
        told = learner.step(small, optimizers[0])

        logits = twin(small.images)[:, block.start if scenario == "til" else 0 :]
        ce = nn.functional.cross_entropy(logits, small.labels - (block.start if scenario == "til" else 0))
        parameters = dict(twin.named_parameters())
        g = torch.autograd.grad(ce, list(parameters.values()), retain_graph=True, materialize_grads=True)
        penalty = 20 * sum((learner.omega[n] * (parameters[n] - start[n]) ** 2).sum() for n in learner.omega)
        optimizers[1].zero_grad()
        (ce + penalty).backward()
        before = {name: p.detach().clone() for name, p in parameters.items()}
        optimizers[1].step()
        for (name, p), gradient in zip(parameters.items(), g, strict=True):
            path[name] -= gradient * (p.detach() - before[name])
        assert told.item() == pytest.approx((ce + penalty).item(), rel=1e-5)
    for name, w in learner.path.items():
        torch.testing.assert_close(w, path[name], rtol=1e-4, atol=1e-5 * path[name].abs().max().item())


@pytest.mark.parametrize("clip_norm", [None, 1e-3])
def test_under_a_huge_penalty_and_clipping_the_recorded_gradient_is_still_that_of_the_task(clip_norm):
    learner, stream = learned("cil", 1, strength=1e8)
    task = stream.task(1)
    learner.begin_task(task)
    with torch.no_grad():
        for p in learner.network.parameters():
            p.add_(0.1)
    batch = whole_batch(learner, task, TrainSettings(clip_norm=clip_norm))
    names = list(learner.path)
    parameters = dict(learner.network.named_parameters())
    g = torch.autograd.grad(learner.loss(batch), [parameters[name] for name in names])
    before = [parameters[name].detach().clone() for name in names]
    learner.step(batch, torch.optim.SGD(learner.network.parameters(), lr=1e-6))
    for name, gradient, old in zip(names, g, before, strict=True):
        assert torch.equal(learner.path[name], -gradient * (parameters[name].detach() - old))


def test_importance_is_never_negative_and_zero_where_nothing_moved():
    stream = toy_stream()
    learner = make("si", "cil", stream)
    task = stream.task(0)
    learner.begin_task(task)
    batch = whole_batch(learner, task)
    batch.images[:, :, 0, 0] = 0  # no gradient for the weights that read this pixel
    optimizer = torch.optim.Adam(learner.network.parameters(), lr=0.01)
    for _ in range(10):
        learner.step(batch, optimizer)
    learner.path["heads.0.bias"].fill_(-1)  # as if the path had led uphill
    learner.end_task(task)
    assert all((omega >= 0).all() for omega in learner.omega.values())
    assert (learner.omega["heads.0.bias"] == 0).all()
    assert (learner.omega["body.layers.0.weight"][:, 0] == 0).all()
    assert (learner.omega["body.layers.0.weight"][:, 1] > 0).any()


def test_importance_is_path_over_squared_movement_and_adds_up_over_tasks():
    learner, stream = learned("cil", 1, damping=0.01)
    before = cloned(learner.omega)
    task = stream.task(1)
    learner.begin_task(task)
    Training(learner, task, learner.stage(task, 0)).run()
    path, start = learner.path, learner.start
    learner.end_task(task)
    assert learner.omega.keys() == dict(learner.network.named_parameters()).keys()
    for name, p in learner.network.named_parameters():
        expected = before.get(name, torch.zeros_like(p)).flatten().tolist()
        for j, (w, a, b) in enumerate(zip(path[name].flatten(), start[name].flatten(), p.flatten(), strict=True)):
            expected[j] += max(0.0, w.item()) / ((b.item() - a.item()) ** 2 + 0.01)
        torch.testing.assert_close(learner.omega[name].flatten(), torch.tensor(expected), rtol=1e-5, atol=1e-7)


def test_a_negative_path_counts_as_no_importance():
    found = importance(torch.tensor([-1.0, 0.0, 2.0]), torch.zeros(3), torch.tensor([1.0, 0.0, 3.0]), damping=1.0)
    torch.testing.assert_close(found, torch.tensor([0.0, 0.0, 0.2]))


def test_on_a_first_task_of_plain_SGD_importance_equals_the_form_with_squared_gradients(float64):
    stream = toy_stream()
    learner, lr = make("si", "cil", stream, damping=0.01), 0.05
    task = stream.task(0)
    learner.begin_task(task)
    batch, squares = whole_batch(learner, task), {name: torch.zeros_like(w) for name, w in learner.path.items()}
    start = {name: p.detach().clone() for name, p in learner.network.named_parameters()}
    optimizer = torch.optim.SGD(learner.network.parameters(), lr=lr)
    for _ in range(10):
        gradients = torch.autograd.grad(learner.loss(batch), list(learner.network.parameters()))
        learner.step(batch, optimizer)
        for name, g in zip(start, gradients, strict=True):
            squares[name] += lr * g**2
    learner.end_task(task)
    for name, p in learner.network.named_parameters():
        theirs = squares[name] / ((p.detach() - start[name]) ** 2 + 0.01)
        torch.testing.assert_close(learner.omega[name], theirs, rtol=1e-9, atol=1e-15)


def test_a_task_that_went_uphill_takes_no_earlier_importance_away(float64):
    learner, stream = learned("cil", 1, damping=0.01)
    before = cloned(learner.omega)
    learner.begin_task(stream.task(1))
    paths = {name: torch.linspace(-1, 1, w.numel()).view_as(w) for name, w in learner.path.items()}
    learner.path = dict(paths)
    learner.end_task(stream.task(1))  # nothing moved, so the path is divided by the damping alone
    for name, old in before.items():
        sum_clamped = (old + paths[name] / 0.01).clamp(min=0)  # the original's form
        torch.testing.assert_close(learner.omega[name], old + paths[name].clamp(min=0) / 0.01, rtol=1e-12, atol=0)
        assert (learner.omega[name] >= sum_clamped).all()
        downhill = paths[name] >= 0
        torch.testing.assert_close(learner.omega[name][downhill], sum_clamped[downhill], rtol=1e-12, atol=0)


def test_a_penalty_with_a_half_is_ours_at_half_its_strength(float64):
    learner, stream = learned("cil", 1, strength=0.5, damping=0.01)
    task = stream.task(1)
    learner.begin_task(task)
    with torch.no_grad():
        for p in learner.network.parameters():
            p.mul_(1.3)
    batch, weights = whole_batch(learner, task), dict(learner.network.named_parameters())
    theirs = nn.functional.cross_entropy(learner.network(batch.images), batch.labels)
    for name, omega in learner.omega.items():
        theirs = theirs + 1.0 / 2 * (omega * (weights[name] - learner.start[name]) ** 2).sum()
    theirs.backward()
    expected = {name: (p - 0.1 * p.grad).detach() for name, p in weights.items()}
    told = learner.step(batch, torch.optim.SGD(learner.network.parameters(), lr=0.1))
    torch.testing.assert_close(told, theirs.detach(), rtol=1e-12, atol=0)
    for name, p in weights.items():
        torch.testing.assert_close(p.detach(), expected[name], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_with_strength_zero_it_is_SGD_bit_for_bit(scenario):
    si, stream = learned(scenario, 3, strength=0.0)
    sgd = make("sgd", scenario, stream)
    for t in range(3):
        learn(sgd, stream, t)
    assert_same(dict(si.network.state_dict()), dict(sgd.network.state_dict()))


def test_the_stronger_the_pull_the_less_important_weights_move():
    moved = []
    for strength in (0.0, 1e2, 1e5):
        learner, stream = learned("til", 1, strength=strength)
        omega, start = cloned(learner.omega), {name: p.detach().clone() for name, p in learner.held().items()}
        learn(learner, stream, 1)
        moved.append(weighted_distance(learner.held(), start, omega).item())
    assert moved[0] > 1.5 * moved[1] > 2 * moved[2] > 0


def test_in_TIL_digits_are_remembered_better_than_by_SGD():
    stream, kept = TaskStream(load_source("digits"), 2, seed=0), {}
    for name, config in (("sgd", {}), ("si", {"strength": 1.0, "damping": 1e-3})):
        learner = make(name, "til", stream, **config)
        for t in range(2):
            learn(learner, stream, t)
        kept[name] = accuracy(learner, stream.test(0), stream.blocks[0])
    assert kept["si"] > kept["sgd"] + 1


def test_the_path_belongs_to_the_epoch_that_early_stopping_brings_back():
    stream = toy_stream()
    learner = make("si", "cil", stream)
    task = stream.task(0)
    learner.begin_task(task)
    stage = Stage("train", TrainSettings(epochs=6, batch_size=16, lr=0.5, patience=3))
    epochs = []
    learner.reporter = Reporter(on_epoch=lambda entry: epochs.append((entry["val_loss"], cloned(learner.path))))
    Training(learner, task, stage).run()
    best = min(range(len(epochs)), key=lambda k: epochs[k][0])
    assert best < len(epochs) - 1  # later epochs were undone
    assert_same(learner.path, epochs[best][1])


def test_norm_layers_can_be_left_free():
    stream = toy_stream()
    setting = make("si", "cil", stream).setting
    for kept in (True, False):
        network = build_network("convnet", stream.source.shape, 0, width=4)
        learner = SI(dataclasses.replace(setting, network=network), SI.Config(norm_layers=kept))
        learner.begin_task(stream.task(0))
        assert ("body.bn1.weight" in learner.path) is kept
        assert {"body.conv1.weight", "heads.0.bias"} <= learner.path.keys()


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_it_keeps_one_number_per_held_weight_between_tasks_and_three_within(scenario):
    learner, stream = learned(scenario, 2)
    network = learner.network if scenario == "cil" else learner.network.body

    def n_kept() -> int:
        state = learner.state_dict()
        return sum(x.numel() for key in ("omega", "start", "path") for x in state[key].values())

    assert n_kept() == sum(p.numel() for p in network.parameters())
    before = n_kept()
    learner.begin_task(stream.task(2))
    assert n_kept() == before + 2 * sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize("wrong", [{"strength": -1.0}, {"damping": 0.0}, {"damping": float("inf")}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(UserError, match=rf"learner\.{next(iter(wrong))} .*; got .* Try"):
        SI.Config(**wrong)
