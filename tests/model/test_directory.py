"""Several may read a model and one may write it, and nobody's work is overwritten."""

from __future__ import annotations

import pytest

from drawn import small_model
from snv import Model, UserError
from taught import all_unchanged, answers


def test_a_model_without_a_directory_lives_in_memory_until_it_is_given_one(pictures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = small_model()
    model.learn(pictures / "birds", epochs=1)
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match="no directory yet"):
        model.save()
    model.save(tmp_path / "pets.snv")
    assert answers(Model.open(tmp_path / "pets.snv"), None) == answers(model, None)


def test_readers_read_while_a_writer_holds_the_directory_and_a_second_writer_is_refused(model, pictures):
    before, asked = answers(model, None), []

    def meanwhile(what: str, *_: float) -> None:
        if what == "learning" and not asked:
            reader = Model.open(model.path)
            asked.append(answers(reader, None) == before and all_unchanged(reader))
            for change in (lambda: reader.learn(pictures / "trees"), lambda: reader.forget("fish"), reader.save):
                with pytest.raises(UserError, match="being changed by another process"):
                    change()

    model.learn(pictures / "trees", epochs=1, progress=meanwhile)
    assert asked == [True]
    assert len(Model.open(model.path).tasks) == 3


def test_what_another_process_learned_meanwhile_is_not_overwritten(model, pictures):
    other = Model.open(model.path)
    other.learn(pictures / "trees", epochs=1)
    for change in (lambda: model.learn(pictures / "trees"), lambda: model.forget("fish"), model.save):
        with pytest.raises(UserError, match=r"changed by another process since it was opened. Open it again"):
            change()
    assert len(Model.open(model.path).tasks) == 3


def test_a_model_is_not_written_over_another(model, tmp_path):
    with pytest.raises(UserError, match="holds a model already"):
        Model.create(model.path)
    early = small_model(tmp_path / "new.snv")
    model.save(tmp_path / "new.snv")
    for one in (early, small_model()):
        with pytest.raises(UserError, match="holds a model already"):
            one.save(tmp_path / "new.snv")
    assert len(Model.open(tmp_path / "new.snv").tasks) == 2
