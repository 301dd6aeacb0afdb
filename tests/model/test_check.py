"""One call says of a model on disk whether its files are whole and its tasks unchanged."""

from __future__ import annotations

import shutil

import pytest

from snv.errors import UserError
from snv.model import check


def test_a_sound_model_has_no_damage_and_a_verdict_for_every_task(taught):
    result = check(taught)
    assert result.unchanged
    assert result.damage == ()
    assert [verdict.task for verdict in result.verdicts] == ["birds", "fish"]


def test_a_damaged_file_is_named_and_no_task_is_asked(taught, tmp_path):
    path = shutil.copytree(taught, tmp_path / "pets.snv")
    file = next(path.glob("task-*.safetensors"))
    file.write_bytes(file.read_bytes()[:-1])
    result = check(path)
    assert not result.unchanged
    assert len(result.damage) == 1
    assert file.name in result.damage[0]
    assert result.verdicts == ()


def test_what_is_not_a_model_is_refused(tmp_path):
    with pytest.raises(UserError, match="is not a model"):
        check(tmp_path)
