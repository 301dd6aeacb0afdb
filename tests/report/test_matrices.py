"""Accuracy matrices are drawn, however many runs there are."""

from __future__ import annotations

from PIL import Image

from quick_run import QUICK


def test_the_picture_of_matrices_is_drawn(cli, tmp_path):
    for method in ("sgd", "joint"):
        cli("run", "--method", method, "--out", tmp_path / "runs" / method, *QUICK)
    told = cli("show", tmp_path / "runs", "--picture", tmp_path / "m.png")
    assert told.code == 0
    with Image.open(tmp_path / "m.png") as picture:
        assert picture.size[0] > 300
    assert told.out.count("finished") == 2
