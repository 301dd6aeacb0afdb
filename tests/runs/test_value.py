"""A run's network as it is valued: the network that answered the task, at that moment."""

from __future__ import annotations

import torch

from snv.config import load_config
from snv.networks import norm_state
from snv.runs import run
from snv.runs.value import _moment, _restore, open_run

SETTINGS = ["method=snv", "data.tasks=2", "data.classes=4", "data.per_class=40", "train.epochs=2", "network.width=4"]


def test_a_task_of_snv_is_valued_with_its_own_norm_layers_whatever_came_later(tmp_path):
    run(load_config(None, SETTINGS), tmp_path)
    opened = open_run(tmp_path, None, lambda *_: None)
    _restore(opened.learner, tmp_path, 2)
    for t in (0, 1):
        moment = _moment(opened, opened.stream.task(t), t + 1)
        own = opened.learner.specialists.subnetworks[t].norm
        found = norm_state(moment.model.body)
        assert all(torch.equal(found[name], value) for name, value in own.items())
    first, second = (subnetwork.norm for subnetwork in opened.learner.specialists.subnetworks)
    assert any(not torch.equal(first[name], second[name]) for name in first)
