"""DER++: its loss against a plain one, its memory through training, and what it is without its weights."""

from __future__ import annotations

import copy
import dataclasses
import math

import pytest
import torch
from test_learner_contract import assert_same
from torch.utils.flop_counter import FlopCounterMode
from toy import learn, make, toy_stream

from snv.components.dark import label_loss, logit_loss, stored_columns
from snv.errors import UserError
from snv.files import cloned
from snv.learners.der import DER, DERConfig
from snv.networks import build_network
from snv.runs.evaluate import accuracy
from snv.runs.meter import Meter
from snv.training.loop import Training, make_optimizer
from snv.training.losses import cross_entropies
from snv.training.reporter import Reporter
from snv.training.stage import Batch

BLOCKS = [range(2), range(2, 4), range(4, 7)]


def started(scenario, t=1, norm_layers=False, **config):
    """A learner that knows t tasks and has begun the next, and a first batch of it."""
    stream = toy_stream()
    learner = make("der++", scenario, stream, **config)
    if norm_layers:
        network = build_network("convnet", stream.source.shape, 0, width=4)
        learner = DER(dataclasses.replace(learner.setting, network=network), learner.config)
    for s in range(t):
        learn(learner, stream, s)
    task = stream.task(t).without_test()
    learner.begin_task(task)
    training = Training(learner, task, learner.stage(task, 0))
    learner.network.train()
    return learner, next(training._batches())


@torch.no_grad()
def plain_loss(learner, batch: Batch, til: bool) -> float:
    """Image by image, entry by entry, with a softmax by hand."""
    alpha, beta = learner.config.logit_weight, learner.config.label_weight
    n = learner.config.replay or 16  # a whole batch
    preprocess, network = learner.setting.preprocess, learner.network

    def block_of(label):
        return next(block for block in learner.blocks if label in block)

    def cross_entropy(image, label):
        z = network(image[None])[0].tolist()
        among = block_of(label) if til else range(len(z))
        return math.log(sum(math.exp(z[c]) for c in among)) - z[label]

    dark = learner.buffer.draw(n, batch.rng("logit replay"))
    known = learner.buffer.draw(n, batch.rng("label replay"))
    new = [cross_entropy(x, int(y)) for x, y in zip(batch.images, batch.labels, strict=True)]
    known_images = preprocess(known["pixels"], "cpu")
    old = [cross_entropy(x, int(y)) for x, y in zip(known_images, known["labels"], strict=True)]
    gaps = []
    for x, y, stored in zip(preprocess(dark["pixels"], "cpu"), dark["labels"], dark["logits"], strict=True):
        z, block = network(x[None])[0].tolist(), block_of(int(y))
        gaps += [(z[c] - float(stored[c])) ** 2 for c in range(block.start if til else 0, block.stop)]
    return sum(new) / len(new) + alpha * sum(gaps) / len(gaps) + beta * sum(old) / len(old)


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_the_loss_equals_the_plain_one(scenario):
    learner, batch = started(scenario, t=2, logit_weight=0.7, label_weight=0.4)
    loss = float(learner.loss(batch).detach())
    assert loss == pytest.approx(plain_loss(learner, batch, scenario == "til"), abs=1e-5)


def test_the_two_draws_are_independent_and_each_has_its_weight():
    learner, batch = started("cil")
    draws = [learner.buffer.draw(8, batch.rng(f"{what} replay"))["labels"] for what in ("logit", "label")]
    assert not torch.equal(*draws)
    losses = {}
    for weights in ((0.2, 0.5), (0.2, 0.0), (0.0, 0.5)):
        learner.config = DERConfig(*weights)
        losses[weights] = float(learner.loss(batch).detach())
        assert losses[weights] == pytest.approx(plain_loss(learner, batch, False), abs=1e-5)
    assert losses[0.2, 0.0] != losses[0.0, 0.5]


