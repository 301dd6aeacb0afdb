"""NFL+ adds a code of features and corrected targets to NFL: where they act, and nowhere else."""

from __future__ import annotations

import math

import pytest
import torch
from plain import plain_kd, softmax
from test_learner_contract import assert_same
from test_nfl import a_batch, begun, moved, of, parts, trained, with_norm_layers
from toy import make, toy_stream

from snv.errors import UserError
from snv.files import cloned
from snv.learners.nfl import two_anchors
from snv.learners.nfl_plus import NFLPlus, code_drift, correction, reconstruction_error


def plus(scenario: str = "cil", n_tasks: int = 1, epochs: int = 2, **config):
    """A convnet that has learned some tasks."""
    return with_norm_layers("nfl+", scenario, n_tasks, epochs, **config)


def everything(learner) -> dict[str, torch.Tensor]:
    """All tensors of network, auto-encoder and Γ."""
    modules = {"network": learner.network, "autoencoder": learner.autoencoder, "rescaling": learner.rescaling}
    return cloned({f"{k}.{name}": x for k, m in modules.items() if m for name, x in m.state_dict().items()})


def features_of(learner, images):
    learner.network.eval()
    with torch.no_grad():
        return learner.network.features(images)


def mean_squares(a: list[list[float]], b: list[list[float]]) -> float:
    squares = [(x - y) ** 2 for row, other in zip(a, b, strict=True) for x, y in zip(row, other, strict=True)]
    return sum(squares) / len(squares)


def plain_layer(layer, rows: list[list[float]]) -> list[list[float]]:
    pairs = list(zip(layer.weight.tolist(), layer.bias.tolist(), strict=True))
    return [[sum(w * x for w, x in zip(weights, row, strict=True)) + bias for weights, bias in pairs] for row in rows]


def plain_code(learner, features: torch.Tensor) -> list[list[float]]:
    return [[max(0.0, x) for x in row] for row in plain_layer(learner.autoencoder.encoder, features.tolist())]


# ---- steps


def test_each_step_moves_exactly_the_modules_it_names():
    learner, stream = plus(n_tasks=2)
    task = begun(learner, stream, 2)
    seen = []
    for k in range(5):
        before = everything(learner)
        name = trained(learner, task, k).name
        changed = moved(before, everything(learner))
        network = {x.removeprefix("network.") for x in changed if x.startswith("network.")}
        own = {x for x in changed if not x.startswith("network.")}
        seen.append((name, parts(network, 3), own))
    both = {f"autoencoder.{layer}.{part}" for layer in ("encoder", "decoder") for part in ("weight", "bias")}
    gamma = {f"rescaling.{part}" for part in ("map.weight", "map.bias", "scale", "shift")}
    assert seen == [
        ("head", {"head 2"}, set()),
        ("body", {"body", "statistics", "head 0", "head 1"}, set()),
        ("rescaling", set(), gamma),
        ("all", {"body", "statistics", "head 0", "head 1", "head 2"}, set()),
        ("code", set(), both),
    ]
    assert learner.stage(task, 5) is None


def test_the_first_two_steps_are_those_of_NFL_bit_for_bit():
    states = []
    for name in ("nfl", "nfl+"):
        learner, stream = with_norm_layers(name)
        begun(learner, stream, 1, n_stages=2)
        states.append(of(learner))
    assert_same(*states)


def test_the_first_task_is_learned_as_by_NFL_and_then_coded():
    learner, stream = plus(n_tasks=0)
    task = begun(learner, stream, 0)
    assert [learner.stage(task, k).name for k in (0, 1)] == ["train", "code"]
    assert learner.stage(task, 2) is None
    assert learner.rescaling is None


