"""SNV forgets nothing: proven by evaluation, by certificates, and by overwriting everything a task does not own."""

from __future__ import annotations

import dataclasses
import itertools
import weakref

import pytest
import torch
from test_learner_contract import assert_same
from toy import learn, make, toy_stream

from snv.data.augment import Preprocess
from snv.data.task import InMemory
from snv.errors import UserError
from snv.files import cloned, load_state, save_state
from snv.learners.snv import sample_of_all
from snv.networks import build_network
from snv.neurons.wiring import own_weights
from snv.runs.evaluate import accuracy
from snv.shapley.estimate import estimate
from snv.subnetworks.rules import RULES
from snv.training.loop import Training
from snv.training.setting import EVALUATION_BATCH
from snv.valuation.scores import SCORES


def learned(n_tasks: int = 3, scenario: str = "til", **config):
    stream = toy_stream(n_tasks)
    learner = make("snv", scenario, stream, capacity=0.3, **config)
    for t in range(n_tasks):
        learn(learner, stream, t)
    return learner, stream


def probes() -> torch.Tensor:
    return torch.randn(7, 1, 8, 8, generator=torch.Generator().manual_seed(5))


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
    learner.specialists._cut_out.clear()


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
    learner, stream = learned(2, "cil")
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
    learner, _ = learned(3, "cil")
    learner.forget(forgotten)
    assert list(learner.specialists.changed()) == []
    assert [len(certificate.evidence) for certificate in learner.specialists.certificates] == [3, 4]
    learner.specialists.statistics[1].means[0][0, 0] += 1
    assert list(learner.specialists.changed()) == [1]


def test_a_state_of_the_version_before_loads_verifies_and_learns_on(tmp_path):
    stream = toy_stream()
    learner, again = (make("snv", "cil", stream, capacity=0.3) for _ in range(2))
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
    again.forget(0)
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

    learner, stream = learned()
    learner.network.eval()
    for t in range(3):
        with (
            torch.no_grad(),
            masked(learner.specialists.body, learner.specialists.neurons, learner.specialists.subnetworks[t]),
        ):
            expected = learner.network(probes(), t)
        torch.testing.assert_close(learner.logits(probes(), stream.blocks[t]), expected, rtol=1e-4, atol=1e-5)


def test_counted_reuse_keeps_exactly_the_budget_and_free_reuse_more():
    counted, _ = learned(3, reuse="counted", size="top-k")
    free, _ = learned(3, reuse="free", size="top-k")
    budget = int(0.3 * counted.specialists.neurons.n)
    assert all(int(s.mask.sum()) == budget for s in counted.specialists.subnetworks)
    assert int(free.specialists.subnetworks[2].mask.sum()) >= budget
    assert int(free.specialists.frozen.sum()) >= int(counted.specialists.frozen.sum())


def test_capacity_is_the_share_of_parameters_frozen():
    learner, _ = learned(1, reuse="counted")
    told = learner.capacity()
    assert told["neurons"] == pytest.approx(float(learner.specialists.frozen.double().mean()))
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
        for parameter in learner.trainee.small.parameters():
            parameter += 0.1
    state = cloned(learner.state_dict())
    other = make("snv", "cil", stream, capacity=0.3)
    other.load_state_dict(state)
    learner.trainee.small.eval()
    other.trainee.small.eval()
    assert torch.equal(learner.task_logits(probes()), other.task_logits(probes()))


@pytest.mark.parametrize("key", ["capacity", "largest", "dense_share"])
def test_a_share_outside_its_range_is_refused(key):
    with pytest.raises(UserError, match=f"learner.{key} is a share"):
        make("snv", "til", toy_stream(), **{key: 1.5})


SWITCHES = [
    {"size": "top-k"},
    {"reuse": "none"},
    {"reuse": "counted"},
    {"estimator": "hybrid", "draws": 8},
    {"estimator": "montecarlo", "draws": 4},
    {"estimator": "truncated", "draws": 4},
    {"estimator": "tmab", "draws": 4},
    {"estimator": "in-run"},
    *({"estimator": name} for name in SCORES if name != "norm-gamma"),
]


@pytest.mark.parametrize("options", SWITCHES, ids=lambda o: "-".join(map(str, o.values())))
def test_every_switch_learns(options):
    learner, stream = learned(2, **options)
    assert accuracy(learner, stream.test(1), stream.blocks[1]) > 60


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


def test_a_full_network_is_announced_before_the_task_and_still_learns_by_reuse(caplog):
    stream = toy_stream(4)
    learner = make("snv", "til", stream, epochs=16, capacity=0.5, size="top-k")
    with caplog.at_level("INFO"):
        for t in range(4):
            learn(learner, stream, t)
    assert bool(learner.specialists.frozen.all())
    assert "is full after task 2 of 4" in caplog.text
    assert "finds the network full: all 24 neurons are frozen" in caplog.text
    assert all(accuracy(learner, stream.test(t), stream.blocks[t]) > 60 for t in range(4))
    learner.specialists.verify()


