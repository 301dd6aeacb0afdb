"""What SNV keeps of a task's images before they are gone, so that tasks can be told apart and opinions be joined."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

from snv.data import Task
from snv.learners.snv_config import ONNX, SNVConfig
from snv.learners.space import class_sums, fit_space
from snv.networks import Body, OnnxSpace, PatchSpace, read_pretrained
from snv.seeding import generator
from snv.shapes import Features, Images
from snv.subnetworks import Common, Specialists, measure, responses, sample_of_all
from snv.training import Reporter, Setting

N_MEASURED = 1500
"""Training images from which a task's statistics for `snv.subnetworks.rules` are taken."""


def common_space(config: SNVConfig, setting: Setting) -> Common | None:
    """The space all classes are compared in, if there is one."""
    if config.common == "none":
        return None
    preprocess = setting.preprocess
    space: Body = PatchSpace(preprocess.shape, setting.seed, directions=config.directions)
    if config.common.startswith(ONNX):
        space = OnnxSpace(read_pretrained(config.common.removeprefix(ONNX)), preprocess.mean, preprocess.std)
    return Common(space.to(setting.device), open_answers=setting.scenario == "cil", separable=False)


def add_to_common(
    specialists: Specialists,
    task: Task,
    setting: Setting,
    reporter: Reporter,
    shrunk: Callable[[Images], Images] = lambda images: images,
) -> None:
    """The task's classes in the common space, and how much its opinion and the specialist's are worth.

    ``shrunk`` makes of the images, as ``setting`` prepares them, what the specialists take.
    """
    common = specialists.common
    assert common is not None
    if not common.tasks:
        fit_space(common.space, task.train, setting, reporter)
    sums = class_sums(common.space, task, setting, reporter)
    labels = task.val.labels.to(setting.device) - task.block.start

    def validation() -> Iterator[tuple[Images, Features]]:
        return ((shrunk(images), common.features(images)) for images, _ in setting.prepared(task.val))

    with reporter.counted(f"opinions {task.id}", len(labels)):
        specialists.add_common(sums, validation, labels)


def add_statistics(specialists: Specialists, task: Task, setting: Setting, reporter: Reporter) -> None:
    """Class means and covariances in the features of the task's own specialist and all before it."""
    rng = generator(setting.seed, "measured images", task.id)
    rows = sample_of_all(task.train.labels, torch.randperm(len(task.train), generator=rng), N_MEASURED)
    batches = setting.prepared(task.train, rows, tell=partial(reporter.tell, "statistics"))
    features, logits = responses(specialists, (images for images, _ in batches))
    labels = task.train.labels[rows].to(setting.device) - task.block.start
    with reporter.counted(f"statistics {task.id}", len(labels)):
        specialists.add_statistics(measure(labels, features, logits, len(task.block)))
