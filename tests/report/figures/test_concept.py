from __future__ import annotations

import numpy as np
import pytest

from invented import a_result, a_table, with_table
from snv.report.figures.concept import concept, frozen_by, in_order
from snv.report.figures.style import caption_of


def test_a_neuron_belongs_to_the_first_task_that_has_it():
    masks = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0]], dtype=bool)
    assert frozen_by(masks).tolist() == [0, 1, 2, -1]


def test_neurons_of_a_layer_stand_in_the_order_in_which_tasks_froze_them():
    table = a_table()
    for tasks, size in zip(in_order(table, frozen_by(table.masks)), table.sizes, strict=True):
        frozen = tasks[tasks >= 0]
        assert len(tasks) == size and (np.diff(frozen) >= 0).all()
        assert (tasks[len(frozen) :] == -1).all()


def test_every_neuron_is_a_square_in_the_colour_of_its_task(tmp_path):
    result = with_table(a_result(tmp_path, "snv"))
    table = result.neurons()
    figure = concept([a_result(tmp_path, "sgd"), result], "x")
    squares = [colour for part in figure.axes[0].collections for colour in part.get_facecolors().tolist()]
    first = frozen_by(table.masks)
    assert len(squares) == sum(table.sizes)
    assert squares.count([1, 1, 1, 1]) == (first < 0).sum()
    assert len(set(map(tuple, squares))) == len(np.unique(first))
    assert f"{100 * np.mean(first >= 0):.0f} % are frozen" in caption_of(figure)
    words = [text.get_text() for text in figure.axes[0].texts if " of " in text.get_text()]
    assert sum(int(word.split()[0]) for word in words) == (first >= 0).sum()


def test_twenty_tasks_and_wide_layers_fit(tmp_path):
    result = with_table(a_result(tmp_path, "snv", tasks=20), a_table(20, (64, 512)))
    figure = concept([result], "x")
    figure.draw_without_rendering()
    assert max(map(float, figure.get_size_inches())) < 12
    assert pytest.approx(1.09 * 512) == figure.axes[0].get_xlim()[1]
