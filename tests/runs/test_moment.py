"""A run's network as it is valued: the network that answered the task, at that moment."""

from __future__ import annotations

import torch

from snv.config import load_config
from snv.networks import norm_state
from snv.runs import moment_after, open_run, run
from snv.runs.prepare import restore

SETTINGS = ["method=snv", "data.tasks=2", "data.classes=4", "data.per_class=40", "train.epochs=2", "network.width=4"]


def test_a_task_of_snv_is_valued_with_its_own_norm_layers_whatever_came_later(tmp_path):
    run(load_config(None, SETTINGS), tmp_path)
    learner = open_run(tmp_path, None, lambda *_: None).learner
    restore(learner, tmp_path, 2)
    first, second = (subnetwork.norm for subnetwork in learner.specialists.subnetworks)
    for t, own in ((1, first), (2, second)):
        found = norm_state(moment_after(tmp_path, t, 2, None, lambda *_: None).model.body)
        assert all(torch.equal(found[name], value) for name, value in own.items())
    assert any(not torch.equal(first[name], second[name]) for name in first)
