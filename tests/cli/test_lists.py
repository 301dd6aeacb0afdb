"""`snv list`: what exists and what it can do."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize("kind", ["methods", "spaces", "datasets", "networks", "estimators"])
def test_lists_are_for_people_and_machines(cli, kind):
    rows = json.loads(cli("list", kind, "--json").out)
    assert all(row["name"] for row in rows)
    assert rows[0]["name"] in cli("list", kind).out


def test_the_list_of_methods_says_what_each_can_do(cli):
    rows = {row["name"]: row for row in json.loads(cli("list", "methods", "--json").out)}
    assert rows["joint"]["memory"].startswith("all training")
    assert rows["sgd"]["scenarios"] == ["til", "cil"]


def test_the_list_of_estimators_says_what_each_promises_and_with_which_settings(cli):
    from snv.learners.snv_config import SNVConfig
    from snv.valuation import ESTIMATORS

    rows = {row["name"]: row for row in json.loads(cli("list", "estimators", "--json").out)}
    for name, estimator in ESTIMATORS.items():
        assert rows[name]["promise"] == estimator.promise
        assert rows[name]["certifies"] == estimator.certifies
    assert rows["gradient"]["needs_gradient"]
    assert rows["gradient"]["settings"]["draws"] == 48
    assert not rows["montecarlo"]["needs_gradient"]
    assert rows["montecarlo"]["unbiased"]
    assert rows["taylor"]["needs_gradient"]
    assert rows["activation"]["promise"].startswith("The mean size of a neuron's response")
    for name in rows:
        SNVConfig(estimator=name)  # each is one a run may ask for


def test_the_list_of_spaces_has_the_papers_grid_and_what_it_chose(cli):
    rows = {(row["name"], row["setting"]): row for row in json.loads(cli("list", "spaces", "--json").out)}
    strength = rows["ewc", "learner.strength"]
    assert strength["values"] == [10, 25, 30, 90, 100]
    assert (strength["paper/cifar100"], strength["paper/imagenet-1k"]) == (10, 25)
    assert strength["acts"] == "not on the first task"
    assert rows["ewc", "train.lr"]["acts"] == "always"
    assert rows["pec", "learner.strength"]["acts"] == "never"
