"""SNV forgets nothing: proven by evaluation, by certificates, and by overwriting everything a task does not own."""

from __future__ import annotations

import pytest
import torch
from toy import around, learn, make, toy_stream

from snv.errors import UserError
from snv.files import cloned
from snv.masks import own_weights
from snv.protocol.evaluate import accuracy


def learned(n_tasks: int = 3, scenario: str = "til", **config):
    stream = toy_stream(n_tasks)
    learner = make("snv", scenario, stream, capacity=0.3, **config)
    for t in range(n_tasks):
        learn(learner, stream, t)
    return learner, stream


def probes() -> torch.Tensor:
    return torch.randn(7, 1, 8, 8, generator=torch.Generator().manual_seed(5))


def test_in_TIL_old_tasks_keep_their_accuracy_to_the_last_digit():
    stream = toy_stream()
    learner = make("snv", "til", stream, capacity=0.3)
    rows = []
    for t in range(3):
        learn(learner, stream, t)
        rows.append([accuracy(learner, stream.test(j), stream.blocks[j], around(learner)) for j in range(t + 1)])
    assert rows[2][:2] == [rows[0][0], rows[1][1]]


def test_logits_of_old_tasks_are_bit_identical_after_later_tasks():
    stream = toy_stream()
    learner = make("snv", "til", stream, capacity=0.3)
    learn(learner, stream, 0)
    before = learner.logits(probes(), stream.blocks[0])
    learn(learner, stream, 1)
    learn(learner, stream, 2)
    assert torch.equal(learner.logits(probes(), stream.blocks[0]), before)


def test_noise_on_every_weight_outside_a_tasks_subnetwork_changes_nothing():
    learner, stream = learned()
    before = learner.logits(probes(), stream.blocks[0])
    mask = learner.subnetworks[0].mask
    with torch.no_grad():
        for owned in own_weights(learner.neurons):
            outside = ~mask[owned.owner]
            owned.tensor[outside] = torch.randn_like(owned.tensor[outside]) * 50
        for head in list(learner.network.heads)[1:]:
            head.weight.normal_()
    learner._cut_out.clear()
    assert learner.certify(0) == learner.certificates[0]
    assert torch.equal(learner.logits(probes(), stream.blocks[0]), before)


def test_one_changed_bit_inside_a_subnetwork_stops_everything():
    learner, _ = learned(2)
    learner.verify()
    owned = own_weights(learner.neurons)[0]
    row = int(learner.subnetworks[0].mask[owned.owner].nonzero()[0])
    with torch.no_grad():
        entry = owned.tensor.view(len(owned.tensor), -1)[row]
        entry[0] = torch.nextafter(entry[0], torch.tensor(9.0))
    with pytest.raises(RuntimeError, match="Task 1 is not what it was when it was frozen"):
        learner.verify()


def test_no_weight_of_a_frozen_neuron_moves():
    stream = toy_stream()
    learner = make("snv", "til", stream, capacity=0.3)
    learn(learner, stream, 0)
    frozen = learner.frozen.clone()
    before = [owned.tensor.detach()[frozen[owned.owner]].clone() for owned in own_weights(learner.neurons)]
    learn(learner, stream, 1)
    after = [owned.tensor.detach()[frozen[owned.owner]] for owned in own_weights(learner.neurons)]
    assert all(torch.equal(a, b) for a, b in zip(after, before, strict=True))


def test_the_compact_specialist_answers_like_the_certified_masked_network():
    from snv.subnetwork import masked

    learner, stream = learned()
    learner.network.eval()
    for t in range(3):
        with torch.no_grad(), masked(learner.body, learner.neurons, learner.subnetworks[t]):
            expected = learner.network(probes(), t)
        torch.testing.assert_close(learner.logits(probes(), stream.blocks[t]), expected, rtol=1e-4, atol=1e-5)


def test_counted_reuse_keeps_exactly_the_budget_and_free_reuse_more():
    counted, _ = learned(3, reuse="counted")
    free, _ = learned(3, reuse="free")
    budget = int(0.3 * counted.neurons.n)
    assert all(int(s.mask.sum()) == budget for s in counted.subnetworks)
    assert int(free.subnetworks[2].mask.sum()) >= budget
    assert int(free.frozen.sum()) >= int(counted.frozen.sum())


def test_capacity_is_the_share_of_parameters_frozen():
    learner, _ = learned(1, reuse="counted")
    told = learner.capacity()
    assert told["neurons"] == pytest.approx(float(learner.frozen.double().mean()))
    assert 0 < told["parameters"] <= 1


def test_the_whole_takes_no_more_epochs_than_any_other_method():
    stream = toy_stream()
    learner = make("snv", "til", stream, epochs=10)
    task = stream.task(0).without_test()
    stages = [learner.stage(task, i) for i in range(3)]
    assert stages[2] is None
    assert sum(stage.settings.epochs for stage in stages[:2]) == 10


def test_consolidation_can_be_cut_and_continued():
    stream = toy_stream()
    learner = make("snv", "cil", stream, capacity=0.3)
    task = stream.task(0).without_test()
    learner.begin_task(task)
    learner.end_stage(task, learner.stage(task, 0))
    with torch.no_grad():
        for parameter in learner._small.parameters():
            parameter += 0.1
    state = cloned(learner.state_dict())
    other = make("snv", "cil", stream, capacity=0.3)
    other.load_state_dict(state)
    learner._small.eval()
    other._small.eval()
    assert torch.equal(learner.task_logits(probes()), other.task_logits(probes()))


@pytest.mark.parametrize("key", ["capacity", "coverage", "dense_share"])
def test_a_share_outside_its_range_is_refused(key):
    with pytest.raises(UserError, match=f"learner.{key} is a share"):
        make("snv", "til", toy_stream(), **{key: 1.5})


@pytest.mark.parametrize("options", [{"size": "coverage"}, {"distil": 1.0}, {"estimator": "hybrid", "draws": 8}])
def test_every_switch_learns(options):
    learner, stream = learned(2, **options)
    assert accuracy(learner, stream.test(1), stream.blocks[1], around(learner)) > 60
