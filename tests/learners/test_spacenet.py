"""SpaceNet keeps its reserved units and old connections to the last bit, and trains and rewires as printed."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from sparse_toy import OPTIMISERS, adapted, large_stream, probes
from test_learner_contract import assert_same
from toy import learn, make, toy_stream

from snv.components import OwnConnections
from snv.errors import UserError
from snv.files import cloned
from snv.learners.spacenet import SpaceNet, growth_scores, rewired, unit_importance
from snv.neurons import own_weights
from snv.training.loop import Training
from snv.training.reporter import Reporter
from snv.training.stage import Batch


def frozen_parts(learner):
    """What no later task may touch: P, all rows and columns of reserved units, old heads."""
    reserved, parts = learner.reserved, {}
    for c in learner.units.connections:
        parts[c.name] = (c.weight, learner.taken[c.name].clone())
        nobody = ~learner.units.mask(True, image=True, classes=True)
        parts[f"{c.name} to reserved"] = (c.weight, c.between(~nobody, reserved))
        parts[f"{c.name} from reserved"] = (c.weight, c.between(reserved, ~nobody))
    for owned in learner.neurons.owned:
        if owned.role in ("bias", "norm"):
            parts[owned.name] = (owned.tensor, reserved[learner.units.of_neuron[owned.owner]])
    for t, head in enumerate(learner.network.heads):
        parts[f"head {t}"] = (head.weight, torch.ones(head.weight.shape, dtype=torch.bool))
        parts[f"head {t} bias"] = (head.bias, torch.ones(head.bias.shape, dtype=torch.bool))
    return {name: (tensor, entries, tensor.detach()[entries].clone()) for name, (tensor, entries) in parts.items()}


def check_that_reserved_units_are_untouched(learner, stream, images):
    learn(learner, stream, 0)
    learner.network.eval()
    assert learner.reserved.any()
    before, outputs = frozen_parts(learner), first_layer(learner, images)
    mine = learner.reserved.clone()
    moved = {c.name: c.weight.detach().clone() for c in learner.units.connections}
    for t in range(1, len(stream)):
        learn(learner, stream, t)
    for name, (tensor, entries, values) in before.items():
        assert torch.equal(tensor.detach()[entries], values), name
    rows = mine[learner.units.connections[0].targets]
    assert rows.any()
    assert torch.equal(first_layer(learner, images)[:, rows], outputs[:, rows])
    assert any(not torch.equal(c.weight.detach(), moved[c.name]) for c in learner.units.connections)


def first_layer(learner, images):
    """What the units of the first layer say: they read nothing but the image."""
    module = learner.units.connections[0].module
    with torch.no_grad():
        return module(images if module.weight.ndim > 2 else images.flatten(1))


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=lambda o: f"{o['optimizer']}-{o.get('weight_decay', 0)}")
def test_old_connections_reserved_units_and_old_heads_stay_bit_identical(optimiser):
    stream = toy_stream()
    check_that_reserved_units_are_untouched(adapted("spacenet", "til", stream, **optimiser), stream, probes())


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_so_they_do_in_the_authors_network(scenario):
    stream = toy_stream()
    check_that_reserved_units_are_untouched(make("spacenet", scenario, stream), stream, probes())


def test_and_in_a_residual_network_whose_streams_are_units():
    stream = large_stream()
    learner = adapted("spacenet", "til", stream, "resnet18", width=4, epochs=3)
    check_that_reserved_units_are_untouched(learner, stream, probes(16))


def test_no_connection_of_a_later_task_touches_a_reserved_unit_and_reserved_sets_are_disjoint():
    stream = toy_stream()
    learner = adapted("spacenet", "til", stream, width=12)
    reserved = [learner.reserved.clone()]
    for t in range(3):
        taken = {name: mask.clone() for name, mask in learner.taken.items()}
        learn(learner, stream, t)
        everyone = torch.ones_like(learner.reserved)
        for c in learner.units.connections:
            new = learner.taken[c.name] & ~taken[c.name]
            assert new.any()
            assert not (new & (c.between(everyone, reserved[-1]) | c.between(reserved[-1], everyone))).any()
        new = learner.reserved & ~reserved[-1]
        assert not (reserved[-1] & ~learner.reserved).any()
        assert [int(new[layer.start : layer.stop].sum()) for layer in learner.units.layers] == [3, 3, 6, 6]
        assert not (new & ~learner.selected).any()
        reserved.append(learner.reserved.clone())


def started(learner, stream, t=0):
    task = stream.task(t).without_test()
    learner.begin_task(task)
    stage = learner.stage(task, 0)
    return task, Training(learner, task, stage)


@pytest.mark.parametrize("network", ["convnet", "mlp"])
def test_a_task_has_as_many_connections_after_rewiring_and_they_stay_among_its_units(network):
    stream = toy_stream()
    learner = adapted("spacenet", "til", stream, width=12) if network == "convnet" else make("spacenet", "til", stream)
    learn(learner, stream, 0)
    _, training = started(learner, stream, 1)
    first = cloned(dict(learner.own.places))
    for _ in range(4):
        training.train_one_epoch()
    assert any(not torch.equal(own, first[name]) for name, own in learner.own.places.items())
    assert torch.equal(learner.own.places["head"], first["head"])
    for c in learner.connections():
        own, mask = learner.own.places[c.name], torch.zeros(c.weight.shape[:2], dtype=torch.bool)
        mask[tuple(own.T)] = True
        assert int(mask.sum()) == len(own) == len(first[c.name]), "no place twice"
        assert not (mask & ~c.between(learner.selected, learner.selected)).any()
        if c.name != "head":
            assert not (mask & learner.taken[c.name]).any()
            mask |= learner.taken[c.name]
        assert not c.weight.detach()[~mask].any(), "what is no connection is 0"
        assert torch.equal(c.weight.detach()[tuple(own.T)], learner.own.weights[c.name].detach())


class Plain:
    """The same method once more: dense masks, gradients and weights, Adam by hand, lists and loops."""

    def __init__(self, learner, lr):
        self.learner, self.lr, self.steps = learner, lr, 0
        self.masks = {}
        for c in learner.connections():
            self.masks[c.name] = torch.zeros(c.weight.shape[:2])
            self.masks[c.name][tuple(learner.own.places[c.name].T)] = 1
        self.importance = {name: torch.zeros_like(mask) for name, mask in self.masks.items()}
        self.parameters = [*learner.network.body.parameters(), *learner.network.heads[-1].parameters()]
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]

    def mask_of(self, p):
        for c in self.learner.connections():
            if c.weight is p:
                return self.masks[c.name], c.name
        return torch.ones_like(p), None

    def step(self, images, labels):
        self.steps += 1
        loss = F.cross_entropy(self.learner.network(images, len(self.learner.blocks) - 1), labels)
        gradients = torch.autograd.grad(loss, self.parameters)
        with torch.no_grad():
            for p, g, m, v in zip(self.parameters, gradients, self.first, self.second, strict=True):
                mask, name = self.mask_of(p)
                full = mask[..., None, None] if p.ndim == 4 else mask
                g, before = g * full, p.clone()
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                ratio = (m / (1 - 0.9**self.steps)) / ((v / (1 - 0.999**self.steps)).sqrt() + 1e-8)
                p -= self.lr * ratio * full
                if name is not None:
                    moved = ((p - before) * g).abs()
                    self.importance[name] += moved.sum((2, 3)) if p.ndim == 4 else moved

    @torch.no_grad()
    def rewire(self):
        units = self.learner.units
        values = [0.0] * units.n
        for c in units.connections:
            for row, target in enumerate(c.targets.tolist()):
                values[target] += float(self.importance[c.name][row].sum())
        for c in units.connections:
            mask, importance = self.masks[c.name], self.importance[c.name]
            own = sorted((tuple(x) for x in mask.nonzero().tolist()), key=lambda rc: float(importance[rc]))
            places = []
            for row, target in enumerate(c.targets.tolist()):
                for column, source in enumerate(c.sources.tolist()):
                    both = self.learner.selected[target] and self.learner.selected[source]
                    if both and not mask[row, column] and not self.learner.taken[c.name][row, column]:
                        a = values[source] if source < units.n else float(importance[:, column].sum())
                        places.append((-values[target] * a, row, column))
            n = min(round(0.2 * len(own)), len(places))
            index = next(i for i, p in enumerate(self.parameters) if p is c.weight)
            chosen = sorted(places)[:n]
            for row, column in own[:n]:
                mask[row, column] = importance[row, column] = 0
                for tensor in (c.weight, self.first[index], self.second[index]):
                    tensor[row, column] = 0
            for _, row, column in chosen:
                mask[row, column] = 1


@pytest.mark.parametrize("network", ["convnet", "mlp"])
def test_weights_importance_and_rewiring_are_those_of_a_plain_implementation(network):
    stream = toy_stream()
    ours, other = (
        adapted("spacenet", "til", stream, width=12, lr=1e-3)
        if network == "convnet"
        else make("spacenet", "til", stream)
        for _ in range(2)
    )
    _, training = started(ours, stream)
    started(other, stream)
    plain = Plain(other, ours.setting.train.lr)
    for epoch in range(3):
        if epoch:
            plain.rewire()
        for step in range(3):
            images = torch.randn(6, 1, 8, 8, generator=torch.Generator().manual_seed(10 * epoch + step))
            labels = torch.arange(6) % 2
            batch = Batch(images, labels, images.byte(), torch.arange(6), training.stage, 0, epoch, step, 3, seed=0)
            ours.step(batch, training.optimizer)
            plain.step(images, labels)
        for c in ours.units.connections:
            mask = torch.zeros(c.weight.shape[:2])
            mask[tuple(ours.own.places[c.name].T)] = 1
            assert torch.equal(mask, plain.masks[c.name]), (epoch, c.name)
            dense = torch.zeros(c.weight.shape[:2])
            dense[tuple(ours.own.places[c.name].T)] = ours.own.importance[c.name]
            torch.testing.assert_close(dense, plain.importance[c.name], atol=1e-5, rtol=1e-4)
        for a, b in zip(ours.network.parameters(), other.network.parameters(), strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_the_least_important_go_where_important_units_meet():
    learner = make("spacenet", "til", toy_stream())
    started(learner, toy_stream())
    c, own = learner.units.connections[1], torch.tensor([[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]])
    values = torch.zeros(learner.units.n)
    values[[400 + 10, 400 + 11, 20, 21]] = torch.tensor([3.0, 2.0, 5.0, 1.0])
    scores = growth_scores(c, own, torch.ones(5), values)
    assert (float(scores[10, 20]), float(scores[11, 20]), float(scores[10, 21])) == (15.0, 10.0, 3.0)
    free = torch.ones_like(scores, dtype=torch.bool)
    free[10, 20] = False
    slots, places = rewired(own, free, torch.tensor([5.0, 1.0, 4.0, 2.0, 3.0]), scores, 0.4)
    assert slots.tolist() == [1, 3]
    assert places.tolist() == [[10, 21], [11, 20]]


def test_a_pixel_is_as_important_as_what_leaves_it():
    learner = make("spacenet", "til", toy_stream())
    started(learner, toy_stream())
    c, own = learner.units.connections[0], torch.tensor([[0, 7], [1, 7], [2, 9]])
    importance = torch.tensor([1.0, 2.0, 4.0])
    places = {"layers.0": own, "layers.1": own[:0]}
    known = {"layers.0": importance, "layers.1": importance[:0]}
    values = unit_importance(learner.units, OwnConnections(learner.units.connections, places, known))
    assert values[:3].tolist() == [1.0, 2.0, 4.0]
    scores = growth_scores(c, own, importance, values)
    assert float(scores[2, 7]) == 4.0 * 3.0
    assert float(scores[0, 9]) == 1.0 * 4.0


def test_a_connection_that_moved_starts_at_0_without_momentum():
    stream = toy_stream()
    learner = make("spacenet", "til", stream)
    _, training = started(learner, stream)
    training.train_one_epoch()
    before = cloned(dict(learner.own.places))
    learner._rewire(training.optimizer)
    moved = (learner.own.places["layers.0"] != before["layers.0"]).any(1)
    assert int(moved.sum()) == round(0.2 * len(moved))
    state = training.optimizer.state[learner.own.weights["layers.0"]]
    for tensor in (learner.own.weights["layers.0"].detach(), state["exp_avg"], state["exp_avg_sq"]):
        assert not tensor[moved].any()
        assert tensor[~moved].any()


def test_in_CIL_zeros_stand_for_old_classes_in_training_and_their_rows_are_back_for_answers():
    stream = toy_stream()
    learner = make("spacenet", "cil", stream)
    learn(learner, stream, 0)
    _, training = started(learner, stream, 1)
    labels = torch.tensor([2, 3, 2, 3, 2, 3, 3])
    new = learner.network(probes(), 1)
    plain = F.cross_entropy(torch.cat([torch.zeros(7, 2), new], 1), labels)
    torch.testing.assert_close(learner.validation(probes(), labels, training.stage)[0], plain)
    batch = Batch(probes(), labels, probes().byte(), torch.arange(7), training.stage, 1, 0, 0, 1, seed=0)
    torch.testing.assert_close(learner.loss(batch), plain)
    answers = learner.logits(probes(), None)
    assert torch.equal(answers[:, :2], learner.network(probes(), 0))
    assert answers[:, :2].any()


def test_the_authors_network_and_numbers_for_split_MNIST():
    stream = toy_stream(5)
    setting = make("sgd", "til", stream).setting
    preprocess = dataclasses.replace(setting.preprocess, shape=(1, 28, 28))
    learner = SpaceNet(dataclasses.replace(setting, preprocess=preprocess))
    assert learner.n_reserved == [40, 40]
    learner.begin_task(stream.task(0).without_test())
    assert {name: len(own) for name, own in learner.own.places.items()} == {
        "layers.0": 10035,
        "layers.1": 1638,
        "head": 80,
    }
    many = SpaceNet(dataclasses.replace(setting, n_tasks=20))
    assert many.n_reserved == [19, 19]


def test_sparsity_is_the_share_of_places_left_out_and_reserved_a_limit():
    stream = toy_stream()
    learner = adapted("spacenet", "til", stream, width=12, sparsity=0.75, reserved=2)
    learner.begin_task(stream.task(0).without_test())
    assert learner.n_reserved == [2, 2, 2, 2]
    assert {name: len(own) for name, own in learner.own.places.items()} == {
        "conv1": 4,  # all: it reads the image
        "conv2": 4,
        "conv3": 4,
        "conv4": 4,
        "head": 2,
    }


def test_nothing_moves_from_epoch_to_epoch_without_rewiring():
    stream = toy_stream()
    learner = make("spacenet", "til", stream, rewired=0.0)
    _, training = started(learner, stream)
    before = cloned(dict(learner.own.places))
    for _ in range(3):
        training.train_one_epoch()
    assert_same(learner.own.places, before)


def test_at_first_no_weight_is_there():
    learner = make("spacenet", "til", toy_stream())
    assert not any(owned.tensor.any() for owned in own_weights(learner.neurons))


def test_cut_in_the_middle_of_an_epoch_it_goes_on_with_the_same_bits():
    stream = toy_stream()
    whole, cut = (adapted("spacenet", "til", stream, width=12) for _ in range(2))
    for learner in (whole, cut):
        learn(learner, stream, 0)
    learn(whole, stream, 1)
    task, saved = stream.task(1).without_test(), {}
    cut.begin_task(task)

    def keep(training: Training) -> None:
        if (training.progress.epoch, training.progress.step) == (2, 1):
            saved.update(cloned({"learner": cut.state_dict(), "training": training.state_dict()}))

    cut.reporter = Reporter(on_step=keep)
    Training(cut, task, cut.stage(task, 0)).run()
    resumed = adapted("spacenet", "til", stream, width=12)
    resumed.load_state_dict(saved["learner"])
    Training(resumed, task, resumed.stage(task, 0), saved["training"]).run()
    resumed.end_task(task)
    assert_same(resumed.state_dict(), whole.state_dict())


def test_a_task_that_finds_every_place_of_a_layer_taken_learns_with_the_connections_that_are_there():
    stream = toy_stream()
    learner = adapted("spacenet", "til", stream)
    learn(learner, stream, 0)
    full, *others = learner.units.connections
    learner.taken[full.name][:] = True
    before = [c.weight.detach().clone() for c in (full, *others)]
    learn(learner, stream, 1)
    moved = [not torch.equal(c.weight.detach(), old) for c, old in zip((full, *others), before, strict=True)]
    assert not moved[0] and any(moved[1:])


def test_a_network_too_narrow_for_its_tasks_is_refused_before_anything_is_trained():
    with pytest.raises(UserError, match=r"Each of 3 tasks reserves units .* at least 4; found one with 3"):
        adapted("spacenet", "til", toy_stream(), width=3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reserved": 0}, r"reserved is at least 1.*got 0"),
        ({"rewired": 1.5}, r"rewired lies in \[0, 1\]; got 1.5"),
        ({"sparsity": 1.0}, r"sparsity .* lies in \[0, 1\); got 1"),
        ({"strength": -1}, r"strength is positive; got -1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        SpaceNet.Config(**settings)
