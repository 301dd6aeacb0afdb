"""Files are found where a person would put them."""

from __future__ import annotations

import pytest

from snv.data import load_source
from written import write_mnist


@pytest.mark.parametrize("place", ["data_dir", "SNV_DATA", "cache"])
def test_files_are_found_in_every_place(tmp_path, monkeypatch, cache, place):
    where = cache if place == "cache" else tmp_path / "elsewhere"
    write_mnist(where / "mnist")
    if place == "SNV_DATA":
        monkeypatch.setenv("SNV_DATA", str(where))
    source = load_source("mnist", data_dir=where if place == "data_dir" else None, download=False)
    assert len(source.labels) == 60


def test_the_folder_of_a_dataset_may_be_given_itself(tmp_path):
    write_mnist(tmp_path / "fashion-mnist")
    assert load_source("fashion-mnist", data_dir=tmp_path / "fashion-mnist", download=False).n_classes == 10
