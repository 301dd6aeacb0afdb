"""The page about figures is complete, and the pictures in the documentation are what their commands make."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from PIL import Image

from snv.report import ANALYSES, FIGURES, caption_of, figure
from snv.runs import read_results

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "figures.md").read_text(encoding="utf-8")
PICTURES = sorted((DOCS / "figures").glob("*.png"))


def rows(page: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]


def test_the_page_names_every_figure_with_its_command():
    assert set(re.findall(r"`snv figure (\w+)[ `]", PAGE)) == set(FIGURES)


def test_the_page_names_every_analysis_with_its_settings():
    listed = {row[0].strip("`"): re.findall(r"\w+", row[2]) for row in rows(PAGE) if row[0].strip("`") in ANALYSES}
    assert listed == {name: kind.settings for name, kind in ANALYSES.items()}


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_picture_is_what_its_caption_says(picture, monkeypatch):
    monkeypatch.chdir(DOCS.parent)
    with Image.open(picture) as image:
        caption = image.text["Description"]
    command = caption.split("Made by: ")[1]
    _snv, _figure, name, *runs, _out, file = shlex.split(command)
    assert file == picture.name, "run the command again"
    assert caption_of(figure(name, read_results(map(Path, runs)), command)) == caption, "run the command again"
