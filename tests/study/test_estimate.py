"""An estimate is in proportion to the work there is, and says where it is rough."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from snv.config import load_config
from snv.data import SOURCES, load_source
from snv.study import Estimates, Ledger
from snv.study.estimate import n_tasks, shape_of, work
from snv.study.ledger import Kept

RESULTS = Path(__file__).parents[2] / "results" / "mini"


def config(*overrides: str):
    return load_config(None, ["data.name=digits", "train.epochs=10", *overrides])


def kept(asked, seconds: float, size: int = 1000) -> Kept:
    return Kept(
        Path("r.json"), asked, {"seconds": {"train": seconds / 2, "evaluate": seconds / 2}, "bytes_on_disk": size}
    )


@pytest.mark.parametrize(
    ("change", "factor"),
    [("train.epochs=30", 3), ("data.classes=5", 0.5), ("data.per_class=90", 0.5), ("data.name=permuted-digits", 5)],
)
def test_twice_the_images_or_epochs_are_twice_the_work(change, factor):
    assert work(config(change)) == pytest.approx(factor * work(config()), rel=0.01)


def test_joint_after_every_task_sees_the_first_task_again_and_again():
    last, every = config("method=joint", "learner.when=last"), config("method=joint")
    assert work(every) == pytest.approx(3 * work(last))  # 1 + 2 + … + 5 tasks instead of 5


def test_work_counts_the_operations_of_the_network():
    small, large = (work(config("data.name=cifar100", f"network.width={width}")) for width in (8, 16))
    assert 3 < large / small < 4  # the first layer grows with the width, all others with its square


def test_the_number_of_images_is_that_of_the_data():
    assert SOURCES["digits"].images == len(load_source("digits").labels)
    assert shape_of(config()) == load_source("digits").shape
    assert shape_of(config("data.name=tiny-imagenet", "data.size=32")) == (3, 32, 32)


def test_a_run_of_the_same_method_on_the_same_stream_is_scaled():
    guess = Estimates([kept(config(), 20.0), kept(config("seed=1"), 30.0)]).of(config("train.epochs=20", "seed=7"))
    assert (guess.seconds, guess.rough) == (pytest.approx(50.0), False)


def test_the_same_scenario_counts_more_than_another_one():
    known = [kept(config(), 20.0), kept(config("scenario=cil"), 80.0)]
    assert Estimates(known).of(config("scenario=cil", "seed=1")).seconds == pytest.approx(80.0)
    assert Estimates(known[:1]).of(config("scenario=cil")).seconds == pytest.approx(20.0)


def test_other_methods_and_other_streams_are_rough():
    known = Estimates([kept(config(), 20.0)])
    assert known.of(config("method=lwf")).rough
    assert known.of(config("data.name=mnist")).rough
    assert known.of(config("method=lwf")).seconds == pytest.approx(20.0)


def test_without_any_run_the_machine_is_asked():
    guess = Estimates([]).of(config())
    assert guess.rough
    assert guess.seconds is not None
    assert guess.seconds > 0


def test_of_unknown_images_nobody_knows_how_long_they_take():
    guess = Estimates([kept(config(), 20.0)]).of(config("data.name=folder:somewhere", "network.width=8"))
    assert guess.seconds is None


def test_disk_is_a_checkpoint_per_task_or_the_last_one():
    known = Estimates([kept(config(), 20.0, size=1000)])
    assert known.of(config("keep=last")).bytes == 1000
    assert known.of(config("keep=all")).bytes == 5000
    assert n_tasks(config("data.tasks=[3, 7]")) == 2


def test_records_here_predict_each_other_within_a_factor_of_three():
    records = [one for one in Ledger(RESULTS, RESULTS).kept.values() if one.config.seed < 3]
    sgd = [one for one in records if one.config.method == "sgd" and one.config.scenario == "til"]
    assert len(sgd) == 3
    for one in sgd:
        others = [other for other in sgd if other is not one]
        guess = Estimates(others).of(dataclasses.replace(one.config, seed=9))
        assert 1 / 3 < guess.seconds / sum(one.cost["seconds"].values()) < 3
