from __future__ import annotations

import pytest
from table_records import a_result, with_final

from snv.errors import UserError
from snv.report.settings import check_one_stream, description, differing, has_stream, named, settings_of


def test_settings_are_flat_and_complete():
    told = settings_of(a_result("ewc", strength=3.0))
    assert (told["learner.strength"], told["learner.decay"], told["train.lr"]) == (3.0, 1.0, 0.004)
    assert {"seed", "threads", "method", "scenario"}.isdisjoint(told)


def test_a_setting_that_an_older_run_does_not_name_is_what_it_did_then():
    assert settings_of(a_result("snv"))["learner.common"] == "none"
    assert settings_of(a_result("snv", common="patches"))["learner.common"] == "patches"
    assert settings_of(a_result("snv"))["learner.outside"] == "silent"


def test_what_differs_is_found_among_what_all_name():
    one, other = {"a": 1, "b": 2, "c": None}, {"a": 1, "b": 3, "d": 4}
    assert differing([one, other]) == ["b"]
    assert differing([]) == []
    assert named(one, ["b", "c"]) == "b=2, c=none"


def test_runs_of_other_data_or_networks_are_refused_and_other_training_is_not():
    check_one_stream([a_result("ewc"), a_result("ewc", strength=3.0)])
    check_one_stream([])
    with pytest.raises(UserError, match=r"data\.classes is None in .* and 60 in"):
        check_one_stream([a_result(), a_result(data={"classes": 60})])


@pytest.mark.parametrize(
    ("data", "is_one"),
    [
        ({}, True),
        ({"classes": 100}, True),
        ({"classes": 50}, False),
        ({"size": 16}, False),
        ({"size": 32}, True),
        ({"per_class": 10}, False),
        ({"name": "cifar10"}, False),
    ],
)
def test_a_stream_of_the_paper_has_all_classes_and_images_at_their_own_size(data, is_one):
    result = a_result(accuracy=with_final(*10 * [50.0]), data=data)
    assert has_stream(result, "cifar100", 10) == is_one
    assert not has_stream(result, "cifar100", 20)


def test_runs_are_described_by_what_they_share():
    assert description([a_result(), a_result("ewc")]) == "resnet18 of width 16, 20 epochs a task"
    assert description([]) == ""
