"""Images made ready for a network."""

from __future__ import annotations

import dataclasses

import torch
from toy import make, toy_stream

from snv.seeding import generator


def test_prepared_images_are_those_of_the_split_in_order_however_they_are_batched():
    stream = toy_stream()
    setting, split = make("sgd", "til", stream).setting, stream.task(1).train
    images, labels = (torch.cat(part) for part in zip(*setting.prepared(split), strict=True))
    assert torch.equal(labels, split.labels)
    rows = torch.tensor([5, 0, 3])
    some = list(setting.prepared(split, rows, batch=2))
    assert [len(part) for part, _ in some] == [2, 1]
    assert torch.equal(torch.cat([part for part, _ in some]), images[rows])


def test_how_many_have_passed_is_told_from_none_to_all():
    stream, passed = toy_stream(), []
    setting, split = make("sgd", "til", stream).setting, stream.task(0).train
    list(setting.prepared(split, batch=10, tell=lambda done, total: passed.append((done, total))))
    assert passed[0] == (0, len(split)) and passed[-1] == (len(split), len(split))
    assert passed == sorted(passed)


def test_images_of_a_step_are_augmented_only_if_its_settings_say_so():
    stream = toy_stream()
    setting, pixels = make("sgd", "til", stream).setting, stream.task(0).train.pixels[:9]
    photographs = dataclasses.replace(setting.preprocess, augmentation="crop-flip")
    setting = dataclasses.replace(setting, preprocess=photographs)
    augmented, plain = (
        setting.augmented(pixels, dataclasses.replace(setting.train, augment=augment), generator(0, "augment"))
        for augment in (True, False)
    )
    assert torch.equal(augmented, photographs(pixels, "cpu", generator(0, "augment")))
    assert torch.equal(plain, photographs(pixels, "cpu")) and not torch.equal(plain, augmented)
