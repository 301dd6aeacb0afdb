"""The studies of the paper ask for what the paper says: its protocol, its choices, its grids."""

from __future__ import annotations

from pathlib import Path

import pytest

from snv.config import flat
from snv.learners import LEARNERS
from snv.study import expand, load_study

PAPER = Path(__file__).parents[2] / "configs" / "paper"
DATA = ("cifar100", "tiny-imagenet", "imagenet-1k")
RATES = (1e-4, 1e-3, 1e-2, 3e-2, 1e-1)
TABLES = ("imagenet", "til", "cil", "cost", "valuation")


@pytest.fixture(scope="module")
def asked() -> list[tuple[str, dict]]:
    """The place and settings of every run of the tables, first seeds only."""
    plans = [expand(load_study(PAPER / f"{name}.toml"), seeds=[0]) for name in TABLES]
    return [(job.place, flat(job.config.as_dict())) for plan in plans for job in plan.jobs]


def test_every_run_has_the_papers_network_and_training(asked):
    for place, settings in asked:
        large = settings["data.name"] == "imagenet-1k"
        assert (settings["network.name"], settings["network.width"]) == ("resnet18", 64), place
        assert settings["network.stem"] == ("7x7/2" if large else "3x3"), place
        found = tuple(
            settings[f"train.{name}"] for name in ("optimizer", "epochs", "batch_size", "patience", "schedule")
        )
        assert found == ("adam", 100 if large else 200, 128 if large else 64, 15, "constant"), place
        assert settings["data.tasks"] in ((10, 20, 50) if large else (10, 20)), place
        assert (settings["data.classes"], settings["data.size"], settings["data.split"]) == (None, None, "70/10/20")


def test_every_table_has_ten_seeds():
    for name in TABLES:
        assert load_study(PAPER / f"{name}.toml").seeds == tuple(range(10))


CHOSEN = [name for name, kind in LEARNERS.items() if kind.card.presets]


@pytest.mark.parametrize("method", CHOSEN)
@pytest.mark.parametrize("data", DATA)
def test_every_method_has_what_the_paper_chose_for_the_data(method, data, asked):
    runs = [(place, s) for place, s in asked if (s["method"], s["data.name"]) == (method, data)]
    assert runs
    for name, chosen in LEARNERS[method].card.presets[f"paper/{data}"].items():
        for place, settings in runs:
            if name != "learner.capacity" or "capacity" not in place.partition("/")[0]:  # a sweep has its own
                assert settings[name] == chosen, (place, name)


def test_methods_of_which_the_paper_prints_no_choice_have_the_rate_of_most(asked):
    for place, settings in asked:
        if settings["method"] in ("sgd", "joint", "nfl"):
            assert settings["train.lr"] == (0.001 if settings["data.name"] == "imagenet-1k" else 0.01), place


def test_buffers_are_those_of_the_paper(asked):
    for place, settings in asked:
        if settings["method"] in ("icarl", "der++", "dytox"):
            large = settings["data.name"] == "imagenet-1k" and settings["scenario"] == "cil"
            assert settings["learner.buffer"] == (20_000 if large else None), place  # None: 2,000 in CIL and 200 in TIL


def test_a_search_has_the_papers_grid():
    found: dict[tuple[str, str], set] = {}
    for job in expand(load_study(PAPER / "hyper.toml")).jobs:
        assert (job.config.data.judged_on, job.config.data.tasks) == ("validation", 1)
        for name, value in flat(job.config.as_dict()).items():
            if name.startswith("learner.") or name in ("train.lr", "train.weight_decay"):
                found.setdefault((job.config.method, name), set()).add(value)
    for (method, name), values in found.items():
        if len(values) > 1:
            assert values == set(LEARNERS[method].card.space.get(name, RATES)), (method, name)
    assert {method for (method, name), values in found.items() if name == "train.lr" and len(values) > 1} >= set(CHOSEN)


def test_sweeps_of_capacity_are_those_of_the_table():
    jobs = expand(load_study(PAPER / "til.toml"), seeds=[0]).jobs
    for method in ("snv", "wsn"):
        swept = {job.config.learner_config().capacity for job in jobs if job.config.method == method}
        assert swept == {0.03, 0.05, 0.1, 0.3, 0.5}


def test_a_run_that_two_tables_have_is_one_run():
    cil = {job.fingerprint for job in expand(load_study(PAPER / "cil.toml"), seeds=[0]).jobs}
    for name in ("cost", "valuation"):
        jobs = expand(load_study(PAPER / f"{name}.toml"), seeds=[0]).jobs
        assert {job.fingerprint for job in jobs if job.config.data.name != "imagenet-1k"} <= cil
