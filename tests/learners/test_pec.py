"""PEC: students are independent of each other, equal at the start, and best at imitating on their own class."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from test_learner_contract import assert_same
from toy import learn, make, toy_stream

from snv.errors import UserError
from snv.files import cloned
from snv.learners.pec import PEC, scores
from snv.networks.imitator import Imitator, answers, patches
from snv.training.loop import Training, make_optimizer
from snv.training.reporter import Reporter
from snv.training.stage import Batch

SMALL = {"teacher": 3, "width": 6, "outputs": 9}


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def learned(n_tasks: int = 3, **config) -> tuple[PEC, object]:
    stream = toy_stream()
    learner = make("pec", "cil", stream, **SMALL | config)
    for t in range(n_tasks):
        learn(learner, stream, t)
    return learner, stream


def probes(n: int = 7) -> torch.Tensor:
    return torch.randn(n, 1, 8, 8, generator=rng(5))


def by_hand(net: Imitator, image: np.ndarray) -> np.ndarray:
    """The same network in loops, for one image (c, h, w)."""
    weight, bias = net.convolution.weight.detach().double().numpy(), net.convolution.bias.detach().double().numpy()
    _, h, w = image.shape
    padded = np.pad(image.astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    features = []
    for k in range(len(weight)):
        responses = np.array(
            [[(padded[:, i : i + 3, j : j + 3] * weight[k]).sum() + bias[k] for j in range(w)] for i in range(h)]
        )
        z = (responses - responses.mean()) / np.sqrt(responses.var() + 1e-5)
        z = np.maximum(0, z * net.norm.weight[k].item() + net.norm.bias[k].item())
        cells = [(n * i // net.grid, -(-n * (i + 1) // net.grid)) for n in (h, w) for i in range(net.grid)]
        rows, columns = cells[: net.grid], cells[net.grid :]
        features += [z[a:b, c:d].mean() for a, b in rows for c, d in columns]
    return net.linear.weight.detach().double().numpy() @ features + net.linear.bias.detach().double().numpy()


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 9, 7)])
def test_scores_are_mean_squared_errors_against_the_teacher_worked_out_by_hand(shape):
    teacher, *students = (Imitator(shape[0], 5, 4, 6, rng(k)) for k in range(3))
    for k, student in enumerate(students):
        torch.nn.init.normal_(student.norm.weight, generator=rng(k))
        torch.nn.init.normal_(student.norm.bias, generator=rng(k + 5))
    images = torch.randn(3, *shape, generator=rng())
    seen = patches(images, 4)
    found = scores(students, seen, answers(teacher, seen))
    for b, image in enumerate(images.numpy()):
        for c, student in enumerate(students):
            expected = -((by_hand(student, image) - by_hand(teacher, image)) ** 2).mean()
            assert float(found[b, c]) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def batch_of(learner: PEC, images, labels, index, step: int, stage) -> Batch:
    return Batch(images, labels, torch.zeros(images.shape, dtype=torch.uint8), index, stage, 0, 0, step, 4, 0)


def three_classes(**config) -> tuple[PEC, list[Batch], list[Batch]]:
    """A learner at its first task, batches of its teacher stage and of training; class 2 is absent from most."""
    stream = toy_stream()
    learner = make("pec", "cil", stream, **SMALL | {"schedule": "as train"} | config)
    task = dataclasses.replace(stream.task(0), block=range(3))
    learner.begin_task(task)
    images = torch.randn(16, 1, 8, 8, generator=rng(3))
    labels = torch.tensor([0, 1, 1, 0, 2, 1, 0, 2, 0, 1, 0, 1, 1, 0, 0, 1])
    parts = [torch.arange(16)[k : k + 4] for k in (4, 0, 8, 12)]
    both = []
    for number in (0, 1):
        stage = learner.stage(task, number)
        both.append([batch_of(learner, images[i], labels[i], i, k, stage) for k, i in enumerate(parts)])
    return learner, *both


def trained(learner: PEC, asked: list[Batch], batches: list[Batch]) -> PEC:
    for several in (asked, batches):
        optimizer = make_optimizer(learner.parameters(several[0].stage), several[0].stage.settings)
        for batch in several:
            learner.step(batch, optimizer)
    return learner


def test_training_together_equals_one_optimiser_per_class():
    learner, asked, batches = three_classes()
    teacher = learner.students.teacher
    alone = [learner._imitator(6, "student") for _ in range(3)]
    optimizers = [make_optimizer(net.parameters(), batches[0].stage.settings) for net in alone]
    for batch in batches:
        for c in batch.labels.unique().tolist():
            images = batch.images[batch.labels == c]
            loss = (alone[c](images) - teacher(images).detach()).square().mean(1).mean()
            optimizers[c].zero_grad()
            loss.backward()
            alone[c].convolution.bias.grad = None  # rounding errors, which Adam would blow up
            optimizers[c].step()
    trained(learner, asked, batches)
    images = probes()
    for net, student in zip(alone, learner.students.pick(range(3)), strict=True):
        torch.testing.assert_close(student(images), net(images), atol=1e-5, rtol=1e-4)


def test_five_times_the_loss_is_the_same_training_under_Adam():
    first, second = (trained(*three_classes(strength=strength)) for strength in (1.0, 5.0))
    assert not torch.equal(first.students.classes[0].linear.weight, first.students.classes[1].linear.weight)
    for p, q in zip(first.network.parameters(), second.network.parameters(), strict=True):
        torch.testing.assert_close(p, q, atol=1e-5, rtol=0)


def test_before_training_all_classes_score_the_same():
    stream = toy_stream()
    learner = make("pec", "cil", stream, **SMALL)
    learner.begin_task(stream.task(0).without_test())
    learner.begin_task(stream.task(1).without_test())
    found = learner.logits(probes(), None)
    assert found.shape == (7, 4)
    assert torch.equal(found, found[:, :1].expand(7, 4))


def test_a_student_imitates_best_on_its_own_class():
    learner, stream = learned(3)
    best = 0
    for t in range(3):
        split = stream.test(t)
        images = learner.setting.preprocess(split.pixels, "cpu")
        for c in stream.blocks[t]:
            own = -learner.logits(images[split.labels == c], None)[:, c].mean()
            others = -learner.logits(images[split.labels != c], None)[:, c].mean()
            elsewhere = [
                -learner.logits(learner.setting.preprocess(stream.test(s).pixels, "cpu"), None)[:, c].mean()
                for s in range(3)
                if s != t
            ]
            best += bool(own < min(others, *elsewhere))
    assert best >= 5  # of 6


def test_later_tasks_change_no_bit_of_earlier_students_or_their_scores():
    stream = toy_stream()
    learner = make("pec", "cil", stream, **SMALL)
    learn(learner, stream, 0)
    before, found = cloned(dict(learner.students.state_dict())), learner.logits(probes(200), None)
    learn(learner, stream, 1)
    learn(learner, stream, 2)
    after = learner.students.state_dict()
    assert_same({name: after[name] for name in before}, before)
    assert torch.equal(learner.logits(probes(200), None)[:, :2], found)
    assert torch.equal(learner.logits(probes(200), stream.blocks[0]), found)


def test_the_authors_sizes_match_one_ResNet_per_hundred_classes():
    student, teacher = Imitator(3, 40, 4, 172, rng()), Imitator(3, 4000, 4, 172, rng())
    assert sum(p.numel() for p in student.parameters()) == 111_452
    assert sum(p.numel() for p in teacher.parameters()) == 11_128_172


def test_the_teacher_is_one_and_the_same_and_is_not_stored():
    learner, _ = learned(2)
    again = make("pec", "cil", toy_stream(), **SMALL)
    assert_same(dict(learner.students.teacher.state_dict()), dict(again.students.teacher.state_dict()))
    assert all("classes." in name for name in learner.state_dict()["network"])
    sizes = learner.capacity()
    assert sizes["parameters"] > 0 and sizes["teacher"] > 0
    assert learner.targets == {}


def test_every_task_trains_for_all_its_epochs_on_plain_images():
    stream = toy_stream()
    learner = make("pec", "cil", stream, epochs=5, **SMALL)
    task = stream.task(0).without_test()
    teacher, train = learner.stage(task, 0), learner.stage(task, 1)
    assert learner.stage(task, 2) is None
    assert (teacher.settings.epochs, train.settings.epochs) == (1, 5)
    for stage in (teacher, train):
        assert stage.settings.patience == 0 and not stage.settings.augment


def test_the_learning_rate_falls_on_a_line():
    learner, _, batches = three_classes(schedule="linear")
    stage = dataclasses.replace(batches[0].stage, settings=dataclasses.replace(batches[0].stage.settings, epochs=10))
    optimizer = make_optimizer(learner.parameters(stage), stage.settings)
    learner.step(dataclasses.replace(batches[0], stage=stage, epoch=7, step=2, n_steps=4), optimizer)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(stage.settings.lr * 0.25)


@pytest.mark.parametrize(("number", "moment"), [(0, (0, 2)), (1, (3, 1))], ids=["teacher", "train"])
def test_cut_in_the_middle_of_an_epoch_it_goes_on_with_the_same_bits(number, moment):
    whole, stream = learned(2)
    cut, _ = learned(1)
    task = stream.task(1).without_test()
    cut.begin_task(task)
    saved = {}

    def keep(training: Training) -> None:
        if (training.progress.epoch, training.progress.step) == moment and training.stage == cut.stage(task, number):
            saved.update(cloned({"learner": cut.state_dict(), "training": training.state_dict()}))

    cut.reporter = Reporter(on_step=keep)
    for k in range(number + 1):
        Training(cut, task, cut.stage(task, k)).run()
    resumed = make("pec", "cil", stream, **SMALL)
    resumed.load_state_dict(saved["learner"])
    Training(resumed, task, resumed.stage(task, number), saved["training"]).run()
    for k in range(number + 1, 2):
        Training(resumed, task, resumed.stage(task, k)).run()
    resumed.end_task(task)
    assert_same(resumed.state_dict(), whole.state_dict())


def test_sizes_that_are_none_are_refused():
    with pytest.raises(UserError, match=r"width is at least 1, and finite; got 0"):
        PEC.Config(width=0)
    with pytest.raises(UserError, match=r"strength is positive; got -1"):
        PEC.Config(strength=-1.0)
