from __future__ import annotations

import numpy as np

from invented import a_result, a_table, with_table
from snv.report.figures.style import caption_of
from snv.report.figures.values import RANKS, layer_shares, ranked, values
from snv.runs import NeuronTable


def test_the_layers_share_out_all_value_of_a_task():
    table = a_table()
    whole = np.abs(table.values).sum(1)
    np.testing.assert_allclose(layer_shares(table).sum(0), 100 * table.values.sum(1) / whole, rtol=1e-5)
    assert np.abs(layer_shares(table)).sum(0).max() <= 100
    of_last = 100 * table.values[1, -3:].sum() / whole[1]
    np.testing.assert_allclose(layer_shares(table)[-1, 1], of_last, rtol=1e-5)


def test_neurons_stand_from_best_to_worst_and_the_best_of_all_is_1():
    rows = ranked(a_table(), 2)
    assert rows.shape == (3, RANKS)
    assert (np.diff(rows, axis=1) <= 0).all()
    assert np.abs(rows).max() == 1


def test_neurons_without_a_value_count_as_nothing():
    table = a_table(1)
    table.values[0, :5] = np.nan
    assert layer_shares(table)[0, 0] == 0 and (ranked(table, 0)[0] == 0).all()


def test_few_tasks_are_all_shown_and_of_many_four(tmp_path):
    few, many = (with_table(a_result(tmp_path / str(n), "snv", tasks=n)) for n in (3, 10))
    titles = [axis.get_title() for axis in values([few], "x").axes]
    assert [title for title in titles if "task" in title] == ["task 1", "task 2", "task 3"]
    figure = values([many], "x")
    assert [t for axis in figure.axes if "task" in (t := axis.get_title())] == ["task 1", "task 4", "task 7", "task 10"]
    assert "snv · TIL · seed 0" in caption_of(figure)


def test_a_task_without_any_value_does_not_break_the_picture(tmp_path):
    table = a_table(2)
    nothing = NeuronTable(table.layers, table.sizes, np.zeros_like(table.values), table.masks)
    values([with_table(a_result(tmp_path, "snv", tasks=2), nothing)], "x").draw_without_rendering()
