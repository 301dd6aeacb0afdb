"""A task seen in a fixed space: whitening the space with the first task, and the sums of a task's classes in it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from snv.components import ClassSums
from snv.data import Split, Task
from snv.machine import ranks
from snv.networks import N_IMAGES, Body, OnnxSpace, PatchSpace
from snv.seeding import generator
from snv.shapes import Images, Labels
from snv.training import Reporter, Setting


def fit_space(space: Body, split: Split, setting: Setting, reporter: Reporter) -> None:
    """Whiten the filters, or set the scale of a pretrained network, with some images of the first task."""
    rng = generator(setting.seed, "common space images")
    rows = torch.randperm(len(split), generator=rng)[:N_IMAGES]
    if isinstance(space, PatchSpace):
        patches = [space.patches(images, rng) for images, _ in setting.prepared(split, rows)]
        with reporter.counted("common space", len(rows)):
            space.fit(torch.cat(patches))
    elif isinstance(space, OnnxSpace):
        images, _ = next(setting.prepared(split, rows))
        with reporter.counted("common space", len(images)):
            space.fit(images)


def class_sums(space: Body, task: Task, setting: Setting, reporter: Reporter) -> ClassSums:
    """Of a task's classes, over all its training images; sums are exact, so several processes may each add some."""
    sums = ClassSums.blank(len(task.block), space.n_features, setting.device)
    for images, labels in _views(task, setting, reporter):
        with reporter.counted("class sums", len(labels)):
            sums.add(space(images), labels - task.block.start)
    for part in (sums.counts, sums.sums, sums.products):
        ranks.add_up(part)
    return sums


def _views(task: Task, setting: Setting, reporter: Reporter) -> Iterator[tuple[Images, Labels]]:
    """All training images, and their mirror images where training mirrors them."""
    mirrored = setting.train.augment and setting.preprocess.augmentation != "none"
    for images, labels in setting.prepared(task.train, tell=partial(reporter.tell, "statistics"), shared=True):
        yield images, labels
        if mirrored:
            yield images.flip(3), labels