def plain_step(learner, batch: Batch, network, joint: bool, lr: float):
    """One update of ``network`` as the original makes it, or with a single pass; returns the new images' logits."""
    til, blocks, new = learner.setting.scenario == "til", learner.blocks, len(batch.labels)
    dark, known = (learner.buffer.draw(16, batch.rng(f"{what} replay")) for what in ("logit", "label"))
    batches = [batch.images, *(learner.setting.preprocess(draw["pixels"], "cpu") for draw in (dark, known))]
    if joint:
        outputs = iter(network(torch.cat(batches)).split([new, 16, 16]))
    else:
        outputs = (network(images) for images in batches)  # each pass when its turn comes

    def own(labels):
        return [next(block for block in blocks if label in block) for label in labels.tolist()]

    def cross_entropy(z, labels):
        among = own(labels) if til else [range(z.shape[1])] * len(z)
        rows = zip(z, labels.tolist(), among, strict=True)
        return torch.stack([row[b.start : b.stop].logsumexp(0) - row[label] for row, label, b in rows]).mean()

    z_new = next(outputs)
    loss = cross_entropy(z_new, batch.labels)
    z_dark, stored = next(outputs), dark["logits"]
    blocks_of_dark = [range(b.start if til else 0, b.stop) for b in own(dark["labels"])]
    gaps = [z[b.start : b.stop] - s[b.start : b.stop] for z, s, b in zip(z_dark, stored, blocks_of_dark, strict=True)]
    loss = loss + learner.config.logit_weight * torch.cat(gaps).square().mean()
    loss = loss + learner.config.label_weight * cross_entropy(next(outputs), known["labels"])
    optimizer = torch.optim.SGD(network.parameters(), lr=lr)
    loss.backward()
    optimizer.step()
    return z_new.detach()


@pytest.mark.parametrize("passes", ["separate", "joint"])
@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_a_step_leaves_weights_and_running_statistics_as_a_plain_step_does(scenario, passes):
    learner, batch = started(scenario, t=2, norm_layers=True, passes=passes, buffer=1000)
    twin, n_before = copy.deepcopy(learner.network), len(learner.buffer)
    answers = plain_step(learner, batch, twin, passes == "joint", lr=0.1)
    learner.step(batch, torch.optim.SGD(learner.network.parameters(), lr=0.1))
    expected = dict(twin.state_dict())
    for name, found in learner.network.state_dict().items():
        if "running" in name or "num_batches" in name:
            assert torch.equal(found, expected[name])
        else:
            torch.testing.assert_close(found, expected[name], rtol=1e-5, atol=1e-6)
    first = learner.blocks[-1].start if scenario == "til" else 0
    stored = learner.buffer.state_dict()["columns"]["logits"][n_before:]
    assert torch.equal(stored[:, first:], answers[:, first:])


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_with_joint_passes_loss_and_gradients_are_those_of_one_batch_bit_for_bit(scenario):
    learner, batch = started(scenario, t=2, norm_layers=True, passes="joint", replay=12)
    twin, til = copy.deepcopy(learner.network), scenario == "til"
    dark, known = (learner.buffer.draw(12, batch.rng(f"{what} replay")) for what in ("logit", "label"))
    old = learner.setting.preprocess(torch.cat([dark["pixels"], known["pixels"]]), "cpu")
    new, z_dark, z_known = twin(torch.cat([batch.images, old])).split([len(batch.labels), 12, 12])
    stored = torch.nn.functional.pad(dark["logits"], (0, 6 - dark["logits"].shape[1]))
    matched = logit_loss(z_dark, stored, stored_columns(dark["labels"], learner.blocks, til))
    own = stored_columns(known["labels"], learner.blocks, True) if til else None
    repeated = label_loss(z_known, known["labels"], own)
    own = cross_entropies(new[:, 4 if til else 0 :], batch.labels, learner.scope()).mean()
    expected = own + 0.2 * matched + 0.5 * repeated
    loss = learner.loss(batch)
    assert torch.equal(loss, expected)
    for part in (loss, expected):
        part.backward()
    for p, q in zip(learner.network.parameters(), twin.parameters(), strict=True):
        assert torch.equal(p.grad, q.grad)


def test_separate_and_joint_passes_differ_by_batch_norm_alone():
    for norm_layers in (True, False):
        learner, batch = started("cil", norm_layers=norm_layers)
        losses = []
        for passes in ("separate", "joint"):
            learner.config = DERConfig(passes=passes)
            losses.append(learner.loss(batch).item())
        assert (losses[0] == pytest.approx(losses[1], rel=1e-6)) is not norm_layers