def test_a_module_that_stands_still_is_given_no_gradient():
    learner, stream = plus(n_tasks=2)
    task = begun(learner, stream, 2)
    expected = [
        ("network.heads.2",),
        ("network.body", "network.heads.0", "network.heads.1"),
        ("rescaling",),
        ("network",),
        ("autoencoder",),
    ]
    for k, names in enumerate(expected):
        modules = {"network": learner.network, "autoencoder": learner.autoencoder, "rescaling": learner.rescaling}
        named = {f"{m}.{name}": p for m, module in modules.items() for name, p in module.named_parameters()}
        for p in named.values():
            p.grad = None
        learner.loss(a_batch(learner, task, k)).backward()
        assert {name for name, p in named.items() if p.grad is not None} == {n for n in named if n.startswith(names)}
        learner.end_stage(task, learner.stage(task, k))


# ---- the auto-encoder


def test_reconstruction_error_falls_while_the_auto_encoder_is_trained():
    learner, stream = plus(n_tasks=0, epochs=30, lr_ae=0.01)
    task = begun(learner, stream, 0, n_stages=1)
    images = next(iter(learner.setting.prepared(task.train)))[0]
    features = features_of(learner, images)
    before = reconstruction_error(learner.autoencoder(features), features)
    trained(learner, task, 1)
    after = reconstruction_error(learner.autoencoder(features), features)
    assert after < 0.5 * before
    assert torch.equal(features_of(learner, images), features)


def test_a_later_auto_encoder_starts_from_the_one_before_it():
    learner, stream = plus(n_tasks=1)
    kept = cloned(dict(learner.autoencoder.state_dict()))
    task = begun(learner, stream, 1, n_stages=4)
    assert_same(cloned(dict(learner.autoencoder.state_dict())), kept)
    trained(learner, task, 4)
    assert len(moved(kept, dict(learner.autoencoder.state_dict()))) == 4


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_the_auto_encoders_loss_is_that_of_loops(scenario):
    learner, stream = plus(scenario, 2, reconstruction=0.7)
    task = begun(learner, stream, 2)
    batch = a_batch(learner, task, 4)
    f = features_of(learner, batch.images)
    decoded = plain_layer(learner.autoencoder.decoder, plain_code(learner, f))
    heads = learner.network.heads if scenario == "cil" else [learner.network.heads[2]]
    logits = [
        [x for row in rows for x in row] for rows in zip(*(plain_layer(head, decoded) for head in heads), strict=True)
    ]
    first = 0 if scenario == "cil" else 4
    answers = zip(logits, batch.labels.tolist(), strict=True)
    expected = -sum(math.log(softmax(z)[y - first]) for z, y in answers) / len(logits)
    expected += 0.7 * mean_squares(decoded, f.tolist())
    assert learner.loss(batch).item() == pytest.approx(expected, rel=1e-5)
    loss, _ = learner.validation(batch.images, batch.labels, batch.stage)
    assert loss.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("n_features", "size"), [(512, 128), (128, 32), (24, 8)])
def test_the_code_is_a_quarter_of_the_features_and_at_least_8(n_features, size):
    assert NFLPlus.Config().code_size(n_features) == size < n_features


@pytest.mark.parametrize(("n_features", "size"), [(512, 128), (128, 32), (24, 8), (8, 4), (2, 1)])
def test_the_code_is_a_quarter_of_the_features_at_least_8_and_at_most_half(n_features, size):
    assert NFLPlus.Config().code_size(n_features) == size


@pytest.mark.parametrize(("n_features", "bottleneck"), [(8, 9), (24, 24)])
def test_a_code_as_large_as_the_features_is_refused(n_features, bottleneck):
    with pytest.raises(UserError, match=rf"learner\.bottleneck is smaller than the {n_features} features .*; got .*"):
        NFLPlus.Config(bottleneck=bottleneck).code_size(n_features)


# ---- the correction