def test_without_reuse_a_layer_too_small_for_all_tasks_is_refused_before_training():
    stream = toy_stream(4)
    learner = make("snv", "til", stream, reuse="none")
    learner.setting = dataclasses.replace(learner.setting, n_tasks=25)
    with pytest.raises(UserError, match=r"Task 1 does not fit: .* has 24 free neurons for 25 tasks"):
        learner.begin_task(stream.task(0).without_test())
    assert learner.blocks == []


def test_without_reuse_a_task_leaves_every_later_one_its_part_of_every_layer():
    stream = toy_stream(4)
    learner = normed(make("snv", "til", stream), reuse="none", capacity=0.9, size="top-k")
    for t in range(4):
        learn(learner, stream, t)
    assert all(
        int(part.sum()) >= 1
        for s in learner.specialists.subnetworks
        for _, part in learner.specialists.neurons.by_layer(s.mask)
    )
    assert int(sum(s.mask.long() for s in learner.specialists.subnetworks).max()) == 1


def test_no_reuse_means_disjoint_subnetworks():
    learner, _ = learned(3, reuse="none")
    total = sum(s.mask.long() for s in learner.specialists.subnetworks)
    assert int(total.max()) == 1


def test_a_share_of_what_remains_never_fills_the_network():
    learner, _ = learned(3)
    free = [learner.specialists.neurons.n]
    union = torch.zeros(learner.specialists.neurons.n, dtype=torch.bool)
    for subnetwork in learner.specialists.subnetworks:
        union |= subnetwork.mask
        free.append(int((~union).sum()))
    new = [before - after for before, after in itertools.pairwise(free)]
    assert new == [max(1, int(0.3 * left)) for left in free[:-1]]
    assert free[-1] > 0


