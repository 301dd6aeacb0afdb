"""Nothing of a traced network outlives it but what other code traced."""

from __future__ import annotations

import linecache

from torch import fx, nn

from snv.neurons.sources import KEPT, sources_let_go


def test_sources_of_the_block_are_gone_and_those_of_others_stay():
    other = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    name = type(other).forward.__code__.co_filename
    with sources_let_go():
        ours = fx.symbolic_trace(nn.Sequential(nn.Linear(3, 3)))
        mine = type(ours).forward.__code__.co_filename
        assert {mine, name} <= KEPT.keys()
    assert name in KEPT and mine not in KEPT
    assert name in linecache.cache and mine not in linecache.cache
    assert "Linear" in str(ours)
