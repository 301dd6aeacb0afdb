"""NISPA in TIL forgets nothing, to the last bit, because stable units read stable units only."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sparse_toy import OPTIMISERS, adapted, large_stream, probes, trained
from test_learner_contract import assert_same
from toy import learn, make, toy_stream

from snv.errors import UserError
from snv.files import cloned
from snv.learners.nispa import NISPA, like_others, most_active, n_phases, schedule, threshold
from snv.metrics.transfer import backward_transfer
from snv.runs.evaluate import accuracy
from snv.training.loop import Training
from snv.training.reporter import Reporter
from snv.training.task import Place, learn_task


def check_that_nothing_is_forgotten(learner, stream, images):
    """Stable features and logits of every task stay bit-identical while other weights do change.

    Phases may lose what they like, so that enough units stay plastic.
    """
    n = len(stream.blocks)
    matrix, logits, features, weights = np.zeros((n, n)), [], [], []
    for t in range(n):
        learn(learner, stream, t)
        learner.network.eval()
        with torch.no_grad():
            logits.append(learner.logits(images, stream.blocks[t]))
            stable = learner.stable[learner.units.features]
            features.append((stable, learner.network.features(images)[:, stable]))
        weights.append(trained(learner))
        matrix[t, : t + 1] = [accuracy(learner, stream.test(j), stream.blocks[j]) for j in range(t + 1)]
    with torch.no_grad():
        now = learner.network.features(images)
        for t, (stable, before) in enumerate(features):
            assert stable.any()
            assert torch.equal(now[:, stable], before)
            assert torch.equal(learner.logits(images, stream.blocks[t]), logits[t])
            assert logits[t].std() > 0
    assert any(not torch.equal(x, weights[0][name]) for name, x in weights[-1].items())
    if learner.setting.scenario == "til":
        assert backward_transfer(matrix) == 0.0


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=lambda o: f"{o['optimizer']}-{o.get('weight_decay', 0)}")
def test_stable_units_and_old_logits_stay_bit_identical_and_BWT_is_exactly_0(optimiser):
    stream = toy_stream()
    learner = adapted("nispa", "til", stream, tolerance=100, **optimiser)
    check_that_nothing_is_forgotten(learner, stream, probes())


def test_the_authors_network_forgets_nothing_either():
    stream = toy_stream(2)
    learner = make("nispa", "til", stream, epochs=4, tolerance=100)
    assert [len(layer) for layer in learner.units.layers] == [64, 64, 128, 128, 1024]
    check_that_nothing_is_forgotten(learner, stream, probes())


def test_nor_does_a_residual_network_whose_streams_are_units():
    stream = large_stream()
    learner = adapted("nispa", "til", stream, "resnet18", width=4, epochs=4, tolerance=100)
    check_that_nothing_is_forgotten(learner, stream, probes(16))


def test_in_CIL_old_logits_stand_still_too():
    stream = toy_stream()
    check_that_nothing_is_forgotten(adapted("nispa", "cil", stream, tolerance=100), stream, probes())


def phases_of(learner, task):
    """Every phase of a task, before and after its rewiring."""
    learner.begin_task(task)
    index = 0
    while (stage := learner.stage(task, index)) is not None:
        Training(learner, task, stage).run()
        before = cloned({"mask": dict(learner.mask), "candidates": learner.candidates})
        learner.end_stage(task, stage)
        yield index + 1, before
        index += 1


def counts(learner):
    return {name: int(mask.sum()) for name, mask in learner.mask.items() if name != "head"}


def test_rewiring_leaves_no_connection_from_plastic_units_to_candidates_and_as_many_as_there_were():
    stream = toy_stream()
    learner = adapted("nispa", "til", stream, width=12, epochs=16, tolerance=100)
    first = counts(learner)
    for t in range(2):
        task, rewired = stream.task(t).without_test(), 0
        for _, before in phases_of(learner, task):
            for c in learner.connections():
                mask = learner.mask[c.name]
                assert not (mask & c.between(~learner.candidates, learner.candidates)).any()
                assert not c.weight.detach()[~mask].any()
            rewired += any(not torch.equal(learner.mask[name], mask) for name, mask in before["mask"].items())
            room = {c.name: int((~learner.candidates[c.targets]).sum()) * len(c.sources) for c in learner.connections()}
            assert all(n == first[name] for name, n in counts(learner).items() if room[name] >= first[name])
            assert all(n <= first[name] for name, n in counts(learner).items())
        assert rewired >= 2
        learner.end_task(task)


def test_stable_units_only_increase_and_what_is_between_them_never_changes():
    stream = toy_stream()
    learner = adapted("nispa", "til", stream, width=12)
    stable, frozen = learner.stable, []
    for t in range(3):
        learn(learner, stream, t)
        assert not (stable & ~learner.stable).any()
        stable = learner.stable.clone()
        for c, entries, values in frozen:
            assert torch.equal(c.weight.detach()[entries], values)
        for c in learner.units.connections:
            entries = c.between(stable, stable)
            frozen.append((c, entries, c.weight.detach()[entries].clone()))
    assert stable[: learner.units.n].any()


def test_a_phase_is_kept_with_the_candidates_its_connections_were_made_for():
    stream = toy_stream()
    learner = adapted("nispa", "til", stream, width=12, epochs=12, tolerance=100)
    for phase, before in phases_of(learner, stream.task(0).without_test()):
        assert_same(learner.cached["candidates"], before["candidates"])
        assert_same(learner.cached["mask"], before["mask"])
        if phase == 1:
            assert not before["candidates"][: learner.units.n].any()
            assert not torch.equal(learner.candidates, before["candidates"])


def test_a_task_ends_with_the_last_phase_that_was_good_enough(monkeypatch):
    stream = toy_stream()
    learner = adapted("nispa", "til", stream, width=12, epochs=20, tolerance=5)
    marks = {1: 90.0, 2: 50.0, 3: 86.0, 4: 84.9}
    monkeypatch.setattr(NISPA, "_accuracy", lambda self, task, stage: marks[int(stage.name.split()[1])])
    task = stream.task(0).without_test()
    kept = dict(phases_of(learner, task))
    assert list(kept) == [1, 2, 3, 4], "the second may be bad, the fourth lost 5.1 points"
    learner.end_task(task)
    assert torch.equal(learner.stable[:-1], kept[3]["candidates"][:-1])
    assert_same(learner.mask, {name: mask for name, mask in kept[3]["mask"].items() if name != "head"})


def test_thresholds_fall_along_a_cosine_and_the_authors_schedule_fits_in_their_epochs():
    assert [round(threshold(p, 4), 4) for p in range(5)] == [1.0, 0.8536, 0.5, 0.1464, 0.0]
    assert n_phases(30) == 25
    assert schedule(200, 5, 30) == (5, 30)
    assert schedule(20, 5, 30) == (5, 5)
    assert schedule(8, 5, 30) == (2, 5)
    assert schedule(1, 5, 30) == (1, 3)
    for epochs in range(4, 200):
        length, steps = schedule(epochs, 5, 30)
        assert 2 <= n_phases(steps) <= epochs // length


def test_candidates_are_the_shortest_prefix_of_the_most_active_units():
    amounts = torch.rand(40, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) ** 3
    for share in (0.1, 0.5, 0.9, 1.0):
        ranked, total, chosen = sorted(range(40), key=lambda i: -amounts[i]), 0.0, set()
        for i in ranked:
            if total >= share * float(amounts.sum()) - 1e-12:
                break
            chosen.add(i)
            total += float(amounts[i])
        assert set(most_active(amounts, share).nonzero()[:, 0].tolist()) == chosen


def test_new_weights_have_mean_and_deviation_of_the_layers():
    weights = 3 + 0.5 * torch.randn(500, 3, 3, generator=torch.Generator().manual_seed(0))
    drawn = like_others(weights, 400, torch.Generator().manual_seed(1))
    assert drawn.shape == (400, 3, 3)
    assert abs(float(drawn.mean()) - 3) < 0.05
    assert abs(float(drawn.std()) - 0.5) < 0.05
    assert like_others(weights[:0], 2, torch.Generator().manual_seed(1)).isfinite().all()


def test_what_is_not_frozen_is_drawn_anew_at_the_end_of_a_task():
    stream = toy_stream()
    learner = adapted("nispa", "til", stream, width=12, epochs=16, tolerance=100)
    task = stream.task(0).without_test()
    for _ in phases_of(learner, task):
        pass
    old = cloned(learner.cached["network"])
    learner.end_task(task)
    plastic = ~learner.stable
    assert plastic[: learner.units.n].any()
    for c in learner.units.connections:
        entries = learner.mask[c.name] & ~c.between(learner.stable, learner.stable)
        before = old[f"body.{c.name}.weight"]
        assert (c.weight.detach()[entries] != before[entries]).all()
        assert torch.equal(c.weight.detach()[~entries], before[~entries])
    for owned in learner.neurons.owned:
        if owned.role == "norm":
            rows = plastic[learner.units.of_neuron[owned.owner]]
            assert (owned.tensor.detach()[rows] == float(owned.attribute == "weight")).all()


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_training_compares_the_classes_of_the_task_or_all_seen(scenario):
    stream = toy_stream()
    learner = adapted("nispa", scenario, stream)
    learn(learner, stream, 0)
    task = stream.task(1).without_test()
    learner.begin_task(task)
    labels = torch.tensor([2, 3, 2, 3, 2, 3, 3])
    logits = torch.cat([head(learner.network.features(probes())) for head in learner.network.heads], 1)
    plain = F.cross_entropy(logits, labels) if scenario == "cil" else F.cross_entropy(logits[:, 2:], labels - 2)
    torch.testing.assert_close(learner.validation(probes(), labels, learner.stage(task, 0))[0], plain)


def test_the_first_convolution_is_dense_and_the_others_have_their_share():
    learner = adapted("nispa", "til", toy_stream(), width=8, sparsity=0.75)
    shares = {name: float(mask.double().mean()) for name, mask in learner.mask.items()}
    assert shares == {"conv1": 1.0, "conv2": 0.25, "conv3": 0.25, "conv4": 0.25}


def test_cut_in_the_middle_of_a_phase_it_goes_on_with_the_same_bits():
    stream = toy_stream()
    whole, cut = (adapted("nispa", "til", stream, tolerance=100) for _ in range(2))
    for learner in (whole, cut):
        learn(learner, stream, 0)
    learn(whole, stream, 1)
    saved = {}

    def keep(training: Training) -> None:
        if (training.stage.name, training.progress.epoch, training.progress.step) == ("phase 3", 1, 1):
            saved.update(cloned({"learner": cut.state_dict(), "training": training.state_dict()}))

    cut.reporter = Reporter(on_step=keep)
    task = stream.task(1).without_test()
    learn_task(cut, task)
    resumed = adapted("nispa", "til", stream, tolerance=100)
    resumed.load_state_dict(saved["learner"])
    learn_task(resumed, task, Place(2, saved["training"]))
    assert_same(resumed.state_dict(), whole.state_dict())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sparsity": 1.0}, r"sparsity .* lies in \[0, 1\); got 1"),
        ({"phase_epochs": 0}, r"phase_epochs is at least 1.*got 0"),
        ({"steps": 2}, r"steps is at least 3.*got 2"),
        ({"tolerance": -1}, r"tolerance lies in \[0, 100\]; got -1"),
        ({"strength": 0}, r"strength is positive; got 0"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        NISPA.Config(**settings)
