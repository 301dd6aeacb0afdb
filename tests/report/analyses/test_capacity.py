from __future__ import annotations

import numpy as np
import pytest

from invented import a_result, a_table, kept, with_table
from snv.errors import UserError
from snv.report.analyses.capacity import by_layer, capacity, capacity_of, in_use, jaccard, reused
from snv.runs import NeuronTable, load_record

MASKS = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [1, 1, 1, 1, 0]], dtype=bool)


def test_overlap_is_what_is_shared_of_what_either_has():
    assert jaccard(MASKS)[1, 0] == pytest.approx(1 / 3)
    assert jaccard(MASKS)[2].tolist() == [0.5, 0.5, 1.0]
    assert jaccard(np.zeros((2, 3), dtype=bool)).tolist() == [[1, 1], [1, 1]]


def test_what_is_in_use_only_grows_and_reuse_is_counted_within_the_task():
    assert in_use(MASKS).sum(1).tolist() == [2, 3, 4]
    assert reused(MASKS).tolist() == [0, 0.5, 0.75]


def test_shares_by_layer_are_of_the_layers_own_neurons():
    table = NeuronTable(("a", "b"), (2, 3), np.zeros((3, 5), np.float32), MASKS)
    np.testing.assert_allclose(by_layer(table, in_use(MASKS)), [[1, 0], [1, 1 / 3], [1, 2 / 3]])


def test_a_run_uses_after_its_last_task_what_its_record_says(snv_run):
    found, recorded = capacity(snv_run), load_record(snv_run).capacity
    assert found.parameters[-1] == pytest.approx(recorded["parameters"])
    assert found.neurons[-1] == pytest.approx(recorded["neurons"])
    assert 0 < found.parameters[0] < found.parameters[-1] and 0 < found.neurons[0] < found.neurons[-1]
    assert np.mean(found.by_layer, axis=1) == pytest.approx(found.neurons), "one hidden layer"
    assert [row[0] for row in found.shown().rows] == ["1", "2"]


def test_a_method_without_masks_has_what_its_checkpoints_noted(sgd_run):
    found = capacity(sgd_run)
    assert found.parameters == found.neurons == (1.0, 1.0)
    assert found.layers == found.overlap == ()


def test_a_kept_record_knows_parameters_only_at_the_end(tmp_path):
    found = capacity_of(with_table(a_result(tmp_path, "snv"), a_table(4)))
    assert found.parameters == (None, None, None, 0.5)
    assert None not in found.neurons and list(found.neurons) == sorted(found.neurons)
    np.testing.assert_allclose(found.overlap, np.transpose(found.overlap))


def test_a_run_that_finished_no_task_is_refused(tmp_path):
    result = kept(a_result(tmp_path))
    result.record.tasks_done = 0
    with pytest.raises(UserError, match="has not finished its first task"):
        capacity_of(result)
