"""The quick check of the processor."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from snv.networks import soundness


@pytest.fixture
def doctor(cli, monkeypatch):
    """`snv doctor` of a processor with these errors."""
    monkeypatch.setattr("snv.cli.doctor.training_speed", lambda _: 1.0)

    def ask(**errors):
        found = dict.fromkeys(soundness.layers(1), 1e-6) | errors
        monkeypatch.setattr(soundness, "examined", lambda: found)
        return cli("doctor")

    return ask


def test_every_kind_of_layer_that_our_networks_train_is_right_here():
    found = soundness.examined()
    assert set(found) == set(soundness.layers(1))
    assert not soundness.problems(found)


def test_a_wrong_gradient_is_found():
    layer = nn.Conv2d(3, 5, 3)
    layer.weight.register_hook(lambda slope: 1.05 * slope)
    images = torch.randn(4, 3, 8, 8)
    assert soundness.gradient_error(layer, images) > soundness.TOLERANCE


def test_the_doctor_names_a_processor_that_computes_wrongly(doctor):
    told = doctor(BatchNorm=0.4)
    assert told.code == 1
    assert "wrong gradients" in told.out and "BatchNorm: relative error 0.4" in told.out


def test_a_fault_that_our_networks_avoid_is_no_problem(doctor):
    told = doctor(**{soundness.AROUND: float("inf")})
    assert told.code == 0 and "snv avoids them" in told.out


def test_a_check_that_ends_its_process_is_counted_as_wrong(monkeypatch):
    def dies(*_arguments, **_settings):
        return subprocess.CompletedProcess([sys.executable], -6, stdout='["3x3 convolution", 1e-07]\n', stderr="")

    monkeypatch.setattr(subprocess, "run", dies)
    found = soundness.examined()
    assert found["3x3 convolution"] == 1e-07 and found["linear"] == float("inf")
    assert len(soundness.problems(found)) == len(found) - 2
