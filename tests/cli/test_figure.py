"""`snv figure`: every figure there is, from the command line and in Python."""

from __future__ import annotations

import re

import pytest

import snv.report
from invented import a_result, with_table
from snv.report.analyses.pruning import Pruning
from snv.runs import read_results


@pytest.fixture
def records(tmp_path):
    """Three seeds of two methods in both scenarios, with everything figures may ask for."""
    folder = tmp_path / "records"
    for scenario in ("til", "cil"):
        for seed in range(3):
            for method in ("snv", "sgd"):
                result = a_result(folder, method, scenario, seed)
                with_table(result)
                Pruning(method, scenario, seed, (0.0, 0.5), ((90.0,), (60.0,)), 10, 10.0).save(result.path)
    return folder


@pytest.mark.parametrize("name", snv.report.FIGURES)
def test_every_figure_is_drawn_with_a_caption_that_names_runs_and_command(cli, records, tmp_path, name):
    told = cli("figure", name, records, "--out", tmp_path / "drawn" / f"{name}.svg")
    assert told.code == 0, told.err
    text = (tmp_path / "drawn" / f"{name}.svg").read_text()
    assert text.startswith("<?xml")
    assert f"snv figure {name} {records} --out {name}.svg" in told.out
    assert re.search(r"\d runs?|[Oo]ne run", told.out) and re.search("standard deviation|no error bars", told.out)


@pytest.mark.parametrize("name", snv.report.FIGURES)
def test_figures_are_made_in_python_and_leave_the_records_alone(records, name):
    results = read_results([records])
    before = [result.record.as_json() for result in results]
    figure = snv.report.figure(name, results)
    assert f'snv.report.figure("{name}", results)' in snv.report.caption_of(figure)
    assert [result.record.as_json() for result in results] == before


def test_figures_are_listed(cli):
    told = cli("figure", "--list")
    assert all(name in told.out for name in snv.report.FIGURES)


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [([], "Which figure? Known: concept"), (["curvs"], "no figure called 'curvs'. Did you mean 'curves'?")],
)
def test_a_mistake_gets_one_sentence_and_exit_code_2(cli, arguments, answer):
    told = cli("figure", *arguments)
    assert told.code == 2
    assert answer in told.err
