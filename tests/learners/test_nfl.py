"""NFL learns a task step by step: what each step moves, and its losses against loops."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from plain import plain_kd, softmax
from test_learner_contract import assert_same
from toy import learn, make, toy_stream

from snv.data import TaskStream, load_source
from snv.errors import UserError
from snv.files import cloned
from snv.learners.nfl import NFL, two_anchors
from snv.networks import build_network
from snv.runs.evaluate import accuracy
from snv.training.loop import Training
from snv.training.stage import Batch


def with_norm_layers(name: str = "nfl", scenario: str = "cil", n_tasks: int = 1, epochs: int = 2, **config):
    """A convnet that has learned some tasks."""
    stream = toy_stream()
    toy = make(name, scenario, stream, epochs=epochs, **config)
    network = build_network("convnet", stream.source.shape, 0, width=8)
    learner = type(toy)(dataclasses.replace(toy.setting, network=network), toy.config)
    for t in range(n_tasks):
        learn(learner, stream, t)
    return learner, stream


def begun(learner, stream, t: int, n_stages: int = 0):
    """The task under way, its first stages over."""
    task = stream.task(t).without_test()
    learner.begin_task(task)
    for k in range(n_stages):
        trained(learner, task, k)
    return task


def trained(learner, task, index: int):
    stage = learner.stage(task, index)
    Training(learner, task, stage).run()
    learner.end_stage(task, stage)
    return stage


def a_batch(learner, task, index: int = 0) -> Batch:
    places = torch.arange(9)
    pixels, labels = next(iter(task.train.batches([places])))
    images = learner.setting.preprocess(pixels, "cpu")
    return Batch(images, labels, pixels, places, learner.stage(task, index), task.id, 0, 0, 1, seed=0)


def moved(before, after) -> set[str]:
    return {name for name, x in after.items() if not torch.equal(x, before[name])}


def of(learner) -> dict[str, torch.Tensor]:
    return cloned(dict(learner.network.state_dict()))


def parts(names: set[str], n_heads: int) -> set[str]:
    """The modules some tensors belong to: body, norm statistics, each head."""
    assert all(name.startswith(("body.", "heads.")) for name in names)
    found = {f"head {t}" for t in range(n_heads) if any(name.startswith(f"heads.{t}.") for name in names)}
    body = {name for name in names if name.startswith("body.")}
    statistics = {name for name in body if "running" in name or "batches" in name}
    return found | ({"statistics"} if statistics else set()) | ({"body"} if body - statistics else set())


# ---- steps


def test_each_step_moves_exactly_the_modules_it_names():
    learner, stream = with_norm_layers(n_tasks=2)
    task = begun(learner, stream, 2)
    seen = []
    for k in range(3):
        before = of(learner)
        name = trained(learner, task, k).name
        seen.append((name, parts(moved(before, of(learner)), 3)))
    assert seen == [
        ("head", {"head 2"}),
        ("body", {"body", "statistics", "head 0", "head 1"}),
        ("all", {"body", "statistics", "head 0", "head 1", "head 2"}),
    ]
    assert learner.stage(task, 3) is None


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_every_trained_tensor_moves_and_no_other_whatever_the_weight_decay(decay):
    learner, stream = with_norm_layers(n_tasks=2)
    train = dataclasses.replace(learner.setting.train, weight_decay=decay)
    learner.setting = dataclasses.replace(learner.setting, train=train)
    task = begun(learner, stream, 2)
    for k, still in enumerate((("body.", "heads.0", "heads.1"), ("heads.2",), ())):
        before = of(learner)
        trained(learner, task, k)
        assert moved(before, of(learner)) == {name for name in before if not name.startswith(tuple(still))}


def test_a_module_that_stands_still_is_given_no_gradient():
    learner, stream = with_norm_layers(n_tasks=2)
    task = begun(learner, stream, 2)
    for k, still in enumerate((("body.", "heads.0", "heads.1"), ("heads.2",), ())):
        learner.network.zero_grad()
        learner.loss(a_batch(learner, task, k)).backward()
        without = {name for name, p in learner.network.named_parameters() if p.grad is None}
        expected = {name for name, _ in learner.network.named_parameters() if name.startswith(tuple(still))}
        assert without == expected
        learner.end_stage(task, learner.stage(task, k))


def test_the_new_head_passes_gradients_to_the_body_while_it_stands_still():
    learner, stream = with_norm_layers()
    task = begun(learner, stream, 1, n_stages=1)
    learner.set_training(False, learner.stage(task, 1))  # in this mode distillation pulls nowhere yet
    learner.loss(a_batch(learner, task, 1)).backward()
    assert learner.network.body.conv4.weight.grad.abs().max() > 1e-4


def test_the_first_task_is_learned_in_one_stage_as_by_SGD_bit_for_bit():
    stream = toy_stream()
    nfl, sgd = make("nfl", "cil", stream), make("sgd", "cil", stream)
    for learner in (nfl, sgd):
        learn(learner, stream, 0)
    assert_same(dict(nfl.network.state_dict()), dict(sgd.network.state_dict()))


def test_each_step_has_a_fresh_optimiser_of_what_it_trains():
    learner, stream = with_norm_layers()
    task = begun(learner, stream, 1)
    n = [sum(p.numel() for p in learner.parameters(learner.stage(task, k))) for k in range(3)]
    body, head = (sum(p.numel() for p in m.parameters()) for m in (learner.network.body, learner.network.heads[0]))
    assert n == [head, body + head, body + 2 * head]


# ---- losses


def test_the_last_step_follows_both_anchors_as_the_printed_formula_does():
    torch.manual_seed(0)
    old, before, between = torch.randn(3, 6, 5) * 3
    plain = [plain_kd(target.tolist(), old.tolist(), 3.0) for target in (before, between)]
    assert two_anchors(old, before, between, 0.3, 3.0).item() == pytest.approx(
        0.3 * plain[0] + 0.7 * plain[1], rel=1e-5
    )


def answered(state: dict[str, torch.Tensor], images) -> list[list[float]]:
    """Logits of a convnet with three heads in this state, in evaluation mode."""
    network = build_network("convnet", (1, 8, 8), 0, width=8)
    for _ in range(3):
        network.add_head(2)
    network.load_state_dict(state)
    return network.eval()(images).tolist()


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_the_loss_of_each_step_is_that_of_loops_in_training_and_in_validation(scenario):
    learner, stream = with_norm_layers("nfl", scenario, 2, balance=0.4, temperature=3.0)
    task = begun(learner, stream, 2)
    states = []
    for k in range(3):
        states.append(of(learner))  # before the step
        batch = a_batch(learner, task, k)
        z, y = answered(states[k], batch.images), batch.labels.tolist()
        expected = -sum(math.log(softmax(row[4:])[label - 4]) for row, label in zip(z, y, strict=True)) / len(z)
        heads = {name: x for name, x in states[0].items() if name.startswith("heads.")}
        for weight, anchor in {1: [(1.0, 0)], 2: [(0.4, 0), (0.6, 2)]}.get(k, []):
            h = answered(states[anchor] | heads, batch.images)
            expected += weight * plain_kd([row[:4] for row in h], [row[:4] for row in z], 3.0)
        learner.network.eval()
        assert learner.loss(batch).item() == pytest.approx(expected, rel=1e-5)
        in_validation, _ = learner.validation(batch.images, batch.labels, batch.stage)
        assert in_validation.item() == pytest.approx(expected, rel=1e-5)
        trained(learner, task, k)


def test_at_the_start_of_the_second_step_distillation_pulls_nowhere():
    learner, stream = with_norm_layers(n_tasks=2)
    task = begun(learner, stream, 2, n_stages=1)
    learner.network.eval()
    images = a_batch(learner, task).images
    learner.kept(learner.network.features(images), learner.asked(images, learner.stage(task, 1))).backward()
    assert max(p.grad.abs().max() for head in learner.network.heads[:2] for p in head.parameters()) < 1e-6


def test_with_balance_1_the_last_step_does_not_ask_what_lies_between():
    torch.manual_seed(0)
    old, before, one, another = torch.randn(4, 6, 5)
    assert torch.equal(two_anchors(old, before, one, 1.0, 2.0), two_anchors(old, before, another, 1.0, 2.0))


def test_with_the_body_unchanged_both_anchors_say_the_same():
    learner, stream = with_norm_layers()
    task = begun(learner, stream, 1, n_stages=1)
    learner.end_stage(task, learner.stage(task, 1))  # the second step is over before it moved anything
    images = a_batch(learner, task).images
    assert torch.equal(learner.before(images), learner.between(images))


def test_the_second_anchor_has_the_new_body_and_the_heads_from_before_the_task():
    learner, stream = with_norm_layers(n_tasks=2)
    before = of(learner)
    task = begun(learner, stream, 2, n_stages=2)
    now, between = of(learner), dict(learner.between.state_dict())
    assert between.keys() == before.keys()
    for name, x in between.items():
        assert torch.equal(x, now[name] if name.startswith("body.") else before[name])
    images = a_batch(learner, task).images
    learner.network.eval()
    assert not torch.allclose(learner.between(images), learner.network(images)[:, :4], atol=1e-4)


def test_both_anchors_stand_still_and_see_the_very_tensor_the_network_learns_from():
    learner, stream = with_norm_layers()
    task = begun(learner, stream, 1, n_stages=2)
    anchors = (learner.before, learner.between)
    states = [cloned(dict(anchor.state_dict())) for anchor in anchors]
    seen = []
    for anchor in anchors:
        anchor.body.register_forward_pre_hook(lambda _, given: seen.append((given[0], torch.is_grad_enabled())))
    batch = a_batch(learner, task, 2)
    learner.set_training(True, batch.stage)
    learner.loss(batch)
    assert [image is batch.images for image, _ in seen] == [True, True]
    assert not any(gradients for _, gradients in seen)
    stage = learner.stage(task, 2)
    Training(learner, task, stage).train_one_epoch()
    for anchor, state in zip(anchors, states, strict=True):
        assert_same(dict(anchor.state_dict()), state)


# ---- the course of tasks


def test_old_classes_are_never_compared_with_new_ones():
    """So in CIL it is open which of them win."""
    learner, stream = with_norm_layers("nfl", "cil", 2)
    task = begun(learner, stream, 2, n_stages=2)
    learner.network.eval()
    batch = a_batch(learner, task, 2)
    loss = learner.loss(batch)
    with torch.no_grad():  # all logits of the new classes raised by the same amount
        learner.network.heads[2].bias.add_(10.0)
    assert learner.loss(batch).item() == pytest.approx(loss.item(), rel=1e-5)


def test_in_CIL_the_classes_of_the_newest_task_are_told_apart():
    stream = toy_stream()
    learner = make("nfl", "cil", stream)
    for t in range(3):
        learn(learner, stream, t)
        images, labels = next(iter(learner.setting.prepared(stream.test(t))))
        inside = learner.logits(images, stream.blocks[t]).argmax(1) + stream.blocks[t].start
        assert (inside == labels).float().mean() > 0.6


def test_in_TIL_old_answers_last_longer_than_with_SGD():
    stream, kept = TaskStream(load_source("digits"), 2, seed=0), {}
    for name in ("sgd", "nfl"):
        learner = make(name, "til", stream, epochs=4)
        for t in range(2):
            learn(learner, stream, t)
        kept[name] = accuracy(learner, stream.test(0), stream.blocks[0])
    assert kept["nfl"] > kept["sgd"] + 1


@pytest.mark.parametrize("name", ["nfl", "nfl+"])
def test_no_copy_outlives_its_task(name):
    learner, stream = with_norm_layers(name, "til", 2)
    assert learner.before is None and learner.between is None
    begun(learner, stream, 2)
    assert len(learner.before.heads) == 2 and learner.between is None


@pytest.mark.parametrize("name", ["nfl", "nfl+"])
def test_cut_in_the_middle_of_any_step_it_goes_on_with_the_same_bits(name):
    whole, stream = with_norm_layers(name, n_tasks=2)
    part_by_part, _ = with_norm_layers(name, n_tasks=1)
    task = stream.task(1).without_test()
    part_by_part.begin_task(task)
    k = 0
    while (stage := part_by_part.stage(task, k)) is not None:
        training = Training(part_by_part, task, stage)
        training.train_one_epoch()
        state, at = cloned(part_by_part.state_dict()), cloned(training.state_dict())
        part_by_part, _ = with_norm_layers(name, n_tasks=0)
        part_by_part.load_state_dict(state)
        Training(part_by_part, task, part_by_part.stage(task, k), at).run()
        part_by_part.end_stage(task, stage)
        k += 1
    part_by_part.end_task(task)
    assert_same(part_by_part.state_dict(), whole.state_dict())


@pytest.mark.parametrize("wrong", [{"balance": -0.1}, {"balance": 1.5}, {"temperature": 0.0}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(UserError, match=rf"learner\.{next(iter(wrong))} .*; got .*"):
        NFL.Config(**wrong)
