"""A study stands for every combination of its lists, each complete, checked and named once."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from here import GROUP, study_in

from snv.errors import UserError
from snv.learners import LEARNERS
from snv.machine.devices import Resources
from snv.study import expand, load_study

CONFIGS = Path(__file__).parents[2] / "configs"
STUDIES = [path for path in sorted(CONFIGS.glob("**/*.toml")) if "\n[groups." in path.read_text(encoding="utf-8")]


def names(folder, text: str) -> list[str]:
    return [job.name for job in expand(study_in(folder, text)).jobs]


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: str(path.relative_to(CONFIGS).with_suffix("")))
def test_every_run_of_every_study_here_is_complete_and_can_be_made(path):
    plan = expand(load_study(path))
    assert len(plan.jobs) > 1
    assert len({job.place for job in plan.jobs}) == len(plan.jobs)
    for job in plan.jobs:
        assert job.config.learner_config() is not None
        assert job.config.scenario in LEARNERS[job.config.method].card.scenarios


def test_there_are_studies_here():
    assert {"small", "mini", "ablations", "bakeoff"} <= {path.stem for path in STUDIES}


def test_a_group_is_every_combination_of_its_lists(tmp_path):
    text = """
    seeds = [3, 4]
    [groups.g]
    streams = ["stream.toml"]
    methods = ["snv", "wsn"]
    tasks = [2, 4]
    capacities = [0.1, 0.5]
    [groups.g.grid]
    train.lr = [0.1, 0.2]
    """
    jobs = expand(study_in(tmp_path, text)).jobs
    made = {
        (j.config.seed, j.config.method, j.config.data.tasks, j.config.learner["capacity"], j.config.train.lr)
        for j in jobs
    }
    assert made == set(itertools.product((3, 4), ("snv", "wsn"), (2, 4), (0.1, 0.5), (0.1, 0.2)))
    assert len(jobs) == len(made)
    assert jobs[0].place == "g/snv-til-t2-c0.1-lr-0.1-seed3"


def test_the_first_seed_of_everything_comes_before_the_second_of_anything(tmp_path):
    text = (
        "seeds = [5, 1]\n[groups.a]\nstreams = ['stream.toml']\n[groups.b]\nstreams = ['stream.toml']\nseeds = [0, 7]"
    )
    assert [job.config.seed for job in expand(study_in(tmp_path, text)).jobs] == [5, 0, 1, 7]


def test_what_a_method_cannot_do_is_left_out_and_told(tmp_path):
    text = "[groups.g]\nstreams = ['stream.toml']\nmethods = 'all'\nscenarios = ['til', 'cil']\nwithout = ['snv-til']\n"
    plan = expand(study_in(tmp_path, text))
    assert plan.skipped == ("g: pec cannot do TIL", "g: wsn cannot do CIL")
    pairs = {f"{name}-{scenario}" for name, kind in LEARNERS.items() for scenario in kind.card.scenarios}
    assert {f"{job.config.method}-{job.config.scenario}" for job in plan.jobs} == pairs - {"snv-til"}


def test_a_method_without_a_capacity_runs_once_however_many_there_are(tmp_path):
    text = "[groups.g]\nstreams = ['stream.toml']\nmethods = ['sgd', 'wsn']\ncapacities = [0.1, 0.5]\n"
    assert names(tmp_path, text) == ["sgd-til-seed0", "wsn-til-c0.1-seed0", "wsn-til-c0.5-seed0"]


def test_settings_stand_above_each_other_from_the_stream_to_the_grid(tmp_path):
    (tmp_path / "own.toml").write_text("[ewc.til]\ntrain.lr = 0.3\n[ewc]\ntrain.epochs = 5\nlearner.strength = 3\n")
    text = """
    tuned = "own.toml"
    settings = { train.lr = 0.1, train.epochs = 3, threads = 1 }
    [groups.g]
    streams = ["stream.toml"]
    methods = ["sgd", "ewc"]
    settings = { train.lr = 0.2 }
    [groups.g.own.ewc]
    learner.strength = 4
    [groups.g.variants]
    plain = {}
    long = { train.epochs = 9 }
    """
    found = {job.name: job.config for job in expand(study_in(tmp_path, text)).jobs}
    assert {name: (config.train.lr, config.train.epochs) for name, config in found.items()} == {
        "sgd-til-plain-seed0": (0.2, 3),
        "sgd-til-long-seed0": (0.2, 9),
        "ewc-til-plain-seed0": (0.3, 5),
        "ewc-til-long-seed0": (0.3, 9),
    }
    assert found["ewc-til-plain-seed0"].learner == {"strength": 4}
    assert all(config.threads == 1 and config.data.per_class == 20 for config in found.values())


def test_tuned_may_be_the_name_of_a_preset_for_all_methods_that_have_it(tmp_path):
    text = "tuned = 'paper/cifar100'\n[groups.g]\nstreams = ['stream.toml']\nmethods = ['sgd', 'ewc', 'wsn']\n"
    found = [job.config for job in expand(study_in(tmp_path, text)).jobs]
    assert [config.train.lr for config in found] == [0.001, 0.01, 0.001]
    with pytest.raises(UserError, match="Did you mean 'paper/cifar100'"):
        expand(study_in(tmp_path, text.replace("cifar100", "cifar10")))


def test_a_stream_may_say_the_method_itself(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text('method = "ewc"\nscenario = "cil"\n')
    plan = expand(study_in(tmp_path, "[groups.g]\nstreams = ['one.toml', 't*o.toml']\nseeds = [1]\n"))
    assert [(job.name, job.config.method, job.config.scenario) for job in plan.jobs] == [
        ("one-seed1", "ewc", "cil"),
        ("two-seed1", "ewc", "cil"),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("streams = ['nowhere.toml']", "There is no config file"),
        ("streams = ['nowhere-*.toml']", "There is no config file"),
        (
            "streams = ['stream.toml']\nsettings = { learner.strenght = 1 }\nmethods = ['ewc']",
            "mean 'strength'",
        ),
        ("streams = ['stream.toml']\ntasks = [2, 2]", "Two runs are called g/stream-t2-seed0"),
        ("streams = ['stream.toml']\ntuned = 'nowhere.toml'", "There is no config file"),
    ],
)
def test_what_cannot_be_made_is_refused_before_anything_runs(tmp_path, text, told):
    with pytest.raises(UserError, match=told):
        expand(study_in(tmp_path, f"[groups.g]\n{text}\n"))


def test_runs_are_chosen_by_patterns_of_their_names(tmp_path):
    plan = expand(study_in(tmp_path), seeds=[0, 1])
    assert [job.name for job in plan.only(["ewc-*"]).jobs] == ["ewc-til-seed0", "ewc-til-seed1"]
    assert [job.name for job in plan.only(["tiny/*-seed1"]).jobs] == ["sgd-til-seed1", "ewc-til-seed1"]
    assert [job.name for job in plan.only(["tiny/ewc-til"]).jobs] == ["ewc-til-seed0", "ewc-til-seed1"]
    with pytest.raises(UserError, match="There are, for example: tiny/sgd-til-seed0"):
        plan.only(["snv"])


def test_data_read_from_elsewhere_are_the_same_run(tmp_path):
    plan = expand(study_in(tmp_path))
    moved = plan.reading_from(tmp_path / "data")
    assert [job.config.data.dir for job in moved.jobs] == [str(tmp_path / "data")] * 2
    assert [job.fingerprint for job in moved.jobs] == [job.fingerprint for job in plan.jobs]


def test_what_runs_take_of_a_machine_is_a_setting_of_all_or_some_and_makes_no_other_run(tmp_path):
    text = "[settings.resources]\ncpus = 2\n" + GROUP + "own.ewc.resources.gpus = 0.25\n"
    jobs = expand(study_in(tmp_path, text)).jobs
    assert [job.config.resources for job in jobs] == [Resources(cpus=2), Resources(cpus=2, gpus=0.25)]
    assert [job.fingerprint for job in jobs] == [job.fingerprint for job in expand(study_in(tmp_path)).jobs]
