"""EWC holds each weight by its Fisher information, checked against backpropagation written out by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from test_learner_contract import assert_same
from torch import nn
from toy import learn, make, toy_stream

from snv.components.penalty import weighted_distance
from snv.data import TaskStream, load_source
from snv.errors import UserError
from snv.files import cloned
from snv.learners.ewc import EWC
from snv.networks import build_network
from snv.runs.evaluate import accuracy
from snv.training.loop import epoch_order
from snv.training.stage import Batch


def learned(scenario: str = "cil", n_tasks: int = 1, **config):
    stream = toy_stream()
    learner = make("ewc", scenario, stream, **config)
    for t in range(n_tasks):
        learn(learner, stream, t)
    return learner, stream


def batch_of(learner, task, n: int = 16) -> Batch:
    index = epoch_order(len(task.train), n, torch.Generator().manual_seed(0))[0]
    pixels, labels = next(iter(task.train.batches([index])))
    images = learner.setting.preprocess(pixels, "cpu")
    return Batch(images, labels, pixels, index, learner.stage(task, 0), task.id, 0, 0, 1, seed=0)


def by_hand(learner, split, offset: int) -> dict[str, np.ndarray]:
    """Mean squared gradient of log p(label) over a split, for one hidden layer, all in NumPy."""
    weights = {k: v.double().numpy() for k, v in learner.network.state_dict().items()}
    w, b = weights["body.layers.0.weight"], weights["body.layers.0.bias"]
    n_heads = 1 if learner.setting.scenario == "til" else len(learner.blocks)
    heads = range(len(learner.blocks) - n_heads, len(learner.blocks))
    v = np.concatenate([weights[f"heads.{t}.weight"] for t in heads])
    c = np.concatenate([weights[f"heads.{t}.bias"] for t in heads])
    total = {"w": 0, "b": 0, "v": 0, "c": 0}
    for pixels, label in split.batches(torch.arange(len(split)).split(1)):
        x = learner.setting.preprocess(pixels, "cpu").flatten().double().numpy()
        h = np.maximum(w @ x + b, 0)
        z = v @ h + c
        p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        dz = np.eye(len(p))[label.item() - offset] - p
        dh = (v.T @ dz) * (h > 0)
        for name, g in {"w": np.outer(dh, x), "b": dh, "v": np.outer(dz, h), "c": dz}.items():
            total[name] = total[name] + g**2
    return {name: g / len(split) for name, g in total.items()}


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_the_fisher_information_is_that_of_backpropagation_by_hand(scenario):
    learner, stream = learned(scenario, 1, answers="empirical", images=1000, decay=0.0)
    learn(learner, stream, 1)
    offset = 2 if scenario == "til" else 0
    expected = by_hand(learner, stream.task(1).train, offset)
    found = {"w": learner.fisher["body.layers.0.weight"], "b": learner.fisher["body.layers.0.bias"]}
    if scenario == "cil":
        found["v"] = torch.cat([learner.fisher[f"heads.{t}.weight"] for t in range(2)])
        found["c"] = torch.cat([learner.fisher[f"heads.{t}.bias"] for t in range(2)])
    for name, values in found.items():
        np.testing.assert_allclose(values.numpy(), expected[name], rtol=1e-4, atol=1e-5 * expected[name].max())


@pytest.mark.parametrize("answers", ["sampled", "exact", "empirical"])
def test_the_fisher_information_does_not_depend_on_how_images_are_batched(answers):
    learner, stream = learned(answers=answers, images=10)
    task = stream.task(0)
    ones, fours = (learner.new_fisher(task, batch=b) for b in (1, 4))
    for name in ones:
        torch.testing.assert_close(ones[name], fours[name], rtol=1e-5, atol=1e-12)


def test_the_penalty_and_its_gradient_are_those_of_plain_loops():
    learner, stream = learned("cil", 1, strength=30.0)
    task = stream.task(1)
    learner.begin_task(task)
    rng = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in learner.network.parameters():
            p.add_(torch.randn(p.shape, generator=rng))
    batch = batch_of(learner, task)
    learner.loss(batch).backward()
    found = {name: p.grad.clone() for name, p in learner.network.named_parameters()}
    with_penalty = learner.loss(batch).item()
    learner.network.zero_grad()
    plain = nn.functional.cross_entropy(learner.network(batch.images), batch.labels)
    plain.backward()
    penalty = 0.0
    for name, p in learner.network.named_parameters():
        expected = p.grad.clone()
        if name in learner.fisher:
            difference = p.detach() - learner.anchor[name]
            penalty += float((learner.fisher[name].double() * difference.double() ** 2).sum()) * 30 / 2
            expected += 30 * learner.fisher[name] * difference
        torch.testing.assert_close(found[name], expected, rtol=1e-5, atol=1e-6)
    assert with_penalty == pytest.approx(plain.item() + penalty, rel=1e-5)
    assert penalty > 0.01
    assert {"heads.0.weight", "heads.0.bias"} <= learner.fisher.keys()
    assert not any(name.startswith("heads.1") for name in learner.fisher)


def batchwise(learner, split, size: int) -> dict[str, torch.Tensor]:
    """Importance as some libraries have it: mean over batches of the squared gradient of a batch's mean loss."""
    parameters, orders = dict(learner.network.named_parameters()), torch.arange(len(split)).split(size)
    total = {name: torch.zeros_like(p) for name, p in parameters.items()}
    for pixels, labels in split.batches(orders):
        loss = nn.functional.cross_entropy(learner.network(learner.setting.preprocess(pixels, "cpu")), labels)
        for name, g in zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True):
            total[name] += g**2 / len(orders)
    return total


