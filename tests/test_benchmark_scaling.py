"""The cost model of benchmarks/scaling_model.py: laws, and sums worked out by hand."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

PATH = Path(__file__).parents[1] / "benchmarks" / "scaling_model.py"


@pytest.fixture(scope="module")
def model():
    spec = importlib.util.spec_from_file_location("scaling_model", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["scaling_model"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["scaling_model"]


def test_one_process_tells_nobody_anything(model):
    for job in model.JOBS:
        parts = model.step(model.GPU, job, 1)
        assert parts["gradients"] == parts["norm layers"] == parts["control"] == 0
        assert model.efficiency(model.GPU, job, 1) == 1


def test_an_exchange_costs_what_its_messages_and_bytes_cost(model):
    machine = replace(model.GPU, together=4, inside=100, between=10, inside_latency=1, between_latency=2)
    assert model.exchange(machine, 400, 4) == 2 * 3 * (1 + 100 / 100)  # a ring of four
    assert model.exchange(machine, 400, 8) == pytest.approx(12 + 2 * 1 * 2 + 2 * 1 / 2 * 100 / 10)  # and two boxes


def test_efficiency_falls_with_the_number_of_processes(model):
    for job in model.JOBS:
        found = [model.efficiency(model.GPU, job, 2**k) for k in range(11)]
        assert all(a >= b for a, b in pairwise(found))


def test_two_processes_take_what_their_halves_and_their_messages_take(model):
    step = {"beside": {"clock": 1.0, "processor": 1.0}, "two": {"clock": 6.5, "processor": 1.625}}
    exchange = {"1": {"clock": 0.25, "processor": 0.0}, "100": {"clock": 0.75, "processor": 0.0}}
    measured = {"exchange": exchange, "net": {"norms": 3, "parameters": 50, "step": step}, "load": 1.0}
    assert model.check(measured)["net"]["clock"] == pytest.approx(3.25 / 6.5)  # 1 + 8 messages + 50 numbers
    assert model.check(measured)["net"]["processor"] == 1 / 1.625


def test_the_network_of_the_simulation_is_ours(model):
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from snv.networks import build_network

    job = model.JOBS[0]
    network = build_network("resnet18", (3, 224, 224), 0, stem="7x7/2")
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        network.features(torch.zeros(1, 3, 224, 224))
    assert counter.get_total_flops() / 2 == pytest.approx(job.macs, rel=0.05)
    assert sum(p.numel() for p in network.parameters()) == pytest.approx(job.parameters, rel=0.06)  # and a head
    assert sum(isinstance(module, torch.nn.BatchNorm2d) for module in network.modules()) == job.norms
