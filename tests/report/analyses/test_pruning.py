from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

from snv.config import load_config
from snv.errors import UserError
from snv.files import load_state, read_json
from snv.report.analyses.finding import load_finding
from snv.report.analyses.pruning import Pruning, cliff, prunable, pruned, pruning, without_common
from snv.runs import RunDirectory, load_record, open_run, run

WEIGHTS = {
    "conv.weight": torch.tensor([[[[3.0, -0.1]]], [[[0.2, -4.0]]]]),
    "norm.weight": torch.tensor([0.01, 0.01]),
    "fc.weight": torch.tensor([[0.15, -5.0], [0.3, 6.0]]),
    "fc.bias": torch.tensor([0.0, 0.001]),
}

SMALL = ["data.tasks=2", "data.classes=4", "data.per_class=40", "train.epochs=2", "network.name=mlp", "threads=1"]


def test_the_smallest_weights_of_all_layers_together_go_first_and_nothing_else_changes():
    found = pruned(WEIGHTS, 0.5)
    assert found["conv.weight"].flatten().tolist() == [3, 0, 0, -4]
    assert found["fc.weight"].tolist() == [[0, -5], [0, 6]]
    assert found["norm.weight"] is WEIGHTS["norm.weight"] and found["fc.bias"] is WEIGHTS["fc.bias"]
    assert WEIGHTS["conv.weight"].flatten()[1] == pytest.approx(-0.1), "the original stays as it is"


def test_as_many_weights_go_as_the_share_says_also_among_equal_ones():
    equal = {"fc.weight": torch.ones(7, 3)}
    for share in (0.0, 0.1, 0.5, 0.9):
        assert int((pruned(equal, share)["fc.weight"] == 0).sum()) == round(21 * share)


@pytest.mark.parametrize(
    ("acc", "expected"), [((90, 85, 80, 79, 90), 0.3), ((90, 80, 80, 80, 80), None), ((90, 79, 90, 90, 90), 0.1)]
)
def test_the_cliff_is_the_first_share_that_costs_more_than_the_drop(acc, expected):
    assert cliff((0.0, 0.1, 0.2, 0.3, 0.4), acc, 10) == expected


def test_with_nothing_removed_the_accuracies_are_those_of_the_record(snv_run, sgd_run):
    for path in (snv_run, sgd_run):
        found = pruning(path, shares=(0, 0.9))
        assert list(found.accuracy[0]) == load_record(path).accuracy[-1].tolist()
        assert found.acc[0] == pytest.approx(load_record(path).metrics["ACC"])


def state_of(path):
    return load_state(RunDirectory(path).task_path(2))["learner"]


def opened(path):
    """The learner and the tasks of a finished run."""
    found = open_run(path, None, lambda *_: None)
    found.learner.load_state_dict(state_of(path))
    return found.learner, found.stream


def images_of(learner, stream, t):
    """The test images of a task, and their labels."""
    parts = list(learner.setting.prepared(stream.test(t)))
    return torch.cat([images for images, _ in parts]), torch.cat([labels for _, labels in parts])


def test_specialists_also_answer_without_the_common_space(snv_run, sgd_run):
    found = pruning(snv_run, shares=(0, 0.99))
    learner, stream = opened(snv_run)
    for t in range(2):
        images, labels = images_of(learner, stream, t)
        own = learner.specialists.answer(images, t)[1].argmax(1) + stream.blocks[t].start == labels
        assert found.alone[0][t] == pytest.approx(100 * own.double().mean().item())
    assert np.mean(found.alone[1]) < np.mean(found.alone[0])
    assert pruning(sgd_run, shares=(0,)).alone is None


def test_without_the_common_space_the_most_confident_specialist_answers_if_the_task_is_not_known(tmp_path):
    run(load_config(None, [*SMALL, "method=snv", "scenario=cil"]), tmp_path)
    found = pruning(tmp_path, shares=(0,))
    learner, stream = opened(tmp_path)
    images, labels = images_of(learner, stream, 0)
    sure = torch.cat([learner.specialists.answer(images, t)[1].softmax(1) for t in range(2)], dim=1)
    assert found.alone[0][0] == pytest.approx(100 * (sure.argmax(1) == labels).double().mean().item())
    with without_common(learner):
        assert learner.specialists.common is None
    assert learner.specialists.common is not None and learner.config.rule == "combined"


def test_what_was_found_is_read_back_and_told(snv_run, tmp_path):
    found = pruning(snv_run, shares=(0, 0.5))
    found.save(tmp_path)
    assert load_finding(Pruning, tmp_path) == found
    shown = found.shown()
    assert [row[0] for row in shown.rows] == ["0 %", "50 %"]
    network = state_of(snv_run)["network"]
    weights = sum(network[name].numel() for name in prunable(network))
    assert found.weights == weights and f"{weights:,}" in shown.title


@pytest.mark.parametrize("shares", [(), (0.1, 0.2), (0, 0.5, 0.5), (0, 1.0)])
def test_shares_begin_with_nothing_and_rise(sgd_run, shares):
    with pytest.raises(UserError, match="shares begin with 0 and rise"):
        pruning(sgd_run, shares=shares)


def test_an_unfinished_run_is_refused(sgd_run, tmp_path):
    shutil.copytree(sgd_run, tmp_path / "run")
    stored = read_json(tmp_path / "run" / "record.json")
    (tmp_path / "run" / "record.json").write_text(json.dumps(stored | {"tasks_done": 1, "status": "unfinished"}))
    with pytest.raises(UserError, match="has learned 1 of 2 tasks"):
        pruning(tmp_path / "run")
