"""A person's model: it learns folder after folder, old answers stay bit-identical, and no failure leaves a trace."""

from __future__ import annotations

import pytest
import torch

from drawn import BIRDS, FISH, TREES, small_model
from snv import Model, UserError
from snv.subnetworks.budget import Budget
from taught import NAMES, QUERIES, QUICK, all_unchanged, answers, images_and_labels


@pytest.mark.parametrize("network", ["convnet", "resnet18"])
def test_old_answers_are_bit_identical_after_every_later_task(network, pictures, tmp_path):
    model = small_model(tmp_path / "pets.snv", network=network)
    names = tuple(NAMES)[: 3 if network == "convnet" else 2]
    first: dict[str, object] = {}
    for t, name in enumerate(names):
        learned = model.learn(pictures / name, epochs=2)
        assert learned.verified == names[:t]
        assert learned.task.classes == NAMES[name]
        first[name] = answers(model, name)
    assert all_unchanged(model)
    assert learned.used == int(model.specialists.frozen.sum()) > learned.new_neurons > 0
    assert all(answers(model, name) == first[name] for name in names)


@pytest.mark.parametrize("name", ["birds", "fish"])
def test_after_forgetting_there_is_room_for_a_new_task(name, model, pictures):
    (other,) = {"birds", "fish"} - {name}
    before = answers(model, other)
    model.forget(name)
    model.learn(pictures / "trees", epochs=QUICK)
    assert answers(model, other) == before
    assert [info.uid for info in model.tasks] == [int(other == "fish"), 2], "a number is never given again"
    assert all_unchanged(Model.open(model.path))


def test_a_model_may_forget_everything_and_start_again(model, pictures):
    model.forget("birds")
    model.forget("fish")
    assert not model.specialists.frozen.any()
    assert Model.open(model.path).verify() == []
    with pytest.raises(UserError, match="learned nothing yet"):
        model.predict(QUERIES)
    model.learn(pictures / "birds", epochs=1)
    assert all_unchanged(Model.open(model.path))


def test_replacing_forgets_the_old_task_and_keeps_the_others(model, pictures):
    before = answers(model, "fish")
    model.learn(pictures / "trees", "birds", replace=True, epochs=QUICK)
    assert [info.name for info in model.tasks] == ["fish", "birds"]
    assert model.task("birds").classes == TREES
    assert answers(model, "fish") == before
    model.learn(pictures / "birds", "birds", replace=True, epochs=1)
    assert model.task("birds").classes == BIRDS
    assert all_unchanged(Model.open(model.path))


def test_an_unknown_task_cannot_be_forgotten(model):
    with pytest.raises(UserError, match=r"no task called 'fihs'. Did you mean 'fish'\?"):
        model.forget("fihs")


def test_the_plan_counts_from_what_is_used(model):
    n, used = model.specialists.neurons.n, int(model.specialists.frozen.sum())
    budget = Budget(n, model.spec["capacity"], True, len(model.specialists.neurons.layers), int(0.4 * n))
    course, fit = model.plan(3)
    assert (course.n, course.before, len(course.new)) == (n, used, 3)
    assert (course, fit) == (budget.plan(3, used), budget.tasks_that_fit(used))
    assert model.plan(1, capacity=1.0)[0].new == (min(n - used, int(0.4 * n)),), "no subnetwork is larger than that"
    with pytest.raises(UserError, match="capacity"):
        model.plan(3, capacity=0.0)


def test_a_task_cut_out_answers_as_the_model_does(model):
    small = model.deployable("fish")
    pixels = torch.from_numpy(images_and_labels(FISH, 3)[0]).permute(0, 3, 1, 2)
    shares = (small(pixels / 255) / model.task("fish").temperature).softmax(1)
    torch.testing.assert_close(shares, model.probabilities(pixels, "fish"), atol=1e-5, rtol=0)
    specialist = model.compact("fish")
    assert sum(p.numel() for p in specialist.parameters()) < sum(p.numel() for p in model.specialists.body.parameters())
