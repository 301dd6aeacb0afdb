"""Schedules, and settings that make no sense."""

from __future__ import annotations

import pytest

from snv.errors import UserError
from snv.training.settings import TrainSettings


def test_the_linear_schedule_warms_up_and_ends_at_zero():
    settings = TrainSettings(epochs=10, lr=1.0, schedule="linear", warmup=0.5)
    assert [settings.lr_at(epoch) for epoch in (0.25, 0.5, 10)] == pytest.approx([0.5, 1.0, 0.0])
    assert settings.lr_at(5.25) == pytest.approx(0.5)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_rate_that_decays_to_zero_is_trained_to_its_end_unless_patience_is_asked_for(schedule):
    assert TrainSettings().patience == 15
    assert TrainSettings(schedule=schedule).patience == 0
    assert TrainSettings(schedule=schedule, patience=3).patience == 3


def test_the_cosine_schedule_warms_up_and_ends_at_zero():
    settings = TrainSettings(epochs=10, lr=1.0, schedule="cosine", warmup=2)
    assert settings.lr_at(1) == pytest.approx(0.5)
    assert settings.lr_at(2) == pytest.approx(1.0)
    assert settings.lr_at(6) == pytest.approx(0.5)
    assert settings.lr_at(10) == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("key", "value"), [("epochs", 0), ("batch_size", 0), ("lr", 0.0), ("weight_decay", -1.0), ("clip_norm", 0.0)]
)
def test_impossible_settings_are_refused_when_made(key, value):
    with pytest.raises(UserError, match=key):
        TrainSettings(**{key: value})
