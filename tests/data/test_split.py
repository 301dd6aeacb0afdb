from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snv.data import load_source
from snv.data.split import chosen_classes, class_order, official_indices, split_indices, task_sizes
from snv.errors import UserError

label_lists = st.lists(st.integers(3, 40), min_size=1, max_size=8).map(
    lambda counts: np.repeat(np.arange(len(counts)), counts)
)


@given(label_lists, st.integers(0, 2**40))
@settings(deadline=None, max_examples=50)
def test_the_three_splits_are_disjoint_and_cover_the_data(labels, seed):
    parts = split_indices(labels, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))


@given(label_lists, st.integers(0, 2**40))
@settings(deadline=None, max_examples=50)
def test_every_class_is_in_every_split(labels, seed):
    for part in split_indices(labels, seed):
        np.testing.assert_array_equal(np.unique(labels[part]), np.unique(labels))


def test_a_hundred_images_are_split_70_10_20():
    assert [len(part) for part in split_indices(np.zeros(100, np.int64), 0)] == [70, 10, 20]


@given(label_lists, st.integers(0, 2**40))
@settings(deadline=None, max_examples=30)
def test_the_split_is_a_function_of_labels_and_seed(labels, seed):
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - that the global generator is left alone is the point
    first, second = split_indices(labels, seed), split_indices(labels.copy(), seed)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_another_seed_gives_another_split_and_another_order():
    labels = np.repeat(np.arange(4), 50)
    assert not np.array_equal(split_indices(labels, 0).train, split_indices(labels, 1).train)
    assert class_order(50, 0) != class_order(50, 1)
    assert sorted(class_order(50, 0)) == list(range(50))


def test_adding_a_class_never_moves_the_images_of_another():
    few, more = np.repeat(np.arange(3), 30), np.repeat(np.arange(4), 30)
    for a, b in zip(split_indices(few, 7), split_indices(more, 7), strict=True):
        np.testing.assert_array_equal(a, b[more[b] < 3])


def test_adding_a_class_that_comes_first_by_name_never_moves_the_images_of_another():
    few, more = np.repeat(np.arange(2), 30), np.repeat(np.arange(3), 30)
    before = split_indices(few, 7, ("bee", "cat"))
    after = split_indices(more, 7, ("ant", "bee", "cat"))
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b[more[b] > 0] - 30)


def test_per_class_keeps_that_many_images_of_each():
    labels = np.repeat(np.arange(3), 30)
    parts = split_indices(labels, 0, per_class=10)
    np.testing.assert_array_equal(np.bincount(labels[np.concatenate(parts)]), [10, 10, 10])


def test_too_few_images_per_class_are_refused():
    with pytest.raises(UserError, match="per_class = 2"):
        split_indices(np.repeat(np.arange(3), 30), 0, per_class=2)


@pytest.mark.parametrize("count", [1, 2])
def test_a_class_with_too_few_images_is_named(count):
    labels = np.repeat([0, 1], [10, count])
    with pytest.raises(UserError, match=f"'cat' has {count} image"):
        split_indices(labels, 0, ("dog", "cat"))


@given(st.integers(1, 100), st.integers(1, 100))
def test_tasks_are_as_even_as_possible(n_classes, tasks):
    if tasks > n_classes:
        with pytest.raises(UserError, match=f"at most {n_classes}"):
            task_sizes(n_classes, tasks)
        return
    sizes = task_sizes(n_classes, tasks)
    assert sum(sizes) == n_classes
    assert len(sizes) == tasks
    assert max(sizes) - min(sizes) <= 1


def test_an_uneven_list_is_taken_as_it_is():
    assert task_sizes(100, (50, 25, 25)) == [50, 25, 25]


@pytest.mark.parametrize("tasks", [0, -1, (), (5, 0), (6, 5)])
def test_impossible_task_lists_are_refused(tasks):
    with pytest.raises(UserError, match="task"):
        task_sizes(10, tasks)


@pytest.mark.parametrize(
    ("seed", "per_class", "fingerprint", "order"),
    [
        (0, None, "4a753889679316e2", [1, 7, 5, 6, 4, 0, 8, 9, 3, 2]),
        (7, 20, "e286cf41a64fc23b", [7, 1, 5, 2, 9, 4, 0, 6, 8, 3]),
    ],
)
def test_the_split_and_the_order_of_a_seed_are_what_they_have_always_been(seed, per_class, fingerprint, order):
    """Records of all versions can be compared only as long as this holds."""
    source = load_source("digits")
    digest = hashlib.blake2b(digest_size=8)
    for part in split_indices(source.labels, seed, source.class_names, per_class=per_class):
        digest.update(part.tobytes())
    assert (digest.hexdigest(), class_order(10, seed)) == (fingerprint, order)


@given(label_lists, st.integers(0, 2**40))
@settings(deadline=None, max_examples=30)
def test_official_test_images_are_the_last_and_a_tenth_of_the_others_validates(labels, seed):
    rng = np.random.default_rng(0)
    train, test = rng.permutation(labels), np.unique(labels)
    parts = official_indices(np.concatenate([train, test]), len(test), seed)
    np.testing.assert_array_equal(parts.test, np.arange(len(train), len(train) + len(test)))
    np.testing.assert_array_equal(np.sort(np.concatenate(parts[:2])), np.arange(len(train)))
    for c, n in enumerate(np.bincount(train)):
        assert (train[parts.val] == c).sum() == max(1, round(0.1 * n))


def test_per_class_leaves_official_test_images_as_they_are():
    labels = np.concatenate([np.repeat([0, 1], 50), np.repeat([0, 1], 20)])
    parts = official_indices(labels, 40, 0, per_class=10)
    assert [len(part) for part in parts] == [18, 2, 40]
    assert max(parts.train.max(), parts.val.max()) < 100


def test_a_class_without_official_test_images_is_refused_by_name():
    with pytest.raises(UserError, match="Class 'bee' has 3 official training images and 0 test images"):
        official_indices(np.array([0, 0, 0, 1, 1, 1, 0]), 1, 0, ("ant", "bee"))


NAMES = ("ant", "bee", "cow", "dog")


@pytest.mark.parametrize(
    ("order", "chosen"),
    [
        (["dog", "ant"], ([3, 0], None)),
        ([2, 0, 1], ([2, 0, 1], None)),
        ([["cow", 0], ["bee"]], ([2, 0, 1], [2, 1])),
    ],
)
def test_an_order_names_classes_by_name_or_index_in_a_row_or_task_by_task(order, chosen):
    assert chosen_classes(order, NAMES) == chosen


@pytest.mark.parametrize(
    ("order", "told"),
    [
        (["dgo"], "no class called 'dgo'. Did you mean 'dog'"),
        ([4], "names class 4; the data have the classes 0 to 3"),
        ([-1], "names class -1"),
        (["dog", 3], "names the class 'dog' twice"),
        ([["dog"], ["dog"]], "twice"),
        ([["dog"], []], "has a task without classes"),
        ([], "has a task without classes"),
        ([["dog"], "ant"], "is one list of classes, or a list of classes for each task"),
    ],
)
def test_an_order_that_cannot_be_is_refused_in_one_sentence(order, told):
    with pytest.raises(UserError, match=told):
        chosen_classes(order, NAMES)
