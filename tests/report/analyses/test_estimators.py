from __future__ import annotations

import dataclasses

import pytest
import torch

from snv.errors import UserError
from snv.report.analyses.estimators import COMPARED, Ablation, deviation_over_seeds, estimators
from snv.report.analyses.finding import load_finding

FEW = {"task": 2, "permutations": 4, "reference": 24, "seeds": 2, "k": 4, "max_seconds": 1e6}


@pytest.fixture(scope="module")
def found(sgd_run):
    return estimators(sgd_run, **FEW)


def test_all_of_the_papers_estimators_and_ours_value_one_task(found):
    assert [one.estimator for one in found.estimators] == list(COMPARED.values())
    assert (found.neurons, found.task, found.k) == (12, 2, 4)
    assert all(-1 <= one.rank_agreement <= 1 and 0 <= one.top_agreement <= 1 for one in found.estimators)


def test_monte_carlo_costs_what_its_orders_cost_and_truncation_no_more(found):
    by_name = {one.estimator: one for one in found.estimators}
    orders, ends = 4 * (found.neurons - 1), 2
    assert by_name["montecarlo"].forward_passes <= (orders + ends) * found.images
    assert by_name["truncated"].forward_passes <= (orders + ends) * found.images
    assert found.reference_passes > by_name["montecarlo"].forward_passes
    assert found.reference_permutations == 24


def test_one_seed_gives_one_result_but_for_the_clock(found, sgd_run):
    again = estimators(sgd_run, **FEW)
    timeless = [tuple(dataclasses.replace(e, seconds=0.0) for e in one.estimators) for one in (found, again)]
    assert timeless[0] == timeless[1]


def test_the_deviation_over_seeds_is_that_of_each_neuron():
    same = torch.tensor([1.0, -2.0, 3.0])
    assert deviation_over_seeds([same, same, same]) == 0
    assert deviation_over_seeds([same, same + 2]) == pytest.approx(2**0.5)


def test_a_budget_ends_an_estimate_and_the_table_says_so(sgd_run, tmp_path):
    short = estimators(sgd_run, seeds=2, permutations=20000, reference=30000, max_seconds=0.05)
    row = short.shown().rows[0]
    assert "max_seconds reached" in row[-1]
    short.save(tmp_path)
    assert load_finding(Ablation, tmp_path) == short


@pytest.mark.parametrize("wrong", [{"seeds": 1}, {"permutations": 1}, {"permutations": 8, "reference": 8}])
def test_too_few_seeds_or_orders_are_refused(sgd_run, wrong):
    with pytest.raises(UserError, match=r"at least 2 seeds|needs 2 permutations"):
        estimators(sgd_run, **wrong)
