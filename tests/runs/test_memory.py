"""The memory of a run is its own."""

from __future__ import annotations

import torch
from test_meter import NETWORKS, small_run


def test_the_memory_of_a_run_is_not_that_of_the_process_before_it(tmp_path):
    first = small_run(tmp_path / "first", "sgd", "til", *NETWORKS["mlp"]).cost
    torch.ones(400 * 2**20, dtype=torch.uint8)  # gone at once
    second = small_run(tmp_path / "second", "sgd", "til", *NETWORKS["mlp"]).cost
    if second["peak_of"] == "run":
        assert second["peak_bytes"] < first["peak_bytes"] + 200 * 2**20
    else:
        assert second["peak_of"] == "process"
        assert second["peak_bytes"] >= 400 * 2**20
