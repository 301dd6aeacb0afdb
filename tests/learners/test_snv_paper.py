"""Algorithm 1 as printed: what it promises holds, and what is wrong with it shows."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from test_learner_contract import assert_same
from toy import learn, make, toy_stream

from snv.errors import UserError
from snv.files import load_state, save_state
from snv.learners.snv_paper import SNVPaper
from snv.networks import build_network
from snv.neurons.wiring import own_weights
from snv.runs.evaluate import accuracy
from snv.shapley import bandit
from snv.training.loop import Training
from snv.valuation.neuron_game import NeuronGame

QUICK = {"permutations": 3, "burn_in": 2}


def probes() -> torch.Tensor:
    return torch.randn(7, 1, 8, 8, generator=torch.Generator().manual_seed(5))


def learned(n_tasks: int = 2, scenario: str = "til", **config) -> tuple[SNVPaper, object]:
    stream = toy_stream()
    learner = make("snv-paper", scenario, stream, **QUICK, **config)
    for t in range(n_tasks):
        learn(learner, stream, t)
    return learner, stream


def normed(learner: SNVPaper) -> SNVPaper:
    """The same with a small convolutional network that has norm layers."""
    network = build_network("convnet", learner.setting.preprocess.shape, 0, width=6)
    return SNVPaper(dataclasses.replace(learner.setting, network=network), learner.config)


def test_the_defaults_are_the_papers():
    config = SNVPaper.Config()
    assert (config.capacity, config.floor, config.confidence) == (0.1, 0.05, 0.95)
    assert (config.cumulative, config.released) == (True, 0.0)


def test_a_task_is_one_stage_of_plain_training_with_all_epochs():
    stream = toy_stream()
    learner, task = make("snv-paper", "til", stream, epochs=9), stream.task(0).without_test()
    assert learner.stage(task, 0).settings.epochs == 9
    assert learner.stage(task, 1) is None


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_the_loss_stays_within_the_current_tasks_classes_and_other_heads_do_not_move(scenario):
    learner, stream = learned(1, scenario)
    before = [p.detach().clone() for p in learner.network.heads[0].parameters()]
    learner.begin_task(stream.task(1).without_test())
    assert learner.logits(probes(), learner.scope()).shape == (7, 2)
    task = stream.task(1).without_test()
    Training(learner, task, learner.stage(task, 0)).run()
    assert all(torch.equal(a, b) for a, b in zip(learner.network.heads[0].parameters(), before, strict=True))


def test_EstimateSNV_gets_validation_accuracy_of_this_task_and_the_papers_symbols(monkeypatch):
    seen = []

    def estimate(game, settings, *, seed):
        seen.append((game, settings))
        return bandit.as_printed(game, settings, seed=seed)

    monkeypatch.setattr("snv.learners.snv_paper.as_printed", estimate)
    _, stream = learned(2, "cil", floor=0.01, confidence=0.9)
    for t, (game, settings) in enumerate(seen):
        assert isinstance(game, NeuronGame)
        assert game.payoff.name == "accuracy"
        assert sorted((game.labels + stream.blocks[t].start).tolist()) == sorted(stream.task(t).val.labels.tolist())
        assert (settings.preset, settings.floor, settings.confidence) == ("paper", 0.01, 0.9)
        assert (settings.permutations, settings.burn_in) == (3, 2)


@pytest.mark.parametrize("capacity", [0.1, 0.25, 1.0])
def test_a_task_keeps_the_top_cN_of_all_neurons(capacity):
    learner, _ = learned(2, capacity=capacity)
    for mask, values in zip(learner.masks, learner.values, strict=True):
        assert int(mask.sum()) == int(capacity * 24)
        assert capacity == 1 or float(values[mask].min()) >= float(values[~mask].max())
    assert torch.equal(learner.frozen, learner.masks[0] | learner.masks[1])


def test_without_the_cumulative_mask_only_the_newest_task_is_frozen():
    learner, _ = learned(2, cumulative=False)
    assert torch.equal(learner.frozen, learner.masks[1])
    assert not torch.equal(learner.masks[0], learner.masks[1])


OPTIMIZERS = [
    {"optimizer": "sgd", "momentum": 0.9, "lr": 0.05, "weight_decay": 0.01},
    {"optimizer": "adam", "weight_decay": 0.01},
    {"optimizer": "adamw", "weight_decay": 0.1},
]


def rows_of_frozen(learner: SNVPaper, frozen: torch.Tensor) -> list[torch.Tensor]:
    return [owned.tensor.detach()[frozen[owned.owner]].clone() for owned in own_weights(learner.neurons)]


@pytest.mark.parametrize("settings", OPTIMIZERS, ids=lambda o: o["optimizer"])
def test_whole_rows_of_frozen_neurons_are_bit_identical_under_any_optimiser(settings):
    stream = toy_stream()
    learner = normed(make("snv-paper", "til", stream, **QUICK, capacity=0.3))
    train = dataclasses.replace(learner.setting.train, epochs=3, **settings)
    learner.setting = dataclasses.replace(learner.setting, train=train)
    learn(learner, stream, 0)
    frozen = learner.frozen.clone()
    before, others = rows_of_frozen(learner, frozen), rows_of_frozen(learner, ~frozen)
    learn(learner, stream, 1)
    assert all(torch.equal(a, b) for a, b in zip(rows_of_frozen(learner, frozen), before, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(rows_of_frozen(learner, ~frozen), others, strict=True))


def test_released_weights_move_and_no_others():
    learner, stream = learned(1, released=0.2, capacity=0.5)
    frozen = learner.frozen.clone()
    before = rows_of_frozen(learner, frozen)
    learn(learner, stream, 1)
    pairs = zip(rows_of_frozen(learner, frozen), before, strict=True)
    moved = torch.cat([(a != b).flatten() for a, b in pairs])
    assert 0.1 < float(moved.double().mean()) < 0.26, "a fifth once a task"


def test_answers_are_those_of_the_whole_network():
    til, stream = learned()
    cil, _ = learned(2, "cil")
    for learner in (til, cil):
        learner.network.eval()
    assert torch.equal(til.logits(probes(), stream.blocks[0]), til.network(probes(), 0))
    assert torch.equal(cil.logits(probes(), None), cil.network(probes()))
    assert cil.logits(probes(), None).shape == (7, 4)


def test_each_task_is_learned_but_in_CIL_its_head_does_not_compare_with_others():
    cil, stream = learned(2, "cil")
    til, _ = learned(2, "til")
    within, among_all = (accuracy(x, stream.test(1), stream.blocks[1]) for x in (til, cil))
    assert_same(til.state_dict()["network"], cil.state_dict()["network"])
    assert within > 60
    assert among_all < within


def test_shared_norm_layers_let_old_answers_drift():
    stream = toy_stream()
    learner = normed(make("snv-paper", "til", stream, **QUICK, capacity=1.0))
    learn(learner, stream, 0)
    learner.network.eval()
    before = learner.logits(probes(), stream.blocks[0]).clone()
    rows = rows_of_frozen(learner, learner.frozen)
    learn(learner, stream, 1)
    learner.network.eval()
    assert bool(learner.frozen.all())
    assert all(torch.equal(a, b) for a, b in zip(rows_of_frozen(learner, learner.frozen), rows, strict=True))
    assert not torch.equal(learner.logits(probes(), stream.blocks[0]), before)


def test_capacity_counts_what_any_task_has_chosen():
    learner, _ = learned(2, cumulative=False)
    in_use = learner.masks[0] | learner.masks[1]
    assert learner.capacity()["neurons"] == pytest.approx(float(in_use.double().mean()))
    assert learner.capacity()["parameters"] == pytest.approx(int(in_use.sum()) / 24), "a row of weights and a bias each"


def test_cut_in_the_middle_of_a_task_it_goes_on_with_the_same_bits(tmp_path):
    whole, stream = learned(2, released=0.1, capacity=0.5)
    cut, _ = learned(1, released=0.1, capacity=0.5)
    task = stream.task(1).without_test()
    cut.begin_task(task)
    training = Training(cut, task, cut.stage(task, 0))
    training.train_one_epoch()
    save_state(tmp_path / "cut", {"learner": cut.state_dict(), "training": training.state_dict()})
    state = load_state(tmp_path / "cut")
    again = make("snv-paper", "til", stream, **QUICK, released=0.1, capacity=0.5)
    again.load_state_dict(state["learner"])
    Training(again, task, again.stage(task, 0), state["training"]).run()
    again.end_task(task)
    assert_same(again.state_dict(), whole.state_dict())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"capacity": 0.0}, "learner.capacity is a share"),
        ({"capacity": 1.5}, "learner.capacity is a share"),
        ({"floor": -0.1}, "learner.floor is a share"),
        ({"released": 2.0}, "learner.released is a share"),
        ({"burn_in": 1}, "burn_in is at least 2"),
        ({"confidence": 1.0}, r"confidence lies in \(0, 1\)"),
        ({"permutations": 0}, "permutations"),
    ],
)
def test_a_senseless_setting_is_refused_before_training(wrong, said):
    with pytest.raises(UserError, match=said):
        SNVPaper.Config(**wrong)
