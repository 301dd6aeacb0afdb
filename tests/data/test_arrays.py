"""Arrays are a dataset, if they can be one."""

from __future__ import annotations

import numpy as np
import pytest

from snv.data import from_arrays
from snv.errors import UserError
from written import BLANK, images_of


def test_grey_images_floats_and_strings_will_do():
    source = from_arrays(np.linspace(0, 1, 6 * 4).reshape(6, 2, 2), ["b", "a"] * 3)
    assert source.shape == (1, 2, 2)
    assert source.class_names == ("a", "b")
    assert source.augmentation == "none"
    assert images_of(source).max() == 255


def test_names_can_be_given_to_labels():
    source = from_arrays(np.zeros((4, 2, 2), np.uint8), [0, 1, 1, 0], class_names=["cat", "dog"])
    assert source.class_names == ("cat", "dog")
    assert source.labels.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("images", "labels", "names", "words"),
    [
        (BLANK, [0, 1, 1], None, "4 images but 3 labels"),
        (BLANK, [0, 0, 0, 0], None, "1 class; .* at least 2"),
        (BLANK, [0.0, 1.0, 0.0, 1.0], None, "labels of arrays are float64"),
        (BLANK, [0, 1, 2, 0], ["a", "b"], "names 2 classes"),
        (BLANK, [0, 1, 1, 0], ["a", "b", "c"], "names 3 classes"),
        (BLANK.astype(np.int64), [0, 1, 0, 1], None, "images of arrays are int64"),
        (np.zeros((4, 3, 8, 8), np.uint8), [0, 1, 0, 1], None, "with 1 or 3 channels"),
        (np.zeros((0, 8, 8), np.uint8), [], None, "at least one image"),
        (np.zeros((4, 8), np.uint8), [0, 1, 0, 1], None, r"have the shape \(4, 8\)"),
        (BLANK + 2.0, [0, 1, 0, 1], None, "Image 0 of arrays has pixels from 0 to 2"),
        (
            np.where(np.arange(4)[:, None, None] == 2, np.nan, BLANK),
            [0, 1, 0, 1],
            None,
            "Image 2 of arrays .* not numbers",
        ),
    ],
)
def test_arrays_that_make_no_dataset_are_refused(images, labels, names, words):
    with pytest.raises(UserError, match=words):
        from_arrays(images, labels, names)
