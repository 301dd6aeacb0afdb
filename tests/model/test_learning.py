"""A model learns folder after folder, and a mistake changes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from drawn import BIRDS, contents, draw, make_pictures, small_model
from snv import Model, UserError
from snv.errors import DivergedError
from snv.files import cloned
from snv.model.learning import learner_around
from taught import (
    BOTH,
    QUERIES,
    QUICK,
    all_unchanged,
    answers,
    everything,
    one_ulp,
    same,
    tampered_with,
)


def test_it_learns(tmp_path):
    model = small_model(width=16)
    learned = model.learn(make_pictures(tmp_path / "birds", BIRDS, 60), epochs=14)
    told = model.predict([draw(name, i) for name in BIRDS for i in range(100, 110)])
    assert [prediction.label for prediction in told] == ["crow"] * 10 + ["robin"] * 10
    assert learned.task.accuracy == 100 and learned.warnings == ()
    assert 0 <= learned.task.calibration_error <= 1


def test_learning_on_after_opening_is_learning_on(model, pictures, taught, tmp_path):
    other = Model.open(shutil.copytree(taught, tmp_path / "other.snv"))
    for one in (model, other):
        one.learn(pictures / "trees", epochs=QUICK)
    assert same(model.knowledge.states(), other.knowledge.states())


def test_a_full_network_still_learns_and_keeps_its_promise(pictures, monkeypatch):
    monkeypatch.setattr("snv.model.learning.LARGEST", 1.0)
    model = small_model(capacity=1.0)
    model.learn(pictures / "birds", epochs=2)
    before = answers(model, "birds")
    learned = model.learn(pictures / "fish", epochs=2)
    assert learned.new_neurons == 0
    assert answers(model, "birds") == before
    assert all_unchanged(model)


def test_pictures_that_cannot_be_learned_leave_the_model_as_it_was(model, pictures, monkeypatch):
    monkeypatch.setattr("snv.model.learning.RATE", 1e30)
    files, states = contents(model.path), cloned(model.knowledge.states())
    with pytest.raises(DivergedError, match=r"task 3 diverged: .* before\. The model is as it was before\. Look at"):
        model.learn(pictures / "trees", epochs=QUICK)
    assert contents(model.path) == files and same(model.knowledge.states(), states)
    assert all_unchanged(model)


def too_few(root: Path) -> None:
    shutil.rmtree(root / "elm")
    make_pictures(root, ("elm",), 4)


def no_classes(root: Path) -> None:
    shutil.rmtree(root)
    root.mkdir()


def one_class(root: Path) -> None:
    shutil.rmtree(root / "elm")


def broken(root: Path) -> None:
    (root / "oak" / "7.png").write_bytes((root / "oak" / "7.png").read_bytes()[:90])


def empty_class(root: Path) -> None:
    (root / "yew").mkdir()


def known_class(root: Path) -> None:
    make_pictures(root, ("pike",))


MISTAKES = {
    "too few pictures": (too_few, r"class 'elm' has 4 pictures; at least 5"),
    "an empty folder": (no_classes, r"trees has 0 class folders"),
    "one class": (one_class, r"trees has 1 class folder;"),
    "a class without pictures": (empty_class, r"yew has no images"),
    "a broken picture": (broken, r"oak/7\.png cannot be read"),
    "a class of another task": (known_class, r"'pike' is known from the task 'fish'.*--repeat-classes"),
}


@pytest.mark.parametrize(("spoil", "answer"), MISTAKES.values(), ids=MISTAKES)
@pytest.mark.parametrize("replace", [False, True], ids=["new task", "replacing"])
def test_a_mistake_is_named_and_changes_nothing(spoil, answer, replace, model, pictures, tmp_path):
    root = shutil.copytree(pictures / "trees", tmp_path / "trees")
    spoil(root)
    memory, disk = everything(model), contents(model.path)
    with pytest.raises(UserError, match=answer):
        model.learn(root, "birds" if replace else None, replace=replace, epochs=1)
    assert same(everything(model), memory)
    assert contents(model.path) == disk
    assert all_unchanged(model)


def test_what_is_learned_after_a_failure_is_what_would_have_been_learned_without_it(model, pictures, taught, tmp_path):
    def stop(what: str, *_: float) -> None:
        if what == "consolidating":
            raise RuntimeError

    with pytest.raises(RuntimeError):
        model.learn(pictures / "trees", epochs=QUICK, progress=stop)
    other = Model.open(shutil.copytree(taught, tmp_path / "other.snv"))
    for one in (model, other):
        one.learn(pictures / "trees", epochs=QUICK)
    assert same(model.knowledge.states(), other.knowledge.states())


def test_a_name_that_is_taken_is_refused_with_both_ways_out(model, pictures):
    disk = contents(model.path)
    with pytest.raises(UserError, match=r"task 'birds' already, with the classes crow, robin.*--task.*--replace"):
        model.learn(pictures / "trees", "birds")
    assert contents(model.path) == disk


@pytest.mark.parametrize("name", ["../birds", "a/b", " birds", "birds\n", "\x1b[31mred", "\ud800"])
def test_names_that_could_be_taken_for_something_else_are_refused(name, model, pictures):
    with pytest.raises(UserError, match="cannot be the name of a task"):
        model.learn(pictures / "trees", name)


def test_a_class_may_stand_in_two_tasks_if_that_is_wanted(model, pictures):
    model.learn(pictures / "birds", "more birds", epochs=1, repeat_classes=True)
    best = model.predict(QUERIES[:1], top=9)[0].best
    assert {(task, name) for task, name, _ in best} >= {("birds", "crow"), ("more birds", "crow")}


@pytest.mark.parametrize("what", [*BOTH, "temperature", "open temperature"])
def test_nothing_is_learned_on_top_of_a_task_whose_names_or_temperatures_changed(what, model, pictures):
    tampered_with(model, what, one_ulp)
    with pytest.raises(UserError, match=f"is not what it was when it was learned: its {what} changed. Restore"):
        model.learn(pictures / "trees", epochs=1)


def test_the_planner_counts_as_the_learner_does(model):
    learner = learner_around(model.knowledge, epochs=1)
    assert model.knowledge.budget() == learner.config.budget(model.specialists.neurons)
