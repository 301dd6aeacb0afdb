"""What a model knows is saved, opened, forgotten and undone as a whole."""

from __future__ import annotations

import pytest
import torch

from drawn import BIRDS, TREES, contents
from snv import Model, UserError
from snv.model.store import Store
from taught import QUICK, all_unchanged, answers, everything, evidence, one_ulp, same


def test_a_model_that_was_saved_opens_to_the_same_bits(model, tmp_path):
    again = Model.open(model.path)
    assert same(again.knowledge.states(), model.knowledge.states())
    for task in (None, "birds", "fish"):
        assert answers(again, task) == answers(model, task)
    assert all_unchanged(again)
    model.save(tmp_path / "copy.snv")
    assert contents(tmp_path / "copy.snv") == contents(again.path)


@pytest.mark.parametrize("replace", [False, True], ids=["new task", "replacing"])
@pytest.mark.parametrize("moment", ["reading pictures", "consolidating"])
def test_an_exception_in_the_middle_of_learning_leaves_memory_and_disk_as_before(moment, replace, model, pictures):
    def stop(what: str, done: float, total: float) -> None:
        if what == moment and done >= total / 2:
            raise KeyboardInterrupt

    memory, disk, before = everything(model), contents(model.path), answers(model, None)
    with pytest.raises(KeyboardInterrupt):
        model.learn(pictures / "trees", "birds" if replace else None, replace=replace, epochs=4, progress=stop)
    assert same(everything(model), memory)
    assert contents(model.path) == disk
    assert answers(model, None) == before


def test_forgetting_frees_exactly_what_only_that_task_used_and_redraws_what_no_other_reads(model, pictures):
    model.learn(pictures / "trees", epochs=QUICK)
    masks = {info.name: kept.mask for info, kept in zip(model.tasks, model.specialists.subnetworks, strict=True)}
    before = {name: answers(model, name) for name in ("birds", "trees")}
    only = masks["fish"] & ~masks["birds"] & ~masks["trees"]
    weight = model.specialists.neurons.layers[0].module.weight.detach().clone()
    assert model.forget("fish") == int(only.sum()) > 0
    assert torch.equal(model.specialists.frozen, masks["birds"] | masks["trees"])
    here = ~model.specialists.frozen[model.specialists.neurons.layers[0].neurons]
    moved = (model.specialists.neurons.layers[0].module.weight != weight).flatten(1).any(1)
    assert torch.equal(moved, here)
    for one in (model, Model.open(model.path)):
        assert all_unchanged(one)
        assert {name: answers(one, name) for name in before} == before
        assert {name for best in answers(one, None) for _, name, _ in best} == {*BIRDS, *TREES}
    assert not any("fish" in name for name in contents(model.path))


def test_nothing_of_the_norm_layers_of_a_forgotten_task_is_left(model):
    birds, fish = model.specialists.subnetworks
    means = [name for name in fish.norm if name.endswith("running_mean")]
    model.forget("fish")
    assert all(torch.equal(model.specialists.body.state_dict()[name], birds.norm[name]) for name in means)
    model.forget("birds")
    body = Store(model.path).read().states["network"]["body"]
    assert not any(body[f"body.{name}"].any() for name in means)


@pytest.mark.parametrize("forgotten", ["birds", "fish", "trees"])
@pytest.mark.parametrize("kind", ["model", "older"])
def test_after_forgetting_the_evidence_of_the_others_is_still_proved(kind, forgotten, request, pictures):
    model = request.getfixturevalue(kind)
    model.learn(pictures / "trees", epochs=QUICK)
    model.forget(forgotten)
    for one in (model, Model.open(model.path)):
        assert [verdict.evidence for verdict in one.verify()] == [True, True]
        for t, kept in enumerate(one.specialists.statistics):
            assert len(one.specialists.certificates[t].evidence) == 2 + len(kept.means) == 3 + t
    for part in evidence(model).values():
        kept = part.clone()
        one_ulp(part)
        assert model.verify()[1].evidence is False
        part.copy_(kept)
    assert all_unchanged(model)


def test_nothing_of_a_forgotten_task_is_left_in_the_common_space(model, pictures):
    """Sums of all that is left are bit for bit those that were there without it."""
    before = model.specialists.common.pooled()
    model.learn(pictures / "trees", epochs=QUICK)
    model.forget("trees")
    for one in (model, Model.open(model.path)):
        now = one.specialists.common.pooled()
        assert all(torch.equal(getattr(now, name), getattr(before, name)) for name in ("counts", "sums", "products"))


@pytest.mark.parametrize("change", [{"tasks": [{}]}, {"tasks": 3}, {"spec": {"network": "mlp"}}, {"next_uid": "x"}])
def test_a_directory_whose_parts_do_not_fit_together_is_refused_in_one_sentence(change, model):
    store = Store(model.path)
    stored = store.read()
    with store.writing():
        store.write(stored.content | change, stored.states)
    with pytest.raises(UserError, match="do not fit together"):
        Model.open(model.path)
