"""What is known of a task: its status, and fingerprints of names and temperatures."""

from __future__ import annotations

import pytest

from drawn import contents, small_model
from taught import BOTH, one_ulp, tampered_with


@pytest.mark.parametrize("what", [*BOTH, "temperature"])
def test_a_changed_name_format_or_temperature_is_found_and_named(what, model):
    tampered_with(model, what, one_ulp)
    fish = model.verify()[1]
    assert (fish.unchanged, fish.known) == (False, False)
    assert f"its {what} changed" in fish.told
    assert fish.evidence is (what == "temperature"), "a task's own temperature is not read by open answers"


def test_the_status_is_what_the_tasks_and_the_files_say(model):
    status, masks = model.status(), [subnetwork.mask for subnetwork in model.specialists.subnetworks]
    assert [task.name for task in status.tasks] == ["birds", "fish"]
    assert status.neurons == tuple(int(mask.sum()) for mask in masks)
    assert status.used == int((masks[0] | masks[1]).sum()) < status.n_neurons
    assert status.files == {name: len(data) for name, data in contents(model.path).items()}
    assert status.bytes == sum(status.files.values())
    assert small_model().status().files == {}
