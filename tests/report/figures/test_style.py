from __future__ import annotations

import itertools
import re

import matplotlib
import numpy as np
import pytest
from PIL import Image

from hostile import NAMES
from invented import a_result
from snv.errors import UserError
from snv.learners import LEARNERS
from snv.report.figures.style import (
    LOOKS,
    MAP,
    caption_of,
    captioned,
    keeps_images,
    line_of,
    on_colour,
    runs_of,
    save_figure,
    sheet,
    spread,
)


def grey(colour) -> float:
    """How light a colour is, from 0 to 1."""
    return float(np.dot(matplotlib.colors.to_rgb(colour), (0.299, 0.587, 0.114)))


def test_every_method_has_a_look_of_its_own():
    assert LOOKS.keys() == {name for name, kind in LEARNERS.items() if kind.__module__.startswith("snv.")}
    assert len({(look.colour, look.marker) for look in LOOKS.values()}) == len(LOOKS)


def test_methods_of_one_colour_differ_in_marker_so_that_they_are_told_apart_in_grey():
    for one, other in itertools.combinations(LOOKS.values(), 2):
        assert one.marker != other.marker or abs(grey(one.colour) - grey(other.colour)) > 0.1


def test_lines_of_methods_that_keep_images_are_dashed_and_no_others():
    dashed = {name for name in LOOKS if line_of(name)["linestyle"] != "-"}
    assert dashed == {name for name in LOOKS if keeps_images(name)}
    assert "der++" in dashed and "snv" not in dashed


def test_the_map_grows_steadily_lighter():
    lightness = [grey(colour) for colour in matplotlib.colormaps[MAP](np.linspace(0, 1, 50))]
    assert all(a < b for a, b in itertools.pairwise(lightness))


@pytest.mark.parametrize("share", np.linspace(0, 1, 11))
def test_numbers_on_the_map_can_be_read(share):
    behind = grey(matplotlib.colormaps[MAP](share))
    assert abs(grey(on_colour(share)) - behind) > 0.38


def test_labels_are_moved_apart_and_keep_their_order():
    places = spread([10.0, 10.1, 10.2, 50.0], 5, 0, 100)
    assert all(b - a > 4.99 for a, b in itertools.pairwise(places))
    assert places[-1] == 50 and places[0] > 0
    assert spread([99, 99, 99.5], 5, 0, 100)[-1] <= 100
    assert spread([], 5, 0, 100) == []


def test_a_caption_is_below_the_figure_whole_and_inside_every_file(tmp_path):
    caption = "Accuracy of nothing. 3 runs, seeds 0, 1, 2. Made by: snv figure nothing runs/a --out nothing.png"
    figure = captioned(sheet(3, 2), caption)
    assert caption_of(figure) == caption
    for suffix in (".png", ".svg", ".pdf"):
        save_figure(figure, tmp_path / f"figure{suffix}")
    with Image.open(tmp_path / "figure.png") as picture:
        assert picture.text["Description"] == caption
        assert picture.size[0] == 600 and picture.size[1] > 400
    assert caption in re.sub(r"\s+", " ", (tmp_path / "figure.svg").read_text())


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_one_figure_gives_the_same_bytes(tmp_path, suffix):
    for name in ("a", "b"):
        figure = captioned(sheet(2, 2), "Twice.")
        figure.subplots().plot([1, 2, 3])
        save_figure(figure, tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_another_kind_of_file_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"A figure is a \.png, \.svg or \.pdf file; got figure\.jpg"):
        save_figure(sheet(1, 1), tmp_path / "figure.jpg")


def test_runs_are_counted_in_words(tmp_path):
    assert runs_of([a_result(tmp_path, seed=3)]) == "1 run, seed 3"
    assert runs_of([a_result(tmp_path, seed=s) for s in (2, 0)]) == "2 runs, seeds 0, 2"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_a_figure_with_a_hostile_name_is_drawn(name, suffix, tmp_path):
    figure = sheet(6, 4)
    axis = figure.add_subplot()
    axis.set_title(name[:40])
    axis.set_yticks([0, 1], [name[:40], "$x$"])
    path = save_figure(captioned(figure, name[:40]), tmp_path / f"x{suffix}")
    assert suffix != ".svg" or b"<script" not in path.read_bytes()
