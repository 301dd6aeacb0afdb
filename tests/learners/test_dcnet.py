"""DCNet forgets nothing with hard gates, and its steps are those of a plain second implementation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_learner_contract import assert_same
from toy import learn, make, toy_stream

from snv.components import Frozen, Slowed
from snv.data import Preprocess
from snv.errors import UserError
from snv.files import cloned
from snv.learners.dcnet import DCNet, shares_in_use
from snv.metrics.transfer import backward_transfer
from snv.networks import build_network, norm_state
from snv.runs.evaluate import accuracy
from snv.training.loop import Training
from snv.training.reporter import Reporter
from snv.training.stage import Batch


def convolutional(stream, network: str = "convnet", train: dict | None = None, **config) -> DCNet:
    """With batch norm, and weights laid out as runs have them."""
    setting = make("sgd", "til", stream, epochs=2).setting
    body = build_network(network, stream.source.shape, 0, width=4).to(memory_format=torch.channels_last)
    settings = dataclasses.replace(setting.train, **(train or {}))
    config = {"dimension": 32, "classifier_epochs": 5} | config
    return DCNet(dataclasses.replace(setting, network=body, train=settings), DCNet.Config(**config))


def probes() -> torch.Tensor:
    return torch.randn(7, 1, 8, 8, generator=torch.Generator().manual_seed(5))


def a_batch(learner, task, index: int = 0, step: int = 1, n_steps: int = 4) -> Batch:
    places = torch.arange(9)
    pixels, labels = next(iter(task.train.batches([places])))
    images = learner.setting.preprocess(pixels, "cpu")
    return Batch(images, labels, pixels, places, learner.stage(task, index), task.id, 0, step, n_steps, seed=0)


OPTIMISERS = [
    {"optimizer": "adam"},
    {"optimizer": "adamw", "weight_decay": 5e-2},
    {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 5e-3},
]

# ---- nothing is forgotten


@pytest.mark.parametrize("network", ["convnet", "resnet18"])
@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=lambda o: o["optimizer"])
def test_gates_norm_layers_and_answers_of_old_tasks_are_bit_identical_and_BWT_is_exactly_0(optimiser, network):
    stream = toy_stream()
    learner = convolutional(stream, network, train=optimiser)
    matrix, kept = np.zeros((3, 3)), []
    for t in range(3):
        learn(learner, stream, t)
        learner.network.eval()
        own = [learner.gates.kept[t], learner.gates.settled(t), learner.directions[t], *learner.norms[t].values()]
        kept.append(cloned([*own, *learner.network.head(t).parameters(), learner.logits(probes(), stream.blocks[t])]))
        matrix[t, : t + 1] = [accuracy(learner, stream.test(j), stream.blocks[j]) for j in range(t + 1)]
    for t in range(3):
        own = [learner.gates.kept[t], learner.gates.settled(t), learner.directions[t], *learner.norms[t].values()]
        now = [*own, *learner.network.head(t).parameters(), learner.logits(probes(), stream.blocks[t])]
        assert all(torch.equal(a, b) for a, b in zip(now, kept[t], strict=True))
    assert backward_transfer(matrix) == 0.0


def test_without_a_known_task_the_answers_of_all_tasks_stand_side_by_side():
    stream = toy_stream()
    learner = convolutional(stream)
    learn(learner, stream, 0)
    learn(learner, stream, 1)
    learner.network.eval()
    known = [learner.logits(probes(), stream.blocks[t]) for t in range(2)]
    assert torch.equal(learner.logits(probes(), None), torch.cat(known, dim=1))


def test_a_weight_is_frozen_if_and_only_if_a_task_uses_both_its_ends():
    stream = toy_stream()
    learner = convolutional(stream, "resnet18")
    learn(learner, stream, 0)
    task = stream.task(1).without_test()
    learner.begin_task(task)
    g = [x.bool() for x in learner.gates.by_layer(learner.gates.settled(0))]
    body, hidden = learner.network.body, learner.projector.hidden
    block = body.layer2[0]
    frozen = {
        body.conv1.weight: g[0][:, None].expand(4, 1),
        block.conv1.weight: g[5][:, None] & g[4],
        block.conv2.weight: g[6][:, None] & g[5],
        block.shortcut[0].weight: g[6][:, None] & g[4],
        hidden.weight: g[17][:, None] & g[16],
        hidden.bias: g[17],
    }
    before = {weight: weight.detach().clone() for weight in frozen}
    Training(learner, task, learner.stage(task, 0)).run()
    for weight, mask in frozen.items():
        assert mask.any()
        assert torch.equal(weight[mask], before[weight][mask])
        if not mask.all():
            assert not torch.equal(weight[~mask], before[weight][~mask])


def test_soft_gates_hold_weights_back_by_their_share_and_forget_a_little():
    stream = toy_stream()
    learner = convolutional(stream, gates="soft", steepest=5.0)
    learn(learner, stream, 0)
    learner.network.eval()
    assert isinstance(learner.held, Slowed)
    assert not ((learner.used == 0) | (learner.used == 1)).any()
    torch.testing.assert_close(learner.used, torch.sigmoid(5 * learner.gates.kept[0]))
    before = learner.logits(probes(), stream.blocks[0])
    learn(learner, stream, 1)
    learner.network.eval()
    assert not torch.equal(learner.logits(probes(), stream.blocks[0]), before)
    assert isinstance(convolutional(stream).held, Frozen)


# ---- training


def plain_gates(learner, step: int, n_steps: int) -> torch.Tensor:
    steepest = learner.config.steepest
    s = 1 / steepest + (steepest - 1 / steepest) * step / (n_steps - 1)
    return torch.sigmoid(s * learner.gates.embedding.detach())


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("t", [0, 1])
def test_the_loss_equals_the_plain_one_of_both_stages_for_the_first_task_and_later(t, index):
    stream = toy_stream()
    learner = make("dcnet", "til", stream, contrast=0.7, first_sparsity=1.2, sparsity=0.8)
    for earlier in range(t):
        learn(learner, stream, earlier)
    task = stream.task(t).without_test()
    learner.begin_task(task)
    learner.degrees = [0.5, 0.4][: t + 1]
    batch = a_batch(learner, task, index)
    g = plain_gates(learner, batch.step, batch.n_steps)
    layer, hidden, output = learner.network.body.layers[0], learner.projector.hidden, learner.projector.output
    phi = F.relu(F.linear(batch.images.flatten(1), layer.weight, layer.bias)) * g[:24]
    z = F.linear(F.relu(F.linear(phi, hidden.weight, hidden.bias)) * g[24:], output.weight, output.bias)
    f = z / z.norm(dim=1, keepdim=True)
    y = batch.labels - task.block.start
    used = (learner.gates.kept[0] > 0).float() if t else torch.zeros(48)
    tau = max(0.1 * (1 - float(used.mean())), 0.05)
    expected = (
        -tau
        / 0.07
        * torch.stack([((f[i] @ learner.directions[t].T) / tau).log_softmax(0)[y[i]] for i in range(9)]).mean()
    )
    expected += (0.8 if t else 1.2) * (g * (1 - used)).sum() / (1 - used).sum()
    if index == 1:
        tau_c, rows = (0.1 * 0.4 / 0.5 if t else 0.1), []
        for i in range(9):
            others = [m for m in range(9) if m != i]
            whole = torch.logsumexp(torch.stack([f[i] @ f[m] / tau_c for m in others]), 0)
            rows.append(torch.stack([f[i] @ f[j] / tau_c - whole for j in others if y[j] == y[i]]).mean())
        expected -= 0.7 * torch.stack(rows).mean()
    torch.testing.assert_close(learner.loss(batch), expected, rtol=1e-5, atol=1e-5)


def test_the_gradient_of_gates_through_a_whole_step_is_the_plain_one_times_the_compensation():
    stream = toy_stream()
    learner = convolutional(stream, steepest=6.0)
    task = stream.task(0).without_test()
    learner.begin_task(task)
    learner.network.train()
    batch = a_batch(learner, task)
    learner.loss(batch).backward()
    found = learner.gates.embedding.grad.clone()
    e = learner.gates.embedding.detach().clone().requires_grad_()
    s = 1 / 6 + (6 - 1 / 6) / 3
    g = torch.sigmoid(s * e)
    f = learner._spherical(batch.images, g)
    cosines = f @ learner.directions[0].T
    loss = 0.1 / 0.07 * F.cross_entropy(cosines / 0.1, batch.labels) + 1.5 * g.mean()
    (plain,) = torch.autograd.grad(loss, e)
    expected = plain * 6 / s * (torch.cosh(s * e) + 1) / (torch.cosh(e) + 1)
    torch.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=1e-6)


def test_one_step_is_that_of_adam_with_frozen_entries_put_back():
    stream = toy_stream()
    learner = convolutional(stream)
    learn(learner, stream, 0)
    task = stream.task(1).without_test()
    learner.begin_task(task)
    stage = learner.stage(task, 0)
    learner.network.train()
    batch, parameters = a_batch(learner, task, step=0), list(learner.parameters(stage))
    before = [p.detach().clone() for p in parameters]
    gradients = torch.autograd.grad(learner.loss(batch), parameters)
    learner.step(batch, torch.optim.Adam(parameters, lr=0.01))
    used = learner.gates.by_layer(learner.used)
    shares = {id(weight): share for weight, share in shares_in_use(learner.body, learner.projector, used)}
    for now, old, g in zip(parameters, before, gradients, strict=True):
        stepped = old - 0.01 * g / (g.abs() + 1e-8)
        if id(now) in shares:
            share = shares[id(now)]
            stepped = torch.where(share.view(*share.shape, *[1] * (old.ndim - share.ndim)) > 0, old, stepped)
        if now is learner.gates.embedding:
            stepped = stepped.clamp(-6, 6)
        torch.testing.assert_close(now.detach(), stepped, rtol=1e-5, atol=1e-5)


def test_a_task_may_start_with_more_open_gates():
    learner = make("dcnet", "til", toy_stream(), start=1.0)
    assert torch.equal(learner.gates.embedding, 1 + make("dcnet", "til", toy_stream()).gates.embedding)


def test_gates_get_steep_within_every_epoch_and_embeddings_stay_within_6():
    stream = toy_stream()
    learner = make("dcnet", "til", stream, epochs=3)
    task = stream.task(0).without_test()
    learner.begin_task(task)
    with torch.no_grad():
        learner.gates.embedding.mul_(10)
    soft, seen = learner.gates.soft, []
    learner.gates.soft = lambda step, n: seen.append((step, n)) or soft(step, n)
    Training(learner, task, learner.stage(task, 0)).run()
    assert seen == [(0, 3), (1, 3), (2, 3)] * 2
    assert learner.gates.embedding.abs().max() <= 6


def test_the_switch_comes_after_its_share_of_the_epochs_and_one_schedule_runs_through_both_stages():
    stream = toy_stream()
    task = stream.task(0)
    learner = convolutional(stream, train={"epochs": 20, "schedule": "linear"})
    first, second = learner.stage(task, 0), learner.stage(task, 1)
    assert (first.settings.epochs, second.settings.epochs, learner.stage(task, 2)) == (11, 9, None)
    assert second.lr_at(0) == first.lr_at(11) == pytest.approx(5e-3 * 9 / 20)
    never = convolutional(stream, switch=1.0)
    assert never.stage(task, 0).settings.epochs == 2
    assert never.stage(task, 1) is None
    assert convolutional(stream, switch=0.0).stage(task, 0).settings.epochs == 1


def test_the_degree_of_aggregation_is_measured_at_the_switch_and_moves_the_temperature():
    stream = toy_stream()
    learner = make("dcnet", "til", stream)
    for t in range(2):
        learn(learner, stream, t)
    assert len(learner.degrees) == 2
    assert all(0 < degree <= 1 for degree in learner.degrees)
    without = make("dcnet", "til", stream, switch=1.0)
    learn(without, stream, 0)
    assert without.degrees == []


def test_images_gather_around_the_directions_of_their_classes():
    stream = toy_stream()
    learner = make("dcnet", "til", stream, epochs=12)
    task = stream.task(0).without_test()
    learner.begin_task(task)
    images, labels = next(iter(learner.setting.prepared(task.train)))

    @torch.no_grad()
    def gathered() -> float:
        f = learner._spherical(images, learner.gates.settled(0))
        return float((f * learner.directions[0][labels]).sum(1).mean())

    before = gathered()
    Training(learner, task, learner.stage(task, 0)).run()
    assert gathered() > before + 0.3


def test_directions_of_different_tasks_are_at_right_angles_and_within_the_bound_when_room_ends():
    stream = toy_stream()
    for dimension, bound in ((16, 1e-6), (256, 1e-6)):
        learner = make("dcnet", "til", stream, dimension=dimension)
        for t in range(3):
            learner.begin_task(stream.task(t).without_test())
        b = torch.cat(learner.directions)
        assert (b @ b.T - torch.eye(6)).abs().max() <= bound
    crowded = make("dcnet", "til", stream, dimension=256)
    for _ in range(140):
        crowded.begin_task(stream.task(0).without_test())
    b = torch.cat(crowded.directions)
    assert len(b) == 280
    assert (b @ b.T - torch.eye(280)).abs().max() <= 0.1001


def test_too_small_a_sphere_is_refused_when_the_first_task_begins():
    stream = toy_stream()
    learner = make("dcnet", "til", stream, dimension=4)
    with pytest.raises(UserError, match="do not fit into 4 dimensions"):
        learner.begin_task(stream.task(0).without_test())
    assert learner.blocks == []


def test_every_task_has_norm_layers_of_its_own_and_starts_from_the_last_ones():
    stream = toy_stream()
    learner = convolutional(stream)
    learn(learner, stream, 0)
    learner.begin_task(stream.task(1).without_test())
    assert_same(norm_state(learner.network.body), learner.norms[0])
    Training(learner, stream.task(1), learner.stage(stream.task(1), 0)).run()
    learner.end_task(stream.task(1))
    assert not torch.equal(learner.norms[0]["bn1.running_mean"], learner.norms[1]["bn1.running_mean"])


def test_the_classifier_learns_from_features_and_leaves_everything_else_alone():
    stream = toy_stream()
    learner = convolutional(stream)
    task = stream.task(0).without_test()
    learner.begin_task(task)
    before = cloned(dict(learner.network.state_dict()))
    learner.end_task(task)
    changed = {name for name, x in learner.network.state_dict().items() if not torch.equal(x, before[name])}
    assert changed == {"heads.0.weight", "heads.0.bias"}


# ---- views and rotations


def test_two_views_double_the_batch():
    stream = toy_stream()
    learner = make("dcnet", "til", stream, views=2)
    task = stream.task(0).without_test()
    learner.begin_task(task)
    seen = []
    spherical = learner._spherical
    learner._spherical = lambda images, gates: seen.append(len(images)) or spherical(images, gates)
    torch.testing.assert_close(
        learner.loss(a_batch(learner, task)), make_alike(learner, stream).loss(a_batch(learner, task))
    )
    assert seen == [18]


def make_alike(learner, stream) -> DCNet:
    """The same with one view: without augmentation two views are the same image twice."""
    other = make("dcnet", "til", stream)
    other.begin_task(stream.task(0).without_test())
    assert_same(other.gates.state_dict(), learner.gates.state_dict())
    return other


def test_with_rotations_a_class_has_four_directions_and_the_answer_is_a_mean_over_turned_images():
    stream = toy_stream()
    learner = convolutional(stream, rotations=True)
    for t in range(2):
        learn(learner, stream, t)
    learner.network.eval()
    assert [b.shape for b in learner.directions] == [(8, 32)] * 2
    assert learner.network.head_sizes == [8, 8]
    x, o = probes(), torch.zeros(7, 2)
    for r in range(4):
        phi = learner._features(x.rot90(r, (2, 3)), learner.gates.settled(0), learner.norms[0])
        o += learner.network.head(0)(phi)[:, 2 * r : 2 * r + 2] / 4
    torch.testing.assert_close(learner.logits(x, stream.blocks[0]), o)
    assert learner.logits(x, None).shape == (7, 4)


def test_with_views_and_rotations_it_is_saved_loaded_and_cut_with_the_same_bits():
    stream = toy_stream()

    def fresh() -> DCNet:
        return convolutional(stream, views=2, rotations=True)

    whole, cut = fresh(), fresh()
    for learner in (whole, cut):
        learn(learner, stream, 0)
    learn(whole, stream, 1)
    task = stream.task(1).without_test()
    cut.begin_task(task)
    saved = {}

    def keep(training: Training) -> None:
        if (training.progress.epoch, training.progress.step) == (0, 2):
            saved.update(cloned({"learner": cut.state_dict(), "training": training.state_dict()}))

    cut.reporter = Reporter(on_step=keep)
    first, second = cut.stage(task, 0), cut.stage(task, 1)
    Training(cut, task, first).run()
    resumed = fresh()
    resumed.load_state_dict(saved["learner"])
    Training(resumed, task, first, saved["training"]).run()
    resumed.end_stage(task, first)
    Training(resumed, task, second).run()
    resumed.end_task(task)
    assert_same(resumed.state_dict(), whole.state_dict())


def test_rotations_of_images_that_are_not_square_are_refused():
    setting = make("sgd", "til", toy_stream()).setting
    wide = Preprocess((0.5,), (0.5,), (1, 8, 9))
    with pytest.raises(UserError, match=r"rotations needs square images; got \(1, 8, 9\)"):
        DCNet(dataclasses.replace(setting, preprocess=wide), DCNet.Config(rotations=True))


# ---- capacity


def test_capacity_counts_weights_between_neurons_in_use_and_every_tasks_norm_layers():
    stream = toy_stream()
    learner = convolutional(stream)
    assert learner.capacity() == {"parameters": 0.0, "neurons": 0.0}
    learn(learner, stream, 0)
    learn(learner, stream, 1)
    used = [
        a.bool() | b.bool()
        for a, b in zip(*(learner.gates.by_layer(learner.gates.settled(t)) for t in (0, 1)), strict=True)
    ]
    n = [int(x.sum()) for x in used]
    weights = 9 * (n[0] + n[0] * n[1] + n[1] * n[2] + n[2] * n[3])
    total = sum(p.numel() for p in learner.network.body.parameters())
    assert learner.capacity()["parameters"] == pytest.approx((weights + 2 * 2 * 24) / total)
    assert learner.capacity()["neurons"] == pytest.approx(sum(n[:4]) / 24)
