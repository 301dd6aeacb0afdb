from __future__ import annotations

import numpy as np

from invented import a_result, with_table
from snv.report.analyses.capacity import jaccard
from snv.report.figures.overlap import overlap
from snv.report.figures.style import caption_of


def test_the_lower_triangle_shows_the_jaccard_index_of_every_pair(tmp_path):
    result = with_table(a_result(tmp_path, "snv"))
    index = jaccard(result.neurons().masks)
    figure = overlap([result], "x")
    shown = figure.axes[0].images[0].get_array()
    lower = np.tri(4, dtype=bool)
    np.testing.assert_allclose(shown[lower].data, index[lower])
    assert shown.mask[~lower].all()
    between = index[np.tri(4, k=-1, dtype=bool)]
    assert f"from {between.min():.2f} to {between.max():.2f}" in caption_of(figure)
    words = [float(text.get_text()) for text in figure.axes[0].texts]
    np.testing.assert_allclose(words, index[lower], atol=0.005)


def test_one_task_overlaps_only_with_itself(tmp_path):
    figure = overlap([with_table(a_result(tmp_path, "snv", tasks=1))], "x")
    assert [text.get_text() for text in figure.axes[0].texts] == ["1.00"]