def test_the_fisher_information_of_labels_equals_a_batchwise_one_at_batches_of_one_image_only(float64):
    learner, stream = learned("cil", 1, answers="empirical", images=1000)
    split = stream.task(0).train
    ones, many = batchwise(learner, split, 1), batchwise(learner, split, len(split) // 3)
    for name, found in learner.fisher.items():
        torch.testing.assert_close(found, ones[name], rtol=1e-12, atol=1e-18)
        assert (many[name] <= found * (1 + 1e-12)).all()
        assert many[name].sum() < 0.9 * found.sum()


def test_a_penalty_without_the_half_is_ours_at_twice_its_strength(float64):
    learner, stream = learned("cil", 1, strength=20.0)
    task = stream.task(1)
    learner.begin_task(task)
    with torch.no_grad():
        for p in learner.network.parameters():
            p.mul_(1.3)
    batch, weights = batch_of(learner, task), dict(learner.network.named_parameters())
    ours = learner.loss(batch)
    theirs = nn.functional.cross_entropy(learner.network(batch.images), batch.labels)
    for name, fisher in learner.fisher.items():
        theirs = theirs + 10.0 * (fisher * (weights[name] - learner.anchor[name]) ** 2).sum()
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)
    gradients = (torch.autograd.grad(loss, list(weights.values())) for loss in (ours, theirs))
    for g, h in zip(*gradients, strict=True):
        torch.testing.assert_close(g, h, rtol=1e-10, atol=1e-14)


def test_penalty_and_gradient_are_exactly_zero_at_the_anchor():
    learner, _ = learned()
    distance = weighted_distance(learner.held(), learner.anchor, learner.fisher)
    distance.backward()
    assert distance.item() == 0
    assert all((p.grad == 0).all() for p in learner.held().values())


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_with_strength_zero_it_is_SGD_bit_for_bit(scenario):
    ewc, stream = learned(scenario, 3, strength=0.0)
    sgd = make("sgd", scenario, stream)
    for t in range(3):
        learn(sgd, stream, t)
    assert_same(dict(ewc.network.state_dict()), dict(sgd.network.state_dict()))


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_the_stronger_the_pull_the_less_important_weights_move(scenario):
    moved = []
    for strength in (0.0, 1e2, 1e5):
        learner, stream = learned(scenario, 1, strength=strength)
        anchor, fisher = learner.anchor, learner.fisher
        learn(learner, stream, 1)
        moved.append(weighted_distance(learner.held(), anchor, fisher).item())
    assert moved[0] > 1.5 * moved[1] > 2 * moved[2] > 0


def test_in_TIL_digits_are_remembered_better_than_by_SGD():
    stream, kept = TaskStream(load_source("digits"), 2, seed=0), {}
    for name, config in (("sgd", {}), ("ewc", {"strength": 200.0})):
        learner = make(name, "til", stream, **config)
        for t in range(2):
            learn(learner, stream, t)
        kept[name] = accuracy(learner, stream.test(0), stream.blocks[0])
    assert kept["ewc"] > kept["sgd"] + 1


def test_old_importance_decays_and_new_importance_is_added():
    learner, stream = learned("cil", 1, decay=0.5)
    before = learner.fisher
    learn(learner, stream, 1)
    new = learner.new_fisher(stream.task(1))
    for name, found in learner.fisher.items():
        torch.testing.assert_close(found, new[name] + 0.5 * before.get(name, torch.zeros_like(found)))
    assert_same(learner.anchor, {name: p.detach() for name, p in learner.network.named_parameters()})


def test_estimating_importance_changes_no_weight_and_no_statistic_of_a_norm_layer():
    stream = toy_stream()
    plain = make("ewc", "cil", stream)
    network = build_network("convnet", stream.source.shape, 0, width=4)
    learner = EWC(dataclasses.replace(plain.setting, network=network))
    learner.begin_task(stream.task(0))
    network.train()
    before = cloned(dict(network.state_dict()))
    learner.end_task(stream.task(0))
    assert_same(dict(network.state_dict()), before)
    assert network.training
    assert "body.bn1.weight" in learner.fisher


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_it_keeps_two_numbers_per_held_weight_however_many_tasks_there_were(scenario):
    learner, _ = learned(scenario, 3)
    network = learner.network if scenario == "cil" else learner.network.body
    n_weights = sum(p.numel() for p in network.parameters())
    state = learner.state_dict()
    assert sum(x.numel() for key in ("fisher", "anchor") for x in state[key].values()) == 2 * n_weights


@pytest.mark.parametrize("wrong", [{"strength": -1.0}, {"strength": float("nan")}, {"decay": 1.1}, {"images": 0}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(UserError, match=rf"learner\.{next(iter(wrong))} .*; got .* Try"):
        EWC.Config(**wrong)
