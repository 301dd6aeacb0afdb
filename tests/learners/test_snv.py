"""SNV forgets nothing: proven by evaluation, by certificates, and by overwriting everything a task does not own."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from snv_toy import learned, normed, probes
from test_learner_contract import assert_same
from toy import learn, make, toy_stream

from snv.files import cloned, load_state, save_state
from snv.neurons.wiring import own_weights
from snv.runs.evaluate import accuracy
from snv.seeding import generator
from snv.subnetworks.rules import RULES
from snv.training.loop import Training


def overwrite_all_but(learner, t: int) -> None:
    """Noise on every weight of the body and the heads that task t does not read."""
    rng = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for part in learner.specialists.reads(t):
            outside = ~part.entries
            part.owned.tensor[outside] = torch.randn(part.owned.tensor[outside].shape, generator=rng) * 50
        for s, head in enumerate(learner.network.heads):
            if s != t:
                head.weight.normal_(generator=rng)
    learner.specialists.copies.clear()


@pytest.mark.parametrize("bias", [-0.0, 0.0, 0.25])
def test_frozen_biases_keep_their_bits_through_later_tasks(bias):
    stream = toy_stream()
    learner = make("snv", "til", stream, capacity=0.3)
    (owned,) = [owned for owned in own_weights(learner.specialists.neurons) if owned.role == "bias"]
    learn(learner, stream, 0)
    with torch.no_grad():
        owned.tensor.fill_(bias)
    learner.specialists.certificates[0] = learner.specialists.certify(0)
    learn(learner, stream, 1)
    kept = owned.tensor.detach()[learner.specialists.subnetworks[0].mask[owned.owner]]
    assert torch.equal(kept.view(torch.int32), torch.full_like(kept, bias).view(torch.int32))


def test_in_TIL_old_tasks_keep_their_accuracy_to_the_last_digit():
    stream = toy_stream()
    learner = make("snv", "til", stream, capacity=0.3)
    rows = []
    for t in range(3):
        learn(learner, stream, t)
        rows.append([accuracy(learner, stream.test(j), stream.blocks[j]) for j in range(t + 1)])
    assert rows[2][:2] == [rows[0][0], rows[1][1]]


def test_while_a_task_is_learned_no_copy_of_an_earlier_subnetwork_takes_memory():
    stream = toy_stream()
    learner = make("snv", "til", stream, capacity=0.3)
    learn(learner, stream, 0)
    accuracy(learner, stream.test(0), stream.blocks[0])
    assert len(learner.specialists.copies) > 0
    learner.begin_task(stream.task(1))
    assert len(learner.specialists.copies) == 0


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
    overwrite_all_but(learner, 0)
    assert learner.specialists.certify(0) == learner.specialists.certificates[0]
    assert torch.equal(learner.logits(probes(), stream.blocks[0]), before)


def test_one_changed_bit_inside_a_subnetwork_stops_everything():
    learner, _ = learned(2)
    learner.specialists.verify()
    owned = own_weights(learner.specialists.neurons)[0]
    row = int(learner.specialists.subnetworks[0].mask[owned.owner].nonzero()[0])
    with torch.no_grad():
        entry = owned.tensor.view(len(owned.tensor), -1)[row]
        entry[0] = torch.nextafter(entry[0], torch.tensor(9.0))
    with pytest.raises(RuntimeError, match="Task 1 is not what it was when it was frozen"):
        learner.specialists.verify()


def parts(learner) -> dict[tuple[int, str], torch.Tensor]:
    """Everything the learner keeps to tell tasks apart, by task and name."""
    found = {}
    for t, kept in enumerate(learner.specialists.statistics):
        means = {f"class means in task {s + 1}": mean for s, mean in enumerate(kept.means)}
        named = {"energy": kept.energy, "covariance": kept.covariance, **means}
        found |= {(t, name): x for name, x in named.items()}
    return found


def test_in_CIL_one_changed_bit_of_any_statistics_stops_everything():
    learner, stream = learned(2, "cil", common="none")
    learner.specialists.verify()
    for (t, name), x in parts(learner).items():
        before = x.clone()
        x.view(torch.int32).view(-1)[-1] ^= 1
        assert list(learner.specialists.changed()) == [t]
        with pytest.raises(RuntimeError, match=f"Task {t + 1} is not what it was when it was frozen: {name} changed"):
            learner.specialists.verify()
        x.copy_(before)
    assert len(parts(learner)) == 7
    learner.specialists.statistics[0].means[0][0, 0] += 1
    with pytest.raises(RuntimeError, match="class means in task 1 changed"):
        learn(learner, stream, 1)  # whatever it learns, it is told when that is frozen


@pytest.mark.parametrize("forgotten", [0, 1, 2])
def test_the_evidence_of_other_tasks_is_proved_after_one_was_forgotten(forgotten):
    learner, _ = learned(3, "cil", common="none")
    learner.specialists.forget(forgotten, generator(0, "forgotten"))
    assert list(learner.specialists.changed()) == []
    assert [len(certificate.evidence) for certificate in learner.specialists.certificates] == [3, 4]
    learner.specialists.statistics[1].means[0][0, 0] += 1
    assert list(learner.specialists.changed()) == [1]


def test_a_state_of_the_version_before_loads_verifies_and_learns_on(tmp_path):
    stream = toy_stream()
    learner, again = (make("snv", "cil", stream, capacity=0.3, common="none") for _ in range(2))
    for t in range(2):
        learn(learner, stream, t)
    state = learner.state_dict()
    for certificate in state["certificates"]:
        del certificate["evidence"]
    save_state(tmp_path / "old", state)
    again.load_state_dict(load_state(tmp_path / "old"))
    again.specialists.verify()
    for one in (learner, again):
        learn(one, stream, 2)
    assert torch.equal(again.logits(probes(), None), learner.logits(probes(), None))
    assert [len(certificate.evidence) for certificate in again.specialists.certificates] == [0, 0, 5]
    again.specialists.statistics[2].covariance[0, 0] += 1
    assert list(again.specialists.changed()) == [2]
    again.specialists.forget(0, generator(0, "forgotten"))
    assert [len(certificate.evidence) for certificate in again.specialists.certificates] == [0, 4]


def test_no_weight_of_a_frozen_neuron_moves():
    stream = toy_stream()
    learner = make("snv", "til", stream, capacity=0.3)
    learn(learner, stream, 0)
    frozen = learner.specialists.frozen.clone()
    before = [owned.tensor.detach()[frozen[owned.owner]].clone() for owned in own_weights(learner.specialists.neurons)]
    learn(learner, stream, 1)
    after = [owned.tensor.detach()[frozen[owned.owner]] for owned in own_weights(learner.specialists.neurons)]
    assert all(torch.equal(a, b) for a, b in zip(after, before, strict=True))


def test_the_compact_specialist_answers_like_the_certified_masked_network():
    from snv.subnetworks.subnetwork import masked

    learner, _ = learned()
    learner.network.eval()
    for t in range(3):
        with (
            torch.no_grad(),
            masked(learner.specialists.body, learner.specialists.neurons, learner.specialists.subnetworks[t]),
        ):
            expected = learner.network(probes(), t)
        torch.testing.assert_close(learner.specialists.answer(probes(), t)[1], expected, rtol=1e-4, atol=1e-5)


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
        for parameter in learner.trainee.small.parameters():
            parameter += 0.1
    state = cloned(learner.state_dict())
    other = make("snv", "cil", stream, capacity=0.3)
    other.load_state_dict(state)
    learner.trainee.small.eval()
    other.trainee.small.eval()
    assert torch.equal(*(one.logits(probes(), one.scope()) for one in (learner, other)))


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_answers_all_classes(rule):
    learner, stream = learned(2, "cil", rule=rule)
    logits = learner.logits(probes(), None)
    assert logits.shape == (7, 4)
    assert logits.isfinite().all()
    seen = [accuracy(learner, stream.test(j), stream.blocks[j]) for j in range(2)]
    assert max(seen) > 35


OPTIMIZERS = [
    {"optimizer": "sgd", "momentum": 0.9, "lr": 0.05},
    {"optimizer": "sgd", "momentum": 0.9, "lr": 0.05, "weight_decay": 0.01},
    {"optimizer": "adam"},
    {"optimizer": "adam", "weight_decay": 0.01},
    {"optimizer": "adamw", "weight_decay": 0.1},
    {"optimizer": "adam", "patience": 1, "epochs": 12},
    {"optimizer": "adam", "patience": 0},
]


@pytest.mark.parametrize("settings", OPTIMIZERS, ids=lambda o: "-".join(map(str, o.values())))
def test_frozen_weights_are_bit_identical_under_any_optimiser(settings):
    stream = toy_stream()
    learner = make("snv", "til", stream, capacity=0.3)
    learner.setting = dataclasses.replace(learner.setting, train=dataclasses.replace(learner.setting.train, **settings))
    learn(learner, stream, 0)
    frozen = learner.specialists.frozen.clone()
    before = [owned.tensor.detach().clone() for owned in own_weights(learner.specialists.neurons)]
    learn(learner, stream, 1)
    after = [owned.tensor.detach() for owned in own_weights(learner.specialists.neurons)]
    for owned, old, new in zip(own_weights(learner.specialists.neurons), before, after, strict=True):
        held = frozen[owned.owner]
        assert torch.equal(old[held], new[held])
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True)), "something must learn"


def test_on_another_kind_of_machine_answers_may_differ_in_the_last_bits(monkeypatch):
    learner, _ = learned(2)
    learner.specialists.certificates[0] = dataclasses.replace(learner.specialists.certificates[0], logits="others")
    assert list(learner.specialists.changed()) == [0]
    monkeypatch.setattr("snv.subnetworks.certificate.machine_of", lambda _: "another")
    assert list(learner.specialists.changed()) == []
    with torch.no_grad():
        own_weights(learner.specialists.neurons)[0].tensor[learner.specialists.subnetworks[0].mask] += 1
    assert 0 in list(learner.specialists.changed()), "weights must be the same everywhere"


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_with_convolutions_and_norm_layers_old_answers_stay_bit_identical(optimizer):
    stream = toy_stream()
    learner = normed(make("snv", "til", stream))
    train = dataclasses.replace(learner.setting.train, optimizer=optimizer, weight_decay=0.01, epochs=4, lr=0.01)
    learner.setting = dataclasses.replace(learner.setting, train=train)
    learn(learner, stream, 0)
    learner.network.eval()
    before = learner.logits(probes(), stream.blocks[0]).clone()
    for t in (1, 2):
        learn(learner, stream, t)
    learner.network.eval()
    assert torch.equal(before, learner.logits(probes(), stream.blocks[0]))
    overwrite_all_but(learner, 0)
    assert torch.equal(before, learner.logits(probes(), stream.blocks[0]))
    assert learner.specialists.certify(0) == learner.specialists.certificates[0]


def test_weights_from_silent_neurons_into_frozen_ones_are_trained_and_read_ones_are_not():
    stream = toy_stream()
    learner = normed(make("snv", "til", stream))
    learn(learner, stream, 0)
    kept = [entries.clone() for entries in learner.specialists.read_by()]
    before = [owned.tensor.detach().clone() for owned in own_weights(learner.specialists.neurons)]
    rows = learner.specialists.frozen.clone()
    learn(learner, stream, 1)
    into_frozen = 0
    for owned, entries, old in zip(own_weights(learner.specialists.neurons), kept, before, strict=True):
        new = owned.tensor.detach()
        assert torch.equal(new[entries], old[entries])
        if owned.role == "weight":
            into_frozen += int((new != old)[rows[owned.owner]].any())
    assert into_frozen > 0
    learner.specialists.verify()


def test_a_silent_neuron_is_exactly_zero_to_those_who_read_it():
    from snv.subnetworks.subnetwork import masked

    stream = toy_stream()
    learner = normed(make("snv", "til", stream))
    learn(learner, stream, 0)
    kept = learner.specialists.subnetworks[0]
    inputs: dict[str, torch.Tensor] = {}
    layers = learner.specialists.neurons.layers
    hooks = [
        layer.module.register_forward_pre_hook(lambda _, x, name=layer.name: inputs.update({name: x[0]}))
        for layer in layers
    ]
    learner.network.eval()
    with torch.no_grad(), masked(learner.specialists.body, learner.specialists.neurons, kept):
        learner.network(probes(), 0)
    for hook in hooks:
        hook.remove()
    below = kept.mask[layers[0].neurons]
    assert bool((inputs[layers[1].name][:, ~below] == 0).all())
    assert bool((inputs[layers[1].name][:, below] != 0).any())


def test_forgetting_redraws_every_weight_that_no_other_task_reads():
    stream = toy_stream()
    learner = normed(make("snv", "til", stream), capacity=0.6, reuse="counted", size="top-k")
    for t in range(3):
        learn(learner, stream, t)
    others = [a | b for a, b in zip(learner.specialists.read_by([0]), learner.specialists.read_by([2]), strict=True)]
    shared = learner.specialists.subnetworks[0].mask | learner.specialists.subnetworks[2].mask
    parts = zip(learner.specialists.read_by([1]), others, own_weights(learner.specialists.neurons), strict=True)
    assert any(bool((read & ~theirs)[shared[owned.owner]].any()) for read, theirs, owned in parts), "also between those"
    before = [owned.tensor.detach().clone() for owned in own_weights(learner.specialists.neurons)]
    answers = [learner.logits(probes(), stream.blocks[t]) for t in (0, 2)]
    learner.specialists.forget(1, generator(0, "forgotten"))
    for owned, theirs, old in zip(own_weights(learner.specialists.neurons), others, before, strict=True):
        new = owned.tensor.detach()
        assert torch.equal(new[theirs], old[theirs])
        assert owned.role == "bias" or not bool((new[~theirs] == old[~theirs]).any())
    assert list(learner.specialists.changed()) == []
    assert all(torch.equal(a, learner.specialists.logits(probes(), t)) for t, a in enumerate(answers))
    assert all(
        bool((owned.tensor != 0).all()) for owned in learner.specialists.neurons.owned if owned.attribute == "weight"
    ), "a silent neuron would not learn"


@pytest.mark.parametrize("stage", [0, 1])
def test_with_norm_layers_and_frozen_rows_a_cut_task_goes_on_with_the_same_bits(stage, tmp_path):
    stream = toy_stream()
    whole, cut = normed(make("snv", "cil", stream)), normed(make("snv", "cil", stream))
    for learner in (whole, cut):
        learn(learner, stream, 0)
    learn(whole, stream, 1)
    task = stream.task(1).without_test()
    cut.begin_task(task)
    for index in range(stage):
        Training(cut, task, cut.stage(task, index)).run()
        cut.end_stage(task, cut.stage(task, index))
    training = Training(cut, task, cut.stage(task, stage))
    training.train_one_epoch()
    save_state(tmp_path / "cut", {"learner": cut.state_dict(), "training": training.state_dict()})
    state = load_state(tmp_path / "cut")
    again = normed(make("snv", "cil", stream, seed=5))
    again.setting = cut.setting
    again.load_state_dict(state["learner"])
    Training(again, task, again.stage(task, stage), state["training"]).run()
    again.end_stage(task, again.stage(task, stage))
    for index in range(stage + 1, 2):
        Training(again, task, again.stage(task, index)).run()
        again.end_stage(task, again.stage(task, index))
    again.end_task(task)
    assert_same(again.state_dict(), whole.state_dict())
