"""The data of the page of a model: what it knows, how sure it is, what was proved, or what is damaged."""

from __future__ import annotations

import shutil

import pytest

from snv.errors import UserError
from snv.model import Audited, Model
from snv.report.model_page import by_role, model_page, write_model_report


@pytest.fixture(scope="module")
def data(taught):
    return model_page(taught)


def test_the_page_tells_what_the_model_tells(data, taught):
    model = Model.open(taught)
    status = model.status()
    assert [(task.name, task.classes) for task in data.tasks] == [(task.name, task.classes) for task in model.tasks]
    assert [task.neurons for task in data.tasks] == list(status.neurons)
    assert data.tasks[0].calibration_error == 100 * model.tasks[0].calibration_error
    assert data.tasks[0].temperature == model.tasks[0].temperature
    assert data.unchanged
    assert [verdict.known for verdict in data.verdicts] == [True, True]
    assert (data.room.used, data.room.neurons) == (status.used, status.n_neurons)
    assert data.room.fit == model.plan()[1]
    assert dict(data.files) == status.files
    assert sum(role.bytes for role in data.roles) == sum(row.bytes for row in model.audit())
    assert (sum(data.neurons.sizes), data.neurons.n_tasks) == (status.n_neurons, 2)


def test_of_a_damaged_model_only_the_damage_is_told(taught, tmp_path):
    path = shutil.copytree(taught, tmp_path / "pets.snv")
    file = next(path.glob("task-*.safetensors"))
    file.write_bytes(file.read_bytes()[:-1])
    data = model_page(path)
    assert not data.unchanged
    assert file.name in data.damage[0]
    assert data.tasks == ()
    assert data.room is None


def test_a_model_without_tasks_has_room_and_nothing_to_prove(tmp_path):
    Model.create(tmp_path / "new.snv", network="convnet", size=16, width=4).save()
    data = model_page(tmp_path / "new.snv")
    assert data.tasks == data.verdicts == ()
    assert data.room.used == 0
    assert data.neurons is None
    assert write_model_report(tmp_path / "new.snv", tmp_path).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_what_is_not_a_model_is_refused(tmp_path):
    with pytest.raises(UserError, match="is not a model"):
        model_page(tmp_path)


def test_tensors_of_one_kind_are_added_up():
    rows = [Audited("network", "a", (2,), 8, "weights"), Audited("network", "b", (1,), 4, "weights")]
    (role,) = by_role(rows)
    assert (role.tensors, role.bytes) == (2, 12)