def test_corrections_come_nearer_to_1_on_validation_images():
    learner, stream = plus(n_tasks=1, epochs=15, lr_ae=0.01)
    task = begun(learner, stream, 1, n_stages=2)
    images = next(iter(learner.setting.prepared(task.val)))[0]
    code = learner.code(features_of(learner, images))
    before = (learner.factors(code) - 1).abs().mean()
    trained(learner, task, 2)
    assert (learner.factors(code) - 1).abs().mean() < 0.5 * before


def test_corrections_are_learned_from_validation_images_as_they_are():
    learner, stream = plus(n_tasks=1)
    task = begun(learner, stream, 1)
    stage = learner.stage(task, 2)
    assert stage.train is task.val
    assert not stage.settings.augment


@pytest.mark.parametrize(("epochs", "most"), [(200, 50), (7, 7)])
def test_corrections_are_learned_for_at_most_50_epochs_by_Adam_at_its_own_rate(epochs, most):
    stream = toy_stream()
    learner = make("nfl+", "til", stream, epochs=epochs, lr_ae=0.02)
    learner.blocks, learner.before = [stream.blocks[0]], learner.network
    settings = [stage.settings for stage in learner.stages(stream.task(1)) if stage.name in ("rescaling", "code")]
    assert [s.epochs for s in settings] == [most, epochs]
    assert {(s.optimizer, s.lr, s.weight_decay) for s in settings} == {("adam", 0.02, 0.0)}


def test_corrections_are_asked_to_be_1():
    factors = torch.rand(5, 4)
    assert correction(factors).item() == pytest.approx(mean_squares(factors.tolist(), [[1.0] * 4] * 5), rel=1e-5)


def test_a_new_task_adds_rows_and_copies_those_of_older_classes():
    learner, stream = plus(n_tasks=2)
    known = cloned(dict(learner.rescaling.state_dict()))
    begun(learner, stream, 2)
    for name, x in learner.rescaling.state_dict().items():
        assert (len(known[name]), len(x)) == (2, 4)
        assert torch.equal(x[:2], known[name])


def last_step(scenario: str = "cil", **config):
    """A learner at its last step, Γ, features and heads well away from where they started."""
    learner, stream = plus(scenario, 2, temperature=3.0, **config)
    task = begun(learner, stream, 2, n_stages=3)
    torch.manual_seed(0)
    with torch.no_grad():
        for p in [*learner.network.parameters(), *learner.rescaling.parameters()]:
            p.mul_(1 + 0.2 * torch.rand_like(p))
    learner.network.eval()
    return learner, task, a_batch(learner, task, 3)


@pytest.mark.parametrize("reference", ["before task", "before step"])
@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_the_loss_of_the_last_step_is_that_of_loops(scenario, reference):
    learner, _, batch = last_step(scenario, balance=0.4, reference=reference)
    ours = learner.loss(batch).item()
    z = learner.network(batch.images).tolist()
    code = plain_code(learner, features_of(learner, batch.images))
    anchors = [anchor.features(batch.images) for anchor in (learner.before, learner.between)]
    h, h_between = (learner.before.classify(f).tolist() for f in anchors)  # both with the heads from before the task
    u, q = learner.rescaling.scale.tolist(), learner.rescaling.shift.tolist()
    gamma = [[a * x + b for a, x, b in zip(u, row, q, strict=True)] for row in plain_layer(learner.rescaling.map, code)]
    corrected = [[g * x for g, x in zip(*rows, strict=True)] for rows in zip(gamma, h, strict=True)]
    old = [row[:4] for row in z]
    expected = 0.4 * plain_kd(corrected, old, 3.0) + 0.6 * plain_kd(h_between, old, 3.0)
    expected += mean_squares(code, plain_code(learner, anchors[reference == "before step"]))
    expected -= sum(math.log(softmax(a[4:])[y - 4]) for a, y in zip(z, batch.labels.tolist(), strict=True)) / len(z)
    assert ours == pytest.approx(expected, rel=1e-5)
    assert learner.validation(batch.images, batch.labels, batch.stage)[0].item() == pytest.approx(expected, rel=1e-5)