@pytest.mark.parametrize(("passes", "sizes"), [("separate", [10, 16, 16]), ("joint", [42])])
def test_each_draw_is_a_whole_batch_however_many_images_are_new(passes, sizes):
    learner, batch = started("cil", passes=passes)
    few = dataclasses.replace(batch, images=batch.images[:10], labels=batch.labels[:10], pixels=batch.pixels[:10])
    seen = []
    learner.network.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    learner.loss(few)
    assert seen == sizes


@pytest.mark.parametrize("passes", ["separate", "joint"])
def test_multiply_accumulates_are_counted_right_while_the_buffer_fills_and_in_a_last_small_batch(passes):
    learner, _ = started("cil", t=0, passes=passes, replay=40)
    task = toy_stream().task(0).without_test()
    training = Training(learner, task, learner.stage(task, 0))
    meter, true, sizes = Meter(), 0.0, set()
    learner.reporter = Reporter(counted=meter.counted)
    for epoch in range(2):
        training.progress.epoch = epoch
        for step, batch in enumerate(training._batches()):
            training.progress.step = step + 1
            sizes.add(len(batch.labels))
            counted = meter.counted("update", len(batch.labels))
            with FlopCounterMode(display=False) as counter, meter.phase("train"), counted:
                learner.step(batch, training.optimizer)
            true += counter.get_total_flops() / 2
        training.progress.step = 0
    assert len(sizes) > 1
    assert meter.macs["train"] == pytest.approx(true)


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_with_both_weights_at_zero_it_is_SGD_bit_for_bit(scenario):
    stream = toy_stream()
    networks = []
    for name, config in (("sgd", {}), ("der++", {"logit_weight": 0.0, "label_weight": 0.0})):
        learner = make(name, scenario, stream, **config)
        for t in range(2):
            learn(learner, stream, t)
        networks.append(dict(learner.network.state_dict()))
    assert_same(*networks)


def test_a_mean_over_all_outputs_is_ours_times_the_share_of_outputs_that_were_stored(float64):
    torch.manual_seed(0)
    labels, z, stored = torch.tensor([0, 3, 3, 6]), torch.randn(4, 7), torch.randn(4, 7)
    valid = stored_columns(labels, BLOCKS, False)  # 2 + 4 + 4 + 7 of 4 x 7 outputs
    ours = logit_loss(z, stored, valid)
    later_as_they_are = torch.where(valid, stored, z)
    mse = torch.nn.functional.mse_loss
    torch.testing.assert_close(mse(z, later_as_they_are), 17 / 28 * ours, rtol=1e-14, atol=0)
    later_towards_zero = torch.where(valid, 0.0, z).square().sum() / 28
    theirs = mse(z, torch.where(valid, stored, 0.0))
    torch.testing.assert_close(theirs, 17 / 28 * ours + later_towards_zero, rtol=1e-14, atol=0)
    last = labels == 6
    torch.testing.assert_close(mse(z[last], stored[last]), logit_loss(z[last], stored[last], valid[last]))


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_a_step_stores_the_images_as_they_came_with_the_logits_from_before_the_update(scenario):
    learner, batch = started(scenario, t=0)
    learner.network.train()
    with torch.no_grad():
        before = learner.network(batch.images)
    learner.step(batch, make_optimizer(learner.network.parameters(), learner.setting.train))
    kept = learner.buffer.state_dict()
    assert kept["offered"] == len(batch.labels)
    assert torch.equal(kept["columns"]["pixels"], batch.pixels)
    assert torch.equal(kept["columns"]["labels"], batch.labels)
    assert torch.equal(kept["columns"]["logits"], before)
    with torch.no_grad():
        assert not torch.equal(learner.network(batch.images), before)


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_logits_of_a_later_task_are_stored_at_their_own_columns(scenario):
    learner, batch = started(scenario, t=1, buffer=1000)
    n_before, seen = len(learner.buffer), learner.blocks[-1].stop
    with torch.no_grad():
        expected = learner.network(batch.images)
    if scenario == "til":
        expected[:, : learner.blocks[-1].start] = 0
    learner.step(batch, make_optimizer(learner.network.parameters(), learner.setting.train))
    logits = learner.buffer.state_dict()["columns"]["logits"]
    assert logits.shape[1] == seen == 4
    torch.testing.assert_close(logits[n_before:], expected)
    assert torch.equal(logits[:n_before, 2:], torch.zeros(n_before, 2))


