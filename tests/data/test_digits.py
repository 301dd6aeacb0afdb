"""The digits in the package are real ones."""

from __future__ import annotations

import numpy as np
import pytest

from snv.data import load_source
from written import images_of


def test_the_embedded_digits_are_those_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.datasets", reason="scikit-learn is the reference and is not installed")
    digits, source = sklearn.load_digits(), load_source("digits")
    np.testing.assert_array_equal(images_of(source)[:, 0], np.rint(digits.images * 255 / 16))
    np.testing.assert_array_equal(source.labels, digits.target)


def test_digits_are_standardised_by_their_own_mean_and_deviation():
    source = load_source("digits")
    assert source.shape == (1, 8, 8)
    pixels = images_of(source) / 255
    np.testing.assert_allclose([pixels.mean(), pixels.std()], [*source.mean, *source.std], atol=1e-4)
