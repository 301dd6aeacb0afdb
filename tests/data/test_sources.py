"""The catalogue of datasets answers to every name, and refuses what it cannot do."""

from __future__ import annotations

import pytest

from snv.data import SOURCES, is_permuted, load_source
from snv.errors import UserError


def test_an_unknown_name_is_answered_with_the_nearest_and_the_whole_list():
    with pytest.raises(UserError, match=r"Did you mean 'cifar100'\? Known: digits, .*npz:PATH"):
        load_source("cifar-100")


@pytest.mark.parametrize("name", ["folder", "folder:", "npz"])
def test_a_folder_without_a_path_is_asked_for_one(name):
    with pytest.raises(UserError, match="PATH"):
        load_source(name)


def test_the_catalogue_says_which_streams_are_permuted():
    assert [name for name in SOURCES if is_permuted(name)] == ["permuted-digits", "permuted-mnist"]
    assert not is_permuted("folder:somewhere")


@pytest.mark.parametrize(("option", "value"), [("size", 0), ("size", 10**6), ("workers", -1)])
def test_impossible_options_are_refused(option, value):
    with pytest.raises(UserError, match=f"{option} is"):
        load_source("digits", **{option: value})


@pytest.mark.parametrize("name", ["digits", "mnist", "cifar10"])
def test_images_of_one_size_are_not_resized(name):
    with pytest.raises(UserError, match="Leave size out"):
        load_source(name, size=48, download=False)