def test_stored_logits_stay_until_they_are_overwritten():
    learner, _ = started("cil", t=1, buffer=20)
    stream = toy_stream()
    before = cloned(learner.buffer.state_dict()["columns"])
    task = stream.task(1).without_test()
    Training(learner, task, learner.stage(task, 0)).train_one_epoch()
    after = learner.buffer.state_dict()["columns"]
    old = after["labels"] < 2
    assert 0 < int(old.sum()) < 20
    assert torch.equal(after["logits"][old, :2], before["logits"][old])
    assert torch.equal(after["pixels"][old], before["pixels"][old])


def test_the_counter_counts_every_sample_of_every_epoch_and_goes_on_over_tasks():
    stream = toy_stream()
    learner = make("der++", "cil", stream, epochs=3, buffer=15)
    learner.setting = dataclasses.replace(learner.setting, train=dataclasses.replace(learner.setting.train, patience=0))
    for t in range(2):
        learn(learner, stream, t)
    assert learner.buffer.offered == 3 * sum(len(stream.task(t).train) for t in range(2))
    assert len(learner.buffer) == 15


def test_the_best_epoch_brings_its_own_memory_back():
    stream = toy_stream()
    learner = make("der++", "cil", stream, epochs=30)
    task = stream.task(0).without_test()
    learner.begin_task(task)
    states, losses = [], []

    def note(entry):
        losses.append(entry["val_loss"])
        states.append(cloned(learner.state_dict()))

    stage = dataclasses.replace(
        learner.stage(task, 0), settings=dataclasses.replace(learner.setting.train, lr=0.05, patience=3)
    )
    learner.reporter = Reporter(on_epoch=note)
    Training(learner, task, stage).run()
    best = min(range(len(losses)), key=losses.__getitem__)
    assert best < len(losses) - 1
    assert_same(learner.state_dict(), states[best])


def test_it_keeps_training_images_only():
    stream = toy_stream()
    learner = make("der++", "cil", stream)
    learn(learner, stream, 0)
    train = {image.numpy().tobytes() for image in stream.task(0).train.pixels}
    kept = learner.buffer.state_dict()["columns"]["pixels"]
    assert kept.dtype == torch.uint8
    assert {image.numpy().tobytes() for image in kept} <= train


def test_replay_is_augmented_afresh():
    learner, batch = started("cil")
    photographs = dataclasses.replace(learner.setting.preprocess, augmentation="crop-flip")
    learner.setting = dataclasses.replace(learner.setting, preprocess=photographs)
    drawn = [learner.buffer.draw(16, batch.rng(f"{what} replay"))["pixels"] for what in ("logit", "label")]
    seen = []
    learner.network.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    learner.loss(batch)
    old, rng = torch.cat(seen[1:]), batch.rng("augment replay")
    assert torch.equal(old, photographs(torch.cat(drawn), "cpu", rng))
    assert not torch.equal(old, photographs(torch.cat(drawn), "cpu"))


def test_it_remembers_in_CIL_what_SGD_forgets():
    stream = toy_stream()
    final = {}
    for name in ("sgd", "der++"):
        learner = make(name, "cil", stream, epochs=20)
        for t in range(3):
            learn(learner, stream, t)
        final[name] = [accuracy(learner, stream.test(j), stream.blocks[j]) for j in range(3)]
    assert sum(final["der++"][:2]) > sum(final["sgd"][:2]) + 60


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"logit_weight": -1.0}, {"label_weight": math.nan}, {"buffer": 0}, {"replay": 0}):
        with pytest.raises(UserError, match=f"learner.{next(iter(wrong))}.*got"):
            DERConfig(**wrong)


@pytest.mark.parametrize("one", ["buffer", "replay"])
def test_a_draw_of_one_image_is_refused_where_batch_norm_would_see_it_alone(one):
    with pytest.raises(UserError, match=rf"learner\.{one} is at least 2.*got 1.*passes=joint"):
        DERConfig(**{one: 1})
    assert getattr(DERConfig(**{one: 1}, passes="joint"), one) == 1
