"""A study at full size is proven in small: the same methods, settings and networks, on made-up images."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from here import Here, study_in

from snv.study import expand, load_study, smoke
from snv.study.smoke import BATCH, in_small, made_up

CONFIGS = Path(__file__).parents[2] / "configs"
FULL = sorted((CONFIGS / "paper").glob("*.toml"))


def test_made_up_images_have_the_shape_of_the_data_set_and_ten_classes(tmp_path):
    with np.load(made_up((3, 64, 64), tmp_path)) as file:
        assert file["images"].shape == (50, 64, 64, 3)
        assert file["images"].dtype == np.uint8
        assert np.bincount(file["labels"]).tolist() == [5] * 10
    with np.load(made_up((1, 8, 8), tmp_path)) as file:
        assert file["images"].shape == (50, 8, 8, 1)


def test_seeds_and_numbers_of_tasks_are_proven_once_and_settings_each(tmp_path):
    text = """
    seeds = [0, 1, 2]
    [groups.g]
    streams = ["stream.toml"]
    methods = ["sgd", "ewc"]
    tasks = [2, 4]
    [groups.g.own.ewc]
    learner.strength = 3
    [groups.h]
    streams = ["stream.toml"]
    methods = ["ewc"]
    """
    small = in_small(expand(study_in(tmp_path, text)).jobs, tmp_path)
    assert [job.place for job in small] == ["g/sgd-til-t2-seed0", "g/ewc-til-t2-seed0", "h/ewc-til-seed0"]
    assert [job.config.learner.get("strength") for job in small] == [None, 3, None]


def test_a_smoke_test_takes_two_steps_in_each_of_two_tasks(tmp_path):
    found = smoke(study_in(tmp_path), tmp_path / "smoke", workers=Here())
    assert {standing.state for standing in found} == {"done"}
    for standing in found:
        stored = json.loads(standing.record.read_text())
        assert (stored["tasks"], stored["tasks_done"], stored["config"]["train"]["epochs"]) == (2, 2, 1)
        assert (standing.directory / "log.jsonl").read_text().count("\n") == 2
        assert 15 / BATCH <= 2


def test_what_a_study_cannot_do_at_full_size_is_found_in_small(tmp_path):
    text = "[groups.g]\nstreams = ['stream.toml']\nsettings = { network.width = 8 }\n"
    found = smoke(study_in(tmp_path, text), tmp_path / "smoke", workers=Here())
    assert found[0].state == "failed"
    assert "mlp has no option 'width'" in found[0].reason


@pytest.mark.parametrize("run", ["snv-til-t10-seed0", "wsn-til-t10-seed0"])
def test_a_few_runs_of_the_paper_train_at_full_size(run, tmp_path):
    found = smoke(load_study(CONFIGS / "paper" / "til.toml"), tmp_path, only=[f"til-cifar100/{run}"], workers=Here())
    assert [(standing.state, standing.reason) for standing in found] == [("done", "")]
    stored = json.loads(found[0].record.read_text())
    assert (stored["config"]["network"]["width"], stored["config"]["data"]["tasks"]) == (64, 2)
    assert stored["cost"]["parameters"] > 5_000_000


def test_there_is_a_study_for_every_table_and_the_figures_of_the_paper():
    tables = {"imagenet", "til", "cil", "cost", "valuation", "estimators", "hyper", "not-working"}
    assert {path.stem for path in FULL} == tables | {"figures"}


@pytest.mark.slow
@pytest.mark.parametrize("path", FULL, ids=lambda path: path.stem)
def test_every_run_of_the_paper_trains_at_full_size(path, tmp_path):
    found = smoke(load_study(path), tmp_path, jobs=1)
    assert {standing.job.place: standing.reason for standing in found if standing.state != "done"} == {}
