from __future__ import annotations

import gc
from collections.abc import Iterator
from mmap import mmap
from types import FunctionType, ModuleType

import numpy as np
import pytest
import torch
from PIL import Image

from snv.data import InMemory, Source, Task, TaskStream, load_source
from snv.errors import UserError


def everything(split) -> torch.Tensor:
    return next(split.batches([torch.arange(len(split))]))[0]


def reachable(thing: object) -> Iterator[object]:
    """All objects that can be reached from ``thing`` by following references, code aside."""
    seen, waiting = set(), [thing]
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, type | ModuleType | FunctionType):
            continue
        seen.add(id(item))
        yield item
        waiting += gc.get_referents(item)


@pytest.mark.parametrize("tasks", [1, 2, 3, (3, 1, 2)])
def test_tasks_share_no_class_and_cover_all(marked, tasks):
    stream = TaskStream(marked, tasks, seed=0)
    names = [name for t in range(len(stream)) for name in stream.names(t)]
    assert sorted(names) == list("012345")
    assert [i for block in stream.blocks for i in block] == list(range(6))


@pytest.mark.parametrize("t", range(3))
def test_labels_say_which_class_of_the_stream_an_image_is(marked, t):
    task = TaskStream(marked, 3, seed=0).task(t)
    for split in (task.train, task.val, task.test):
        for image, label in zip(everything(split), split.labels.tolist(), strict=True):
            assert task.names[label - task.block.start] == str(image[0, -1, -1].item())


def test_the_same_seed_gives_the_same_tasks(marked):
    first, second = (TaskStream(marked, 3, seed=4).task(1) for _ in range(2))
    assert first.names == second.names
    assert torch.equal(first.train.labels, second.train.labels)
    assert torch.equal(everything(first.train), everything(second.train))


def test_more_tasks_than_classes_are_refused(marked):
    with pytest.raises(UserError, match="at most 6 tasks"):
        TaskStream(marked, 7, seed=0)


@pytest.mark.parametrize("n_classes", [0, 7])
def test_more_classes_than_there_are_are_refused(marked, n_classes):
    with pytest.raises(UserError, match="6 classes"):
        TaskStream(marked, 1, seed=0, n_classes=n_classes)


def test_a_stream_of_some_classes_has_only_those(marked):
    stream = TaskStream(marked, 2, seed=0, n_classes=4)
    assert [len(block) for block in stream.blocks] == [2, 2]


def test_upto_joins_the_training_data_of_all_tasks_so_far(marked):
    stream = TaskStream(marked, 3, seed=0)
    joined = stream.upto(1)
    assert len(joined.train) == sum(len(stream.task(t).train) for t in (0, 1))
    assert joined.names == stream.names(0) + stream.names(1)
    assert joined.block == range(4)
    assert joined.test is None


def test_the_test_split_alone_is_that_of_the_task(marked):
    stream = TaskStream(marked, 3, seed=0)
    assert torch.equal(everything(stream.test(2)), everything(stream.task(2).test))


def test_a_learner_gets_no_test_data(marked):
    assert TaskStream(marked, 3, seed=0).task(0).without_test().test is None


@pytest.mark.parametrize("permuted", [False, True])
def test_nothing_but_the_current_task_is_reachable_from_it(marked, permuted):
    stream = TaskStream(marked, 3, seed=0, permuted=permuted)
    task = stream.task(1)
    own = {int(name) for name in task.names}
    for item in reachable(task):
        assert not isinstance(item, Source | TaskStream | np.ndarray)
        if isinstance(item, torch.Tensor):
            assert item.untyped_storage().nbytes() == item.numel() * item.element_size()
            if item.dtype == torch.uint8:
                assert set((item % 100).unique().tolist()) <= own


def test_nothing_of_a_cached_dataset_but_the_current_task_is_reachable(tmp_path):
    for name in "abcd":
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for i in range(10):
            Image.new("RGB", (8, 8)).save(tmp_path / "pictures" / name / f"{i}.png")
    task = TaskStream(load_source(f"folder:{tmp_path / 'pictures'}", size=8), 2, seed=0).task(1)
    tensors = [item for item in reachable(task) if isinstance(item, torch.Tensor)]
    assert sum(t.untyped_storage().nbytes() for t in tensors) == 2 * 10 * (3 * 8 * 8 + 8)
    assert not any(isinstance(item, Source | TaskStream | np.ndarray | mmap) for item in reachable(task))


def test_writing_to_a_task_leaves_the_source_as_it_was(marked):
    stream = TaskStream(marked, 3, seed=0)
    before = everything(stream.task(0).train)
    stream.task(0).train.pixels.zero_()
    assert torch.equal(everything(stream.task(0).train), before)


def test_after_close_the_images_are_gone(marked):
    task = TaskStream(marked, 3, seed=0).task(0)
    running = task.train.batches([torch.arange(2)] * 2)
    next(running)
    task.close()
    assert not any(isinstance(item, torch.Tensor) and item.dtype == torch.uint8 for item in reachable(task))
    with pytest.raises(RuntimeError, match="gone"):
        next(running)
    with pytest.raises(RuntimeError, match="gone"):
        everything(task.test)


def test_permuted_tasks_have_all_classes_and_the_same_pixels_elsewhere():
    digits = load_source("permuted-digits")
    stream = TaskStream(digits, 3, seed=0, permuted=True)
    assert [len(block) for block in stream.blocks] == [10, 10, 10]
    plain, first, second = (everything(stream.task(t).train) for t in range(3))
    assert torch.equal(plain, everything(TaskStream(digits, 1, seed=0).task(0).train))
    assert not torch.equal(first, second)
    assert torch.equal(first.flatten(1).sort().values, plain.flatten(1).sort().values)


def test_permuted_streams_of_no_tasks_are_refused(marked):
    with pytest.raises(UserError, match="at least one task"):
        TaskStream(marked, 0, seed=0, permuted=True)


def test_batches_come_in_the_order_asked_for():
    split = InMemory(torch.arange(5, dtype=torch.uint8).view(5, 1, 1, 1), torch.arange(5))
    order = [torch.tensor([3, 1]), torch.tensor([4])]
    assert [(x.flatten().tolist(), y.tolist()) for x, y in split.batches(order)] == [([3, 1], [3, 1]), ([4], [4])]
    assert Task(0, range(5), tuple("abcde"), split, split, None).test is None


def test_a_stream_judged_on_validation_images_has_no_test_images(marked):
    plain, judged = (TaskStream(marked, 3, seed=0, judged_on=on) for on in ("test", "validation"))
    for t in range(3):
        torch.testing.assert_close(everything(judged.test(t)), everything(plain.task(t).val))
        torch.testing.assert_close(everything(judged.task(t).test), everything(plain.task(t).val))