def test_no_subnetwork_is_larger_than_allowed():
    learner, _ = learned(3, largest=0.4)
    assert all(int(s.mask.sum()) <= 0.4 * learner.specialists.neurons.n for s in learner.specialists.subnetworks)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"estimator": "gradent"}, "gradient"),
        ({"rule": "densty"}, "density"),
        ({"draws": 0}, "learner.draws is at least 1"),
        ({"floor": 0.1}, "learner.floor is a setting of truncated and tmab; learner.estimator=gradient has none"),
        (
            {"confidence": 0.9},
            "learner.confidence is a setting of tmab and hybrid; learner.estimator=gradient",
        ),
        ({"floor": 1.0, "estimator": "tmab"}, "floor is a share"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(options, said):
    with pytest.raises(UserError, match=said):
        make("snv", "til", toy_stream(), **options)


def test_values_from_training_survive_a_best_epoch_that_is_not_the_last():
    stream = toy_stream()
    learner = make("snv", "til", stream, epochs=12, estimator="in-run", dense_share=0.9)
    learner.begin_task(stream.task(0).without_test())
    stage = learner.stage(stream.task(0).without_test(), 0)
    training = Training(learner, stream.task(0).without_test(), stage)
    for _ in range(3):
        training.train_one_epoch()
    training.progress.best_epoch = training.progress.epoch - 1 - stage.settings.patience  # as if none had been better
    training.run()
    learner.end_stage(stream.task(0).without_test(), stage)
    assert learner.values[0].abs().max() > 0
    assert len(learner.values[0].unique()) > 12


def test_a_rare_class_is_measured_too():
    labels = torch.tensor([0] * 50 + [1] * 2 + [2] * 48)
    order = torch.cat([torch.arange(50), torch.arange(52, 100), torch.tensor([51, 50])])
    rows = sample_of_all(labels, order, 10)
    assert rows[:10].tolist() == list(range(10))
    assert sorted(labels[rows[10:]].tolist()) == [1, 2]
    assert torch.equal(sample_of_all(labels, torch.arange(100), 60), torch.arange(60))


def test_on_another_kind_of_machine_answers_may_differ_in_the_last_bits(monkeypatch):
    learner, _ = learned(2)
    learner.specialists.certificates[0] = dataclasses.replace(learner.specialists.certificates[0], logits="others")
    assert list(learner.specialists.changed()) == [0]
    monkeypatch.setattr("snv.subnetworks.certificate.machine_of", lambda _: "another")
    assert list(learner.specialists.changed()) == []
    with torch.no_grad():
        own_weights(learner.specialists.neurons)[0].tensor[learner.specialists.subnetworks[0].mask] += 1
    assert 0 in list(learner.specialists.changed()), "weights must be the same everywhere"


def normed(learner, **config):
    """The same with a small convolutional network that has norm layers."""
    setting = dataclasses.replace(
        learner.setting, network=build_network("convnet", learner.setting.preprocess.shape, 0, width=6)
    )
    return type(learner)(setting, type(learner.config)(**{"capacity": 0.3, **config}))


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


def test_capacity_counts_the_weights_that_any_task_reads():
    stream = toy_stream()
    learner = normed(make("snv", "til", stream))
    learn(learner, stream, 0)
    total = sum(p.numel() for p in learner.specialists.body.parameters())
    mask = learner.specialists.subnetworks[0].mask
    parts = learner.specialists.neurons.owned
    per_task = sum(int(mask[owned.owner].sum()) for owned in parts if owned.role == "norm")
    read = sum(part.weights.numel() for part in learner.specialists.reads(0))
    rows = sum(owned.tensor[mask[owned.owner]].numel() for owned in own_weights(learner.specialists.neurons))
    assert learner.capacity()["parameters"] == pytest.approx((read + per_task) / total)
    assert read < 0.7 * rows, "weights from silent neurons are not read"


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
    learner.forget(1)
    for owned, theirs, old in zip(own_weights(learner.specialists.neurons), others, before, strict=True):
        new = owned.tensor.detach()
        assert torch.equal(new[theirs], old[theirs])
        assert owned.role == "bias" or not bool((new[~theirs] == old[~theirs]).any())
    assert list(learner.specialists.changed()) == []
    assert all(torch.equal(a, learner.logits(probes(), b)) for a, b in zip(answers, learner.blocks, strict=True))
    assert all(
        bool((owned.tensor != 0).all()) for owned in learner.specialists.neurons.owned if owned.attribute == "weight"
    ), "a silent neuron would not learn"


@pytest.mark.parametrize(("estimator", "floor"), [("tmab", 0.2), ("hybrid", None)])
def test_the_cut_that_was_estimated_is_the_one_that_was_made(estimator, floor, monkeypatch):
    found = []

    def spied(*arguments, **settings):
        found.append((estimate(*arguments, **settings), settings))
        return found[-1][0]

    monkeypatch.setattr("snv.learners.snv_values.estimate", spied)
    learner, _ = learned(2, estimator=estimator, draws=4, floor=floor, confidence=0.9)
    valuation, settings = found[1]
    old, new = learner.specialists.subnetworks[0].mask, learner.specialists.subnetworks[1].mask
    assert torch.equal(settings["candidates"], ~old)
    assert settings["confidence"] == 0.9
    assert settings.get("floor") == floor
    assert sorted(valuation.top_k().tolist()) == (new & ~old).nonzero()[:, 0].tolist()


def test_exact_values_of_a_large_network_are_refused_before_training():
    with pytest.raises(UserError, match="exact values up to 16 neurons; this network has 24"):
        make("snv", "til", toy_stream(), estimator="exact")


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


def test_a_task_is_valued_and_measured_with_two_batches_of_its_images_in_memory(monkeypatch):
    monkeypatch.setattr("snv.valuation.examples.ROOM", 0)
    alive, prepared, plain = [0], [0, 0], Preprocess.__call__

    def gone(n: int) -> None:
        alive[0] -= n

    def watched(self, *arguments):
        images = plain(self, *arguments)
        alive[0] += len(images)
        prepared[:] = prepared[0] + len(images), max(prepared[1], alive[0])
        weakref.finalize(images, gone, len(images))
        return images

    stream = toy_stream(1)
    learner = make("snv", "cil", stream, capacity=0.3)
    task = stream.task(0)
    task = dataclasses.replace(task, train=repeated(task.train), val=repeated(task.val), test=None)
    learner.begin_task(task)
    monkeypatch.setattr(Preprocess, "__call__", watched)
    learner.end_stage(task, learner.stage(task, 0))
    learner.end_stage(task, learner.stage(task, 1))
    learner.end_task(task)
    total, most = prepared
    assert total > 1500
    assert most <= 2 * EVALUATION_BATCH


def repeated(split: InMemory) -> InMemory:
    return InMemory(split.pixels.repeat(50, 1, 1, 1), split.labels.repeat(50))


def test_what_a_valuation_said_goes_with_its_task():
    learner, _ = learned(3)
    first, _, third = learner.valuations
    assert first["estimator"] == "gradient"
    values = learner.values[2]
    learner.forget(1)
    assert learner.valuations == [first, third]
    assert torch.equal(learner.values[1], values)


def test_a_state_from_before_valuations_were_kept_is_taken_and_its_tasks_can_be_forgotten():
    learner, stream = learned(2)
    state = cloned(learner.state_dict())
    del state["valuations"]
    again = make("snv", "til", stream, capacity=0.3)
    again.load_state_dict(state)
    assert again.valuations == [None, None]
    again.forget(0)
    assert again.valuations == [None]
