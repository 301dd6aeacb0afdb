from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from mmap import mmap
from types import FunctionType, ModuleType

import numpy as np
import pytest
import torch
from PIL import Image

from snv.data import InMemory, Source, Task, TaskStream, from_arrays, load_source
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


def test_tasks_come_in_the_order_asked_for_and_classes_not_named_stay_out(marked):
    stream = TaskStream(marked, 2, seed=0, order=["5", "0", 3])
    assert [stream.names(t) for t in range(2)] == [("5", "0"), ("3",)]
    stream = TaskStream(marked, 5, seed=0, order=[["5"], ["0", "3"]])
    assert [stream.names(t) for t in range(2)] == [("5",), ("0", "3")]
    task = stream.task(1)
    for image, label in zip(everything(task.train), task.train.labels.tolist(), strict=True):
        assert task.names[label - task.block.start] == str(image[0, -1, -1].item())


def test_an_order_moves_no_image_to_another_split(marked):
    """Class 4 is the first of one stream and the last of another."""
    first, last = TaskStream(marked, 6, seed=0, order=[4, 0, 1, 2, 3, 5]), TaskStream(marked, 2, 0, order=[[0], [4]])
    assert torch.equal(everything(first.task(0).train), everything(last.task(1).train))


def test_an_order_says_which_classes_are_used_so_nothing_else_may(marked):
    with pytest.raises(UserError, match=r"Leave data\.classes out"):
        TaskStream(marked, 2, seed=0, order=[1, 2], n_classes=2)
    with pytest.raises(UserError, match="Every task of a permuted stream has all classes"):
        TaskStream(marked, 2, seed=0, order=[[1], [2]], permuted=True)
    permuted = TaskStream(load_source("digits"), 2, seed=0, order=[9, 8], permuted=True)
    assert [permuted.names(t) for t in range(2)] == [("9", "8"), ("9", "8")]


def test_data_without_official_test_images_refuse_that_split(marked):
    with pytest.raises(UserError, match=r"comes without test images of its own\. Leave data\.split at 70/10/20"):
        TaskStream(marked, 2, seed=0, split="official").check()


def pictures_in(thing: object) -> set[bytes]:
    """Every image that can be reached from ``thing``, as bytes."""
    arrays = [np.asarray(item) for item in reachable(thing) if isinstance(item, np.ndarray | torch.Tensor)]
    return {image.tobytes() for array in arrays if array.ndim == 4 for image in array}


@pytest.fixture
def numbered() -> Source:
    """Eight classes of 20 images, no two images alike."""
    values = np.arange(160, dtype=np.uint8)
    return from_arrays(np.broadcast_to(values[:, None, None], (160, 3, 3)).copy(), np.arange(160) % 8)


def wanted_of(stream: TaskStream, tasks: range) -> set[bytes]:
    """Training and validation images of these tasks."""
    splits = [split for t in tasks for split in (stream.task(t).train, stream.task(t).val)]
    return {np.asarray(image).tobytes() for split in splits for image in everything(split)}


def test_a_sealed_stream_holds_training_and_validation_images_of_its_tasks_and_no_others(numbered):
    stream = TaskStream(numbered, 4, seed=1)
    assert len(pictures_in(stream)) == 160
    for sealed, tasks in ((stream.first().sealed(), range(1)), (stream.half("first").sealed(), range(2))):
        assert pictures_in(sealed) == wanted_of(stream, tasks)


def test_a_sealed_stream_has_the_same_tasks_judged_on_validation_images(numbered):
    stream = TaskStream(numbered, 4, seed=1)
    sealed = stream.half("first").sealed()
    assert [sealed.names(t) for t in range(len(sealed))] == [stream.names(0), stream.names(1)]
    for t in range(2):
        mine, theirs = sealed.task(t), stream.task(t)
        for split in ("train", "val"):
            assert torch.equal(everything(getattr(mine, split)), everything(getattr(theirs, split)))
            assert torch.equal(getattr(mine, split).labels, getattr(theirs, split).labels)
        assert torch.equal(everything(sealed.test(t)), everything(theirs.val))


def test_a_sealed_stream_can_be_handed_to_another_process(numbered):
    sealed = TaskStream(numbered, 4, seed=1).first().sealed()
    there = pickle.loads(pickle.dumps(sealed))
    assert pictures_in(there) == pictures_in(sealed)
    assert torch.equal(everything(there.task(0).train), everything(sealed.task(0).train))


def test_the_halves_of_a_stream_share_no_class_and_are_all_of_it(numbered):
    stream = TaskStream(numbered, (1, 1, 2, 2, 1, 1), seed=1)
    first, second = stream.half("first"), stream.half("second")
    assert [len(block) for half in (first, second) for block in half.blocks] == [1, 1, 2, 2, 1, 1]
    assert first.blocks[-1].stop == second.blocks[-1].stop == 4
    names = [name for half in (first, second) for t in range(len(half)) for name in half.names(t)]
    assert names == [name for t in range(6) for name in stream.names(t)]
    assert second.blocks[0].start == 0
    assert len(second.task(0).test) == len(stream.task(3).test)


def test_the_first_task_alone_is_still_the_first_of_many_to_a_learner(numbered):
    stream = TaskStream(numbered, 4, seed=1)
    assert (len(stream.first()), stream.first().n_told) == (1, 4)
    assert stream.half("second").n_told == 2


def test_a_stream_without_halves_is_told_so(numbered):
    with pytest.raises(UserError, match="there are 3"):
        TaskStream(numbered, 3, seed=0).half("first")
    with pytest.raises(UserError, match="in common"):
        TaskStream(numbered, 4, seed=0, permuted=True).half("first")
    assert len(TaskStream(numbered, 4, seed=0, permuted=True).first().sealed().task(0).train) == 14 * 8
