"""DyTox: losses against loops, what moves in which stage, one memory, and tokens that answer alone."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from test_learner_contract import assert_same
from toy import learn, make, toy_stream

from snv.components.replay import Joined
from snv.data.task import InMemory
from snv.errors import UserError
from snv.files import cloned, load_state, save_state
from snv.learners.dytox import DyTox, DyToxConfig, forgotten, newness, sigmoid_loss
from snv.networks import build_network
from snv.runs.evaluate import accuracy
from snv.training.loop import Training

SCENARIOS = pytest.mark.parametrize("scenario", ["til", "cil"])


def learned(scenario="cil", n_tasks=2, **config):
    stream = toy_stream()
    learner = make("dytox", scenario, stream, epochs=2, **config)
    for t in range(n_tasks):
        learn(learner, stream, t)
    return learner, stream


def begun(scenario="cil", n_tasks=1, **config):
    """Some tasks learned, the next begun, and a batch of it."""
    learner, stream = learned(scenario, n_tasks, **config)
    task = stream.task(n_tasks).without_test()
    learner.begin_task(task)
    training = Training(learner, task, learner.stage(task, 0))
    return learner, task, next(training._batches())


def weights(learner) -> dict[str, torch.Tensor]:
    return cloned(dict(learner.network.state_dict()))


def moved(learner, before) -> set[str]:
    """Which parts of the network are not what they were: body, attention, heads.0, …"""
    now = learner.network.state_dict()
    names = [name for name in before if not torch.equal(now[name], before[name])]
    return {".".join(name.split(".")[: 2 if name.startswith("heads") else 1]) for name in names}


# ---- losses


def plain_bce(logits: list[list[float]], labels: list[int]) -> float:
    total = 0.0
    for z, label in zip(logits, labels, strict=True):
        for c, x in enumerate(z):
            p = 1 / (1 + math.exp(-x))
            total -= math.log(p) if c == label else math.log(1 - p)
    return total / (len(logits) * len(logits[0]))


def plain_kl(before: list[list[float]], now: list[list[float]], tau: float) -> float:
    total = 0.0
    for a, z in zip(before, now, strict=True):
        p = [math.exp(x / tau) / sum(math.exp(y / tau) for y in a) for x in a]
        q = [math.exp(x / tau) / sum(math.exp(y / tau) for y in z) for x in z]
        total += sum(x * math.log(x / y) for x, y in zip(p, q, strict=True))
    return tau**2 * total / (len(now) * len(now[0]))  # over images and classes, as in the original


@SCENARIOS
@pytest.mark.parametrize("asked", [1.0, 0.5])
def test_the_loss_equals_the_plain_one(scenario, asked):
    learner, _, batch = begun(scenario, 2, temperature=2.0, divergence=0.3, asked=asked)
    with torch.no_grad():
        for p in learner.network.parameters():
            p.mul_(1.1)
        n, labels = len(batch.labels), batch.labels.tolist()
        z, old = learner.network(batch.images), learner.teacher(batch.images)
        heads = learner.tokens.of(range(3))
        newest = learner.tokens.embeddings(learner.network.features(batch.images), heads)[:, 2]
        told = learner.divergence(newest).tolist()
        n_asked = math.ceil(asked * n)
        kl = plain_kl(old[:n_asked].tolist(), z[:n_asked, :4].tolist(), 2.0)
        expected = (1 - 4 / 6) * plain_bce(z.tolist(), labels) + 4 / 6 * kl
        expected += 0.3 * plain_bce(told, [max(0, y - 3) for y in labels])
        assert (z.shape[1], len(told[0])) == (6, 3)
        assert float(learner.loss(batch)) == pytest.approx(expected, abs=1e-5)


def test_the_first_task_has_the_classification_loss_alone():
    learner, _, batch = begun(n_tasks=0)
    assert learner.teacher is None
    assert learner.divergence is None
    with torch.no_grad():
        expected = plain_bce(learner.network(batch.images).tolist(), batch.labels.tolist())
        assert float(learner.loss(batch)) == pytest.approx(expected, abs=1e-5)


def test_distillation_is_zero_where_nothing_changed_and_positive_elsewhere():
    logits = torch.randn(4, 3)
    assert float(forgotten(logits, logits, 1.0)) == pytest.approx(0, abs=1e-7)
    assert float(forgotten(logits.flip(0), logits, 1.0)) > 0


def test_all_old_classes_are_one_to_the_divergence_head():
    assert newness(torch.tensor([0, 3, 4, 5, 6]), range(4, 7)).tolist() == [0, 0, 1, 2, 3]


def test_smoothed_targets_spread_a_share_over_all_classes():
    logits, labels = torch.randn(4, 5), torch.tensor([0, 4, 2, 2])
    q = torch.full((4, 5), 0.04)
    q[range(4), labels] += 0.8
    expected = -(q * logits.sigmoid().log() + (1 - q) * (1 - logits.sigmoid()).log()).mean()
    torch.testing.assert_close(sigmoid_loss(logits, labels, 0.2), expected)


def test_validation_is_the_classification_loss_alone():
    learner, task, _ = begun()
    images = learner.setting.preprocess(task.val.pixels, "cpu")
    with torch.no_grad():
        loss, right = learner.validation(images, task.val.labels, learner.stage(task, 0))
        logits = learner.network(images)
    assert float(loss) == pytest.approx(plain_bce(logits.tolist(), task.val.labels.tolist()), abs=1e-5)
    assert int(right) == int((logits.argmax(1) == task.val.labels).sum())


# ---- what moves


@SCENARIOS
@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_in_training_old_tokens_and_heads_stay_bit_identical_and_all_else_moves(scenario, optimizer):
    learner, task, _ = begun(scenario, 2)
    train = dataclasses.replace(learner.setting.train, optimizer=optimizer, weight_decay=0.1)
    learner.setting = dataclasses.replace(learner.setting, train=train)
    before, teacher, d = weights(learner), cloned(learner.state_dict()["teacher"]), cloned(divergence(learner))
    Training(learner, task, learner.stage(task, 0)).run()
    assert moved(learner, before) == {"body", "attention", "heads.2"}
    assert_same(learner.state_dict()["teacher"], teacher)
    assert not torch.equal(divergence(learner)["1.weight"], d["1.weight"])


def divergence(learner) -> dict[str, torch.Tensor]:
    return dict(learner.divergence.state_dict())


def test_in_finetuning_all_tokens_and_heads_move_and_the_encoder_stays_bit_identical():
    learner, task, _ = begun("cil", 2)
    learner.end_stage(task, learner.stage(task, 0))
    before, stage = weights(learner), learner.stage(task, 1)
    Training(learner, task, stage).run()
    assert stage.name == "finetune"
    assert moved(learner, before) == {"attention", "heads.0", "heads.1", "heads.2"}
    tokens = [f"heads.{t}.token" for t in range(3)]
    assert not any(torch.equal(learner.network.state_dict()[name], before[name]) for name in tokens)


def test_without_finetuning_old_tokens_and_heads_never_move_again():
    learner, stream = learned("cil", 1, finetune_epochs=0)
    before = weights(learner)
    for t in (1, 2):
        learn(learner, stream, t)
        assert "heads.0" not in moved(learner, before)
    assert learner.stage(stream.task(2), 1) is None


def test_what_finetuning_releases_the_next_task_freezes_again():
    learner, stream = learned("cil", 2)
    task = stream.task(2).without_test()
    learner.begin_task(task)
    learner.set_training(True, learner.stage(task, 0))
    free = {name for name, p in learner.network.named_parameters() if p.requires_grad}
    names = {name for name, _ in learner.network.named_parameters()}
    assert free == {name for name in names if not name.startswith(("heads.0", "heads.1"))}


def test_every_task_brings_one_token():
    stream = toy_stream()
    learner = make("dytox", "cil", stream, epochs=1)
    for t in range(3):
        learn(learner, stream, t)
        assert sum(name.endswith(".token") for name in learner.network.state_dict()) == t + 1


def test_the_divergence_head_is_new_for_every_task_and_dropped_when_training_ends():
    learner, stream = learned("cil", 1)
    assert learner.divergence is None
    seen = []
    for t in (1, 2):
        task = stream.task(t).without_test()
        learner.begin_task(task)
        seen.append(divergence(learner)["1.weight"].detach().clone())
        learner.end_stage(task, learner.stage(task, 0))
        assert learner.divergence is None
        assert learner.teacher is None
    assert not torch.equal(*seen)


def test_the_divergence_loss_moves_the_newest_token_and_no_old_one():
    learner, _, batch = begun()
    heads = learner.tokens.of(range(2))
    for p in learner.network.parameters():
        p.requires_grad_(True)
    embeddings = learner.tokens.embeddings(learner.network.features(batch.images), heads)
    sigmoid_loss(learner.divergence(embeddings[:, -1]), newness(batch.labels, learner.blocks[-1])).backward()
    assert not heads[0].token.grad.any()
    assert heads[1].token.grad.any()


def test_finetuning_takes_the_exemplars_alone_slowly_and_to_the_end():
    learner, task, _ = begun(buffer=20, finetune_epochs=3, finetune_lr=0.2)
    learner.end_stage(task, learner.stage(task, 0))
    stage = learner.stage(task, 1)
    assert isinstance(stage.train, InMemory)
    assert stage.train.labels.bincount().tolist() == [5, 5, 5, 5]
    assert (stage.settings.epochs, stage.settings.patience) == (3, 0)
    assert stage.lr_at(0) == stage.lr_at(2.9) == pytest.approx(0.2 * 1e-3)
    assert learner.stage(task, 2) is None


def test_the_first_task_is_not_finetuned():
    learner, task, _ = begun(n_tasks=0)
    learner.end_stage(task, learner.stage(task, 0))
    assert learner.stage(task, 1) is None


# ---- memory


def test_a_later_task_trains_on_its_images_and_all_exemplars():
    learner, task, _ = begun(buffer=20)
    split = learner.stage(task, 0).train
    assert isinstance(split, Joined)
    assert split.labels.bincount().tolist()[:2] == [10, 10]
    assert len(split) == len(task.train) + 20


@pytest.mark.parametrize("capacity", [25, 4])
def test_the_memory_is_balanced_and_never_above_its_size_unless_classes_are_more(capacity):
    stream = toy_stream()
    learner = make("dytox", "cil", stream, epochs=1, buffer=capacity)
    for t in range(3):
        learn(learner, stream, t)
        counts = [len(pixels) for pixels in learner.exemplars.of_class]
        assert set(counts) == {max(1, capacity // (2 * (t + 1)))}
        assert sum(counts) <= max(capacity, 2 * (t + 1))


def test_exemplars_are_herded_on_all_embeddings_from_images_as_they_are():
    learner, task, _ = begun(buffer=16)
    learner.network.eval()
    heads, rows = learner.tokens.of(range(2)), []
    for image in learner.setting.preprocess(task.train.pixels, "cpu"):
        embeddings = learner.tokens.embeddings(learner.network.features(image[None]), heads)[0].detach()
        rows.append(torch.cat([e / e.norm() for e in embeddings]))
    learner.end_stage(task, learner.stage(task, 0))
    for c in task.block:
        mine = (task.train.labels == c).nonzero().flatten().tolist()
        mean, picks = torch.stack([rows[i] for i in mine]).mean(0), []
        for _ in range(4):
            left = [i for i in mine if i not in picks]
            gaps = [float((mean - torch.stack([rows[j] for j in [*picks, i]]).mean(0)).norm()) for i in left]
            picks.append(left[gaps.index(min(gaps))])
        assert torch.equal(learner.exemplars.of_class[c], task.train.pixels[picks])


# ---- prediction


def test_in_TIL_a_task_is_answered_by_its_own_token_alone():
    learner, stream = learned("til", 3)
    images = torch.randn(5, 1, 8, 8)
    before = learner.logits(images, stream.blocks[1])
    for t in (0, 2):
        learner.network.heads[t].token.data.add_(torch.randn(32))
    assert torch.equal(learner.logits(images, stream.blocks[1]), before)
    torch.testing.assert_close(learner.logits(images, None)[:, 2:4], before)


def test_a_task_not_begun_is_answered_by_the_token_and_head_it_will_start_from():
    learner, stream = learned("til", 1)
    images = torch.randn(5, 1, 8, 8)
    before = learner.logits(images, stream.blocks[1])
    learner.begin_task(stream.task(1).without_test())
    assert torch.equal(learner.logits(images, stream.blocks[1]), before)


def test_before_its_first_task_it_can_be_asked_and_guesses():
    stream = toy_stream()
    learner = make("dytox", "til", stream)
    assert 0 <= accuracy(learner, stream.test(0), stream.blocks[0]) <= 100


def test_it_remembers_in_CIL_what_SGD_forgets():
    stream = toy_stream()
    final = {}
    for name in ("sgd", "dytox"):
        learner = make(name, "cil", stream)
        for t in range(3):
            learn(learner, stream, t)
        final[name] = [accuracy(learner, stream.test(j), stream.blocks[j]) for j in range(3)]
    assert sum(final["dytox"][:2]) > sum(final["sgd"][:2]) + 60


# ---- what is kept


@pytest.mark.parametrize("index", [0, 1])
def test_cut_in_the_middle_of_either_stage_it_goes_on_with_the_same_bits(tmp_path, index):
    learner, task, _ = begun(finetune_epochs=2)
    if index == 1:
        learner.end_stage(task, learner.stage(task, 0))
    training = Training(learner, task, learner.stage(task, index))
    training.train_one_epoch()
    save_state(tmp_path / "state", {"learner": learner.state_dict(), "training": training.state_dict()})
    state = load_state(tmp_path / "state")
    other = make("dytox", "cil", toy_stream(), epochs=2, finetune_epochs=2)
    other.load_state_dict(state["learner"])
    assert_same(other.state_dict(), learner.state_dict())
    assert (other.teacher is None) == (other.divergence is None) == (index == 1)
    Training(other, task, other.stage(task, index), state["training"]).run()
    training.run()
    assert_same(other.state_dict(), learner.state_dict())


def test_capacity_counts_tokens_and_norms_against_the_network_it_does_without():
    learner, _ = learned(n_tasks=1)
    dense = sum(p.numel() for p in learner.setting.network.body.parameters())
    before = learner.capacity()["parameters"]
    learner.begin_task(toy_stream().task(1).without_test())
    assert (learner.capacity()["parameters"] - before) * dense == pytest.approx(3 * 32)


@pytest.mark.parametrize(
    "wrong",
    [
        {"buffer": 0},
        {"dim": 0},
        {"heads": 0},
        {"patch": 0},
        {"depth": 0},
        {"temperature": 0.0},
        {"asked": 0.0},
        {"asked": 1.5},
        {"divergence": -0.1},
        {"finetune_epochs": -1},
        {"finetune_lr": 0.0},
    ],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(UserError, match=rf"learner\.{next(iter(wrong))} .*; got .*"):
        DyToxConfig(**wrong)


def test_sizes_that_do_not_fit_are_refused():
    for wrong, said in (
        ({"dim": 30, "heads": 4}, "multiple of learner.heads; got 30 and 4"),
        ({"patch": 3}, "Patches"),
    ):
        with pytest.raises(UserError, match=said):
            make("dytox", "cil", toy_stream(), **wrong)


def test_with_a_ResNet_finetuning_leaves_the_encoder_bit_identical_norm_statistics_included():
    stream = toy_stream()
    setting = make("dytox", "cil", stream, epochs=1).setting
    setting = dataclasses.replace(setting, network=build_network("resnet18", stream.source.shape, 0, width=2))
    learner = DyTox(setting, DyToxConfig(encoder="resnet", heads=4, finetune_epochs=1))
    learn(learner, stream, 0)
    task = stream.task(1).without_test()
    learner.begin_task(task)
    before = weights(learner)
    Training(learner, task, learner.stage(task, 0)).run()
    assert moved(learner, before) == {"body", "attention", "heads.1"}
    learner.end_stage(task, learner.stage(task, 0))
    before = weights(learner)
    Training(learner, task, learner.stage(task, 1)).run()
    assert moved(learner, before) == {"attention", "heads.0", "heads.1"}


def test_the_stages_of_a_ResNet_need_a_ResNet():
    with pytest.raises(UserError, match=r"learner\.encoder=resnet .*; got MLP"):
        make("dytox", "cil", toy_stream(), encoder="resnet")


def test_sizes_that_are_given_count():
    learner = make("dytox", "cil", toy_stream(), dim=12, heads=3, depth=2, patch=2)
    assert (learner.tokens.dim, learner.tokens.attention.heads, len(learner.network.body.blocks)) == (12, 3, 2)
    assert learner.network.body.n_features == 16 * 12
