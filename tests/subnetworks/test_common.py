"""The common space: tasks told apart, opinions joined, few specialists asked, a task taken away exactly."""

from __future__ import annotations

import pytest
import torch

from snv.components import ClassSums
from snv.networks import Body
from snv.subnetworks.common import MARGIN, Common

K, N_TASKS = 2, 4
RNG = torch.Generator().manual_seed(0)
CENTRES = 2.0 * torch.randn(N_TASKS * K, 6, generator=RNG)


class Flat(Body):
    """Six pixels are six features."""

    n_features = 6

    def forward(self, images):
        return images.flatten(1)


def drawn(t, n=80, seed=0):
    """Images (n, 1, 2, 3) of task t, and their labels 0 … k−1."""
    rng = torch.Generator().manual_seed(10 * t + seed)
    labels = torch.arange(n) % K
    return (CENTRES[K * t + labels] + torch.randn(n, 6, generator=rng)).view(n, 1, 2, 3), labels


class Specialists:
    """Each knows its own classes by their centres; they remember who was asked, and about how many images."""

    def __init__(self):
        self.asked = []

    def __call__(self, images, t):
        self.asked.append((t, len(images)))
        return -torch.cdist(images.flatten(1), CENTRES[K * t : K * (t + 1)])


def batches(common, images):
    return lambda: ((part, common.features(part)) for part in images.split(32))


def learned(tasks=range(N_TASKS), *, open_answers=True, separable=False):
    common, ask = Common(Flat(), open_answers, separable), Specialists()
    for place, t in enumerate(tasks):
        images, labels = drawn(t)
        sums = ClassSums.blank(K, 6)
        sums.add(common.features(images), labels)
        val, answers = drawn(t, seed=1)
        common.add(sums, batches(common, val), answers, lambda x, s, order=list(tasks), ask=ask: ask(x, order[s]))
        assert len(common.tasks) == place + 1
    return common, ask


def test_classes_of_all_tasks_are_told_apart():
    common, ask = learned()
    right = 0.0
    for t in range(N_TASKS):
        images, labels = drawn(t, seed=2)
        right += (
            float(
                (common.open_answer(images, common.features(images), ask).argmax(1) == K * t + labels).double().mean()
            )
            / N_TASKS
        )
    assert right > 0.7  # chance is 1/8


def test_of_each_image_only_tasks_with_likely_classes_are_asked():
    common, ask = learned()
    images, _ = drawn(0, n=40, seed=2)
    ask.asked.clear()
    common.open_answer(images, common.features(images), ask)
    worth = common.worth_asking(common._everywhere(common.features(images)))
    assert ask.asked == [(t, int(worth[:, t].sum())) for t in range(N_TASKS) if worth[:, t].any()]
    asked = worth[worth.any(1)]
    assert 0 < len(asked) < len(images)
    assert float(asked[:, 0].double().mean()) > 0.9


@pytest.mark.parametrize(
    ("best", "asked"),
    [
        ([0.0, -9, -9, -9], [True, False, False, False]),
        ([-9, 0.0, -MARGIN, -9], [False, True, True, False]),
        ([-9, 0.0, -MARGIN - 0.1, -9], [False, True, False, False]),
        ([-0.3, -0.2, -0.1, 0.0], [False, True, True, True]),
    ],
    ids=str,
)
def test_a_task_is_worth_asking_if_its_best_class_is_close_to_the_favourite(best, asked):
    common, _ = learned()
    everywhere = torch.tensor([[x for score in best for x in (score - 1, score)]])
    assert common.worth_asking(everywhere).tolist() == [asked]


def test_nobody_is_asked_where_the_common_space_has_no_doubt():
    common, _ = learned()
    doubts = torch.tensor([[0.0, -MARGIN - 0.1, -3, -3, -3, -3, -3, -3], [0.0, -MARGIN + 0.1, -3, -3, -3, -3, -3, -3]])
    assert common.worth_asking(doubts).any(1).tolist() == [False, True]


def test_a_specialist_that_is_not_asked_finds_all_its_classes_alike():
    common, ask = learned()
    images, _ = drawn(0, n=5, seed=2)
    asked = torch.tensor([[True, False, True, False]]).expand(5, -1)
    within = common._within_tasks(images, asked, ask).view(5, N_TASKS, K).exp()
    assert torch.allclose(within[:, [1, 3]], torch.tensor(1 / K))
    assert torch.allclose(within[:, 2], ask(images, 2).softmax(1))


def test_weights_are_found_with_every_specialist_asked_about_every_image():
    _, ask = learned([0, 1, 2])
    last = ask.asked[-12:]  # of 80 images in batches of 32: first the own answers of the newest task, then all tasks
    assert last == [(2, 32), (2, 32), (2, 16), *((t, n) for n in (32, 32, 16) for t in range(3))]


def test_what_a_task_says_of_an_image_does_not_depend_on_the_others_in_its_batch():
    common, ask = learned()
    images, _ = drawn(2, n=12, seed=2)
    together = common.open_answer(images, common.features(images), ask)
    alone = torch.cat([common.open_answer(image[None], common.features(image[None]), ask) for image in images])
    assert torch.allclose(together, alone, atol=1e-5)


def test_with_the_task_known_an_answer_never_changes():
    images, _ = drawn(1, seed=2)
    common, ask = learned(range(2))
    before = common.answer(ask(images, 1), common.features(images), 1)
    more, ask = learned(range(4))
    assert torch.equal(more.answer(ask(images, 1), more.features(images), 1), before)


def test_a_specialist_that_knows_nothing_gets_no_weight():
    common = Common(Flat(), open_answers=False, separable=False)
    images, labels = drawn(0)
    sums = ClassSums.blank(K, 6)
    sums.add(common.features(images), labels)
    val, answers = drawn(0, n=6000, seed=1)
    noise = torch.randn(6000, K, generator=torch.Generator().manual_seed(3))
    common.add(sums, lambda: [(val, common.features(val))], answers, lambda _images, _t: noise)
    assert common.tasks[0].weights[0] < 0.1
    assert common.tasks[0].weights[1] > 0.3


def test_the_order_of_tasks_does_not_change_what_is_kept_of_all_classes():
    straight, _ = learned(range(4))
    other, _ = learned([2, 0, 3, 1])
    assert torch.equal(straight.pooled().products, other.pooled().products)
    assert torch.equal(straight.pooled().sums[4:6], other.pooled().sums[:2])


def test_a_forgotten_task_leaves_exactly_what_would_be_there_without_it():
    with_it, _ = learned([0, 1, 2], separable=True)
    with_it.forget(1)
    without, _ = learned([0, 2], separable=True)
    for name in ("counts", "sums", "products"):
        assert torch.equal(getattr(with_it.pooled(), name), getattr(without.pooled(), name))


def test_a_task_whose_products_are_not_kept_apart_cannot_be_forgotten():
    common, _ = learned([0, 1])
    with pytest.raises(RuntimeError, match="one sum"):
        common.forget(0)


@pytest.mark.parametrize("separable", [False, True])
def test_what_is_saved_and_loaded_answers_the_same(separable):
    common, ask = learned(separable=separable)
    copy = Common(Flat(), open_answers=True, separable=separable)
    copy.load(common.state(), torch.device("cpu"))
    images, _ = drawn(3, seed=2)
    assert torch.equal(
        copy.open_answer(images, copy.features(images), ask), common.open_answer(images, common.features(images), ask)
    )


def test_where_the_task_is_always_known_no_covariance_is_kept():
    common, _ = learned(open_answers=False)
    assert common.products is None
    assert all(part.classes is None for part in common.tasks)
