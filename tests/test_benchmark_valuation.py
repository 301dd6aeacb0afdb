"""The helpers of benchmarks/valuation.py, without its measurements."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from snv.shapley.known_games import KNOWN_GAMES
from snv.valuation.neuron_game import NeuronGame

PATH = Path(__file__).parents[1] / "benchmarks" / "valuation.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("valuation_benchmark", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_lead_counts_only_beyond_the_noise(bench):
    assert bench.leads([0.9, 0.9, 0.9], [0.5, 0.6, 0.5])
    assert not bench.leads([0.9, 0.1, 0.9], [0.5, 0.6, 0.5])
    assert not bench.leads([1.0, 1.0], [1.0, 1.0])


def test_a_table_has_one_line_per_row_and_columns_that_line_up(bench):
    lines = bench.markdown(["a", "long"], [["x", "1"], ["yyy", "2"]]).splitlines()
    assert len(lines) == 4
    assert len({len(line) for line in lines}) == 1


def test_claims_are_read_off_the_figures(bench):
    lines = bench.claims({"forwards_ratio": 99.0, "time_ratio": 51.0, "shapiq_beats_ours": []})
    assert any(line.startswith("FAILS: with 100 times") for line in lines)
    assert any(line.startswith("holds: and 50 times") for line in lines)
    assert any(line.startswith("not measured: and ranks") for line in lines)


def test_every_estimator_of_ours_keeps_to_the_budget(bench):
    game = KNOWN_GAMES["saturating"]()
    for name, run in bench.our_ways(game, 200).items():
        before = game.evaluations
        assert run(0).shape == (game.n,), name
        assert game.evaluations - before <= 200, name


def test_shapiq_and_captum_value_our_games(bench):
    pytest.importorskip("captum")
    game = KNOWN_GAMES["additive"]()
    torch.testing.assert_close(bench.captum_values(game, 2, 0), game.shapley, atol=1e-5, rtol=0)
    pytest.importorskip("shapiq")
    torch.testing.assert_close(bench.shapiq_values(game, "KernelSHAP", 120, 0), game.shapley, atol=1e-5, rtol=0)


def test_the_plain_loop_and_the_engine_agree(bench):
    game = NeuronGame(bench.network(2), *bench.random_images(3))
    coalitions = bench.stretch(game.n, 3, 0)
    assert (coalitions.sum(1).diff() == 1).all()
    torch.testing.assert_close(game.values(coalitions), bench.plain_values(game, coalitions), atol=1e-5, rtol=0)
    assert not any(layer.module._forward_hooks for layer in game.neurons.layers)