def test_only_the_targets_from_before_the_task_are_corrected_and_only_in_the_last_step():
    learner, task, _ = last_step(balance=0.4)
    for k, name in enumerate(("head", "body", "rescaling", "all", "code")):
        batch = a_batch(learner, task, k)
        losses = []
        for factor in (1.0, 3.0):
            with torch.no_grad():
                learner.rescaling.scale.mul_(factor)
            losses.append(learner.loss(batch).item())
        assert (losses[0] != losses[1]) == (name in ("rescaling", "all")), name
    batch = a_batch(learner, task, 3)
    learner.config = NFLPlus.Config(balance=0.0, temperature=3.0)
    without = learner.loss(batch)
    with torch.no_grad():
        learner.rescaling.scale.mul_(3)
    assert torch.equal(learner.loss(batch), without), "the second anchor is taken as it is"


def test_corrections_and_code_change_no_answer():
    learner, _, batch = last_step()
    before = learner.logits(batch.images, None)
    with torch.no_grad():
        for p in [*learner.rescaling.parameters(), *learner.autoencoder.parameters()]:
            p.mul_(-2)
    assert torch.equal(learner.logits(batch.images, None), before)


def test_targets_do_not_come_to_meet_the_network():
    """The last step's gradients are those of targets that are numbers."""
    learner, _, batch = last_step(balance=0.4)
    weights = list(learner.network.parameters())
    ours = torch.autograd.grad(learner.loss(batch), weights)
    f, f_before = learner.network.features(batch.images), learner.before.features(batch.images)
    numbers = (learner.rescaling(learner.autoencoder.code(f)) * learner.before.classify(f_before)).detach()
    old, new = learner.network.classify(f).split([4, 2], dim=1)
    loss = two_anchors(old, numbers, learner.between(batch.images), 0.4, 3.0) + batch.cross_entropy(new, range(4, 6))
    loss = loss + code_drift(learner.autoencoder.code(f), learner.autoencoder.code(f_before))
    for g, h in zip(ours, torch.autograd.grad(loss, weights), strict=True):
        torch.testing.assert_close(g, h, rtol=1e-5, atol=1e-7)


def test_with_balance_0_and_without_the_drift_of_the_code_it_is_the_last_step_of_NFL():
    learner, task, batch = last_step(balance=0.0)
    nfl = make("nfl", "cil", toy_stream(), balance=0.0, temperature=3.0)
    nfl.network, nfl.blocks = learner.network, learner.blocks
    nfl.before, nfl.between = learner.before, learner.between
    codes = [learner.code(features_of(learner, batch.images)), learner.code(learner.before.features(batch.images))]
    ours = learner.loss(batch) - code_drift(*codes)
    assert ours.item() == pytest.approx(nfl.loss(a_batch(nfl, task, 2)).item(), rel=1e-5)


def test_both_bodies_are_asked_once_per_step():
    learner, _, batch = last_step()
    calls = []
    for anchor in (learner.before, learner.between):
        anchor.body.register_forward_pre_hook(lambda _, given: calls.append(given[0] is batch.images))
    learner.loss(batch)
    assert calls == [True, True]


def test_impossible_settings_are_refused():
    for wrong in ({"balance": 2.0}, {"temperature": -1.0}, {"reconstruction": -1.0}, {"lr_ae": 0.0}, {"bottleneck": 0}):
        with pytest.raises(UserError, match=rf"learner\.{next(iter(wrong))} .*; got .*"):
            NFLPlus.Config(**wrong)


def test_saved_half_way_it_brings_back_corrections_of_the_size_they_had():
    learner, stream = plus(n_tasks=2)
    begun(learner, stream, 2, n_stages=3)
    state = cloned(learner.state_dict())
    other, _ = plus(n_tasks=0)
    other.load_state_dict(state)
    assert_same(other.state_dict(), state)
    assert len(other.rescaling.scale) == 4
