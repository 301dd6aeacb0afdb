"""WSN forgets nothing under any optimiser, and its masks are what the paper says."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_learner_contract import assert_same
from toy import learn, make, toy_stream

from snv.errors import UserError
from snv.files import cloned
from snv.learners.wsn import WSN, Winning, packed, unpacked, winners
from snv.metrics.transfer import backward_transfer
from snv.networks import build_network
from snv.runs.evaluate import accuracy
from snv.training.loop import Training
from snv.training.reporter import Reporter


def convolutional(stream, **changes) -> WSN:
    """With batch norm, and weights laid out as runs have them."""
    setting = make("sgd", "til", stream, epochs=2).setting
    network = build_network("convnet", stream.source.shape, 0, width=4).to(memory_format=torch.channels_last)
    config = WSN.Config(**{key: changes.pop(key) for key in ("capacity", "norm") if key in changes})
    return WSN(
        dataclasses.replace(setting, network=network, train=dataclasses.replace(setting.train, **changes)), config
    )


def probes() -> torch.Tensor:
    return torch.randn(7, 1, 8, 8, generator=torch.Generator().manual_seed(5))


OPTIMISERS = [
    {"optimizer": "adam"},
    {"optimizer": "adam", "weight_decay": 5e-3},
    {"optimizer": "adamw", "weight_decay": 5e-2},
    {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 5e-3},
]


@pytest.mark.parametrize("norm", ["per task", "batch"])
@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=lambda o: f"{o['optimizer']}-{o.get('weight_decay', 0)}")
def test_frozen_weights_and_old_logits_stay_bit_identical_and_BWT_is_exactly_0(optimiser, norm):
    stream = toy_stream()
    learner = convolutional(stream, norm=norm, **optimiser)
    matrix = np.zeros((3, 3))
    weights, logits = [], []
    for t in range(3):
        learn(learner, stream, t)
        learner.network.eval()
        weights.append({k: w.detach()[learner._mask(t)[k]].clone() for k, w in learner.weights.items()})
        logits.append(learner.logits(probes(), stream.blocks[t]))
        matrix[t, : t + 1] = [accuracy(learner, stream.test(j), stream.blocks[j]) for j in range(t + 1)]
    for t in range(3):
        assert_same({k: w.detach()[learner._mask(t)[k]] for k, w in learner.weights.items()}, weights[t])
        assert torch.equal(learner.logits(probes(), stream.blocks[t]), logits[t])
    assert backward_transfer(matrix) == 0.0


def test_what_lies_outside_a_tasks_mask_can_be_anything():
    stream = toy_stream()
    learner = convolutional(stream)
    learn(learner, stream, 0)
    learner.network.eval()
    before = learner.logits(probes(), stream.blocks[0])
    with torch.no_grad():
        for name, weight in learner.weights.items():
            weight[~learner._mask(0)[name]] = -math.inf
        for module in learner.body.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.fill_(9)
                module.weight.fill_(9)
    learner._at_hand = None
    assert torch.equal(learner.logits(probes(), stream.blocks[0]), before)


def test_the_share_of_selected_weights_is_the_papers_to_the_last_weight():
    scores = torch.randn(64, 3, 3, 3, generator=torch.Generator().manual_seed(0))
    assert int(winners(scores, 0.1).sum()) == 174
    for n in (1, 2, 7, 100, 1001):
        for capacity in (0.03, 0.3, 0.5, 1.0):
            scores = torch.randn(n, generator=torch.Generator().manual_seed(n))
            assert int(winners(scores, capacity).sum()) == n - round((1 - capacity) * (n - 1))


def test_winners_are_those_a_sort_by_hand_finds():
    scores = torch.randn(20, 4, 3, 3, generator=torch.Generator().manual_seed(1)).to(memory_format=torch.channels_last)
    ranked = sorted((abs(float(s)), i) for i, s in enumerate(scores.flatten()))
    expected = {i for _, i in ranked[round(0.8 * 719) :]}
    assert set(winners(scores, 0.2).flatten().nonzero()[:, 0].tolist()) == expected


def test_gradients_of_weights_and_scores_are_the_straight_through_ones():
    draw = torch.Generator().manual_seed(2)
    w, s, x, target = (torch.randn(5, 4, generator=draw) for _ in range(4))
    x = x[:3]
    free = torch.rand(5, 4, generator=draw) > 0.4
    mask = winners(s, 0.5)
    weight, scores = (tensor.clone().requires_grad_() for tensor in (w, s))
    F.linear(x, Winning.apply(weight, scores, mask, free)).sub(target[:, :3].T).square().sum().backward()
    for i in range(5):
        for j in range(4):
            slope = 0.0  # ∂L/∂ŵ_ij
            for b in range(3):
                output = sum(float(x[b, k]) * float(w[i, k]) * bool(mask[i, k]) for k in range(4))
                slope += 2 * (output - float(target[i, b])) * float(x[b, j])
            assert weight.grad[i, j] == pytest.approx(slope * bool(mask[i, j]) * bool(free[i, j]), abs=1e-4, rel=1e-5)
            assert scores.grad[i, j] == pytest.approx(
                slope * float(w[i, j]) * math.copysign(1, s[i, j]), abs=1e-4, rel=1e-5
            )


def test_with_all_weights_the_first_task_is_SGD_bit_for_bit():
    stream = toy_stream()
    plain, winning = make("sgd", "til", stream), make("wsn", "til", stream, capacity=1.0)
    for learner in (plain, winning):
        learn(learner, stream, 0)
    assert_same(dict(plain.network.state_dict()), dict(winning.network.state_dict()))


def test_frozen_weights_are_reused_and_their_scores_go_on_learning():
    stream = toy_stream()
    learner = make("wsn", "til", stream)
    learn(learner, stream, 0)
    scores = cloned(dict(learner.scores))
    used = [learner._mask(0)]
    learn(learner, stream, 1)
    used.append(learner._mask(1))
    for name, first in used[0].items():
        assert (first & used[1][name]).any()
        assert (learner.scores[name].detach() != scores[name])[first].any()


def test_the_weights_in_use_grow_with_tasks_and_never_beyond_their_share():
    stream = toy_stream()
    learner = make("wsn", "til", stream, capacity=0.2)
    before = {name: free.clone() for name, free in learner.free.items()}
    for t in range(3):
        learn(learner, stream, t)
        for name, free in learner.free.items():
            assert not (free & ~before[name]).any()
            assert int((~free).sum()) <= min(1, (t + 1) * 0.2) * free.numel() + t + 1
        before = {name: free.clone() for name, free in learner.free.items()}
    assert learner.capacity()["parameters"] < learner.capacity()["with masks"] < 1


def test_a_mask_is_one_bit_per_weight_and_comes_from_the_best_epoch():
    stream = toy_stream()
    learner = make("wsn", "til", stream, epochs=12)
    learn(learner, stream, 0)
    assert learner.bits[0].nbytes == math.ceil(sum(w.numel() for w in learner.weights.values()) / 8)
    for name, mask in learner._mask(0).items():
        assert torch.equal(mask, winners(learner.scores[name], 0.3))
    mask = torch.rand(1003, generator=torch.Generator().manual_seed(0)) > 0.5
    assert torch.equal(unpacked(packed(mask), 1003), mask)


def test_cut_in_the_middle_of_an_epoch_it_goes_on_with_the_same_bits():
    stream = toy_stream()
    whole, cut = convolutional(stream), convolutional(stream)
    for learner in (whole, cut):
        learn(learner, stream, 0)
    learn(whole, stream, 1)
    task = stream.task(1).without_test()
    cut.begin_task(task)
    stage = cut.stage(task, 0)
    saved = {}

    def keep(training: Training) -> None:
        if (training.progress.epoch, training.progress.step) == (1, 1):
            saved.update(cloned({"learner": cut.state_dict(), "training": training.state_dict()}))

    cut.reporter = Reporter(on_step=keep)
    Training(cut, task, stage).run()
    resumed = convolutional(stream)
    resumed.load_state_dict(saved["learner"])
    Training(resumed, task, stage, saved["training"]).run()
    resumed.end_task(task)
    assert_same(resumed.state_dict(), whole.state_dict())


def test_a_capacity_that_is_no_share_is_refused():
    with pytest.raises(UserError, match=r"capacity .* lies in \(0, 1\]; got 30"):
        WSN.Config(capacity=30)
