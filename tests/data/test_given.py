"""Arrays and datasets become sources."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, Subset, TensorDataset

from snv.data import TaskStream, as_source, load_source
from snv.errors import UserError
from written import images_of

RNG = np.random.default_rng(0)
GREY, COLOUR = RNG.integers(0, 256, (30, 6, 5), dtype=np.uint8), RNG.integers(0, 256, (30, 6, 5, 3), dtype=np.uint8)
LABELS = np.arange(30) % 3


class Named(Dataset):
    classes = ("ant", "bee", "cow")

    def __getitem__(self, i):
        return torch.from_numpy(COLOUR[i]).permute(2, 0, 1), int(LABELS[i])

    def __len__(self):
        return 30


@pytest.mark.parametrize(
    "images",
    [
        COLOUR,
        COLOUR.transpose(0, 3, 1, 2),
        torch.from_numpy(COLOUR).permute(0, 3, 1, 2),
        COLOUR.astype(np.float32) / 255,
        torch.from_numpy(COLOUR).permute(0, 3, 1, 2) / 255,
    ],
    ids=["array", "channels first", "tensor", "floats", "float tensor"],
)
def test_a_pair_of_arrays_is_a_source_whatever_their_layout(images):
    source = as_source((images, torch.from_numpy(LABELS)))
    assert source.shape == (3, 6, 5)
    np.testing.assert_array_equal(images_of(source), COLOUR.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(source.labels, LABELS)


def test_a_dataset_is_read_item_by_item_with_the_names_it_has():
    source = as_source(Named())
    np.testing.assert_array_equal(images_of(source), COLOUR.transpose(0, 3, 1, 2))
    assert (source.class_names, source.name) == (("ant", "bee", "cow"), "Named")
    assert len(TaskStream(source, (2, 1), 0)) == 2


def test_a_dataset_without_names_or_without_all_its_classes_has_labels_for_names():
    grey = as_source(TensorDataset(torch.from_numpy(GREY)[:, None], torch.from_numpy(LABELS)))
    assert (grey.shape, grey.class_names) == ((1, 6, 5), ("0", "1", "2"))
    some = Subset(Named(), [i for i in range(30) if LABELS[i] != 1])
    assert as_source(some).class_names == ("0", "2")


def test_a_source_is_itself():
    source = load_source("digits")
    assert as_source(source) is source


class Of(list):
    """A list that is taken for a dataset."""


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (3, "with a length; got int"),
        (Of(), "Of is empty"),
        (Of([GREY[0]]), "Item 0 of Of is no pair"),
        (Of([(GREY[0], 0), (GREY[1][:4], 1)]), r"Image 1 of Of has the shape \(4, 5\)"),
        (Of([(GREY[0] * 1.0, 0)]), "Image 0 of Of has pixels from"),
        (Of([(GREY[0].astype(np.int64), 0)]), r"is int64; expected uint8, or floats in \[0, 1\]"),
    ],
    ids=["a number", "empty", "no pair", "two sizes", "beyond 1", "integers"],
)
def test_anything_else_is_refused_in_one_sentence(data, told):
    with pytest.raises(UserError, match=told):
        as_source(data)
