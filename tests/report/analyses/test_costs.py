from __future__ import annotations

import pytest

from invented import a_record
from snv.report.analyses.costs import PHASES, by_kind, costs, recorded_costs
from snv.runs import load_record


def test_kinds_of_work_share_out_all_costs_also_of_phases_nobody_knows():
    spent = {"train": 1.0, "consolidate": 2.0, "evaluate": 4.0, "nap": 8.0}
    assert by_kind(spent) == {"train": 3.0, "evaluate": 4.0, "nap": 8.0}
    assert sum(by_kind(spent).values()) == sum(spent.values())


def test_a_phase_is_of_one_kind_only():
    phases = [phase for known in PHASES.values() for phase in known]
    assert len(phases) == len(set(phases))


def test_what_a_record_holds_is_told():
    found = recorded_costs(a_record(seed=2))
    assert found.seconds == {"train": 92.0, "value": 6.0, "evaluate": 12.0, "nap": 3.0}
    assert found.bytes_kept == 4 * 2**20 and found.valuation is None
    shown = found.shown()
    assert shown.rows[-1] == ("all", "113.0", "4,500.00")
    assert "kept beyond the network 4.00 MiB" in shown.notes[0]


def test_a_valuation_is_taken_apart_into_what_the_network_does_and_what_is_around_it(snv_run):
    parts = costs(snv_run, task=2).valuation
    assert parts.estimator == "gradient" and parts.task == 2
    assert parts.evaluations == pytest.approx(load_record(snv_run).valuations[1]["evaluations"])
    assert parts.forward_passes == pytest.approx(16 * parts.evaluations / 2), "8 validation images"
    assert parts.total == parts.network + parts.around + parts.mask
    assert min(parts.network, parts.around, parts.mask, parts.training) > 0


def test_a_method_that_values_nothing_has_no_valuation(sgd_run):
    found = costs(sgd_run)
    assert found.valuation is None and set(found.seconds) == {"train", "evaluate"}
    assert len(found.shown().notes) == 1
