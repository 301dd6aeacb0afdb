"""Rules of class-incremental inference against answers worked out by hand."""

from __future__ import annotations

import torch

from snv.subnetworks.rules import (
    RULES,
    SHRINKAGE,
    Evidence,
    concatenated,
    density,
    energy,
    energy_z,
    max_prob,
    measure,
    sample_of_all,
)

LOGITS = [torch.tensor([[9.0, 8.9]]), torch.tensor([[3.0, -3.0]])]


def evidence(logits=LOGITS, energies=((0.0, 1.0), (0.0, 1.0)), **more) -> Evidence:
    made = [
        measure(torch.tensor([0, 1]), [torch.zeros(2, 3)] * (t + 1), torch.zeros(2, 2), 2) for t in range(len(logits))
    ]
    for statistics, (mean, deviation) in zip(made, energies, strict=True):
        statistics.energy.copy_(torch.tensor([mean, deviation]))
    return Evidence(list(logits), [torch.zeros(1, 3)] * len(logits), made, **more)


def test_concatenated_believes_the_largest_logit_and_max_prob_the_surest_head():
    assert int(concatenated(evidence()).argmax()) == 0
    assert int(max_prob(evidence()).argmax()) == 2


def test_energy_believes_the_largest_and_energy_z_the_least_unusual():
    assert int(energy(evidence()).argmax()) == 0
    unusual = evidence(energies=((20.0, 1.0), (3.0, 1.0)))  # 9.6 is low for task 1, 3.0 is usual for task 2
    assert int(energy_z(unusual).argmax()) == 2


def test_a_believed_task_comes_before_all_others_whole():
    scores = energy(evidence())[0]
    assert scores[:2].min() > scores[2:].max()


def test_density_finds_the_nearest_class_under_the_specialists_own_metric():
    labels = torch.arange(2).repeat(200)
    rng = torch.Generator().manual_seed(0)
    wide = torch.tensor([10.0, 0.1])  # the first feature is noise, the second tells

    def images(centre):
        return torch.randn(400, 2, generator=rng) * wide + torch.tensor([[0.0, centre], [0.0, centre + 2]])[labels]

    first = measure(labels, [images(0.0)], torch.randn(400, 2, generator=rng), 2)
    later = measure(labels, [images(4.0), images(0.0)], torch.randn(400, 2, generator=rng), 2)
    for truth, centre in enumerate([0.0, 2.0, 4.0, 6.0]):
        said = torch.tensor([[25.0, centre]])  # far along the noisy feature
        # the second specialist knows classes 2 and 3 only, at 0 and 2 of its own features
        own = torch.tensor([[0.0, 0.0 if truth < 3 else 2.0]])
        scores = density(Evidence([torch.zeros(1, 2)] * 2, [said, own], [first, later]))
        assert int(scores.argmax()) == truth


def test_density_equals_the_mean_of_log_posteriors_written_as_loops():
    rng = torch.Generator().manual_seed(1)
    labels = torch.arange(3).repeat(20)
    features = [[torch.randn(60, 4 + s, generator=rng) for s in range(t + 1)] for t in range(3)]
    statistics = [measure(labels, features[t], torch.zeros(60, 3), 3) for t in range(3)]
    x = [torch.randn(5, 4 + s, generator=rng) for s in range(3)]
    found = density(Evidence([torch.zeros(5, 3)] * 3, x, statistics))
    for b in range(5):
        totals, counts = torch.zeros(9).double(), torch.zeros(9).double()
        for s in range(3):
            own = features[s][s]
            within = sum(torch.cov(own[labels == c].T.double(), correction=0) * 20 for c in range(3)) / 57
            shrunk = (1 - SHRINKAGE) * within + SHRINKAGE * within.diagonal().mean() * torch.eye(4 + s)
            scores = []
            for t in range(s, 3):
                for c in range(3):
                    apart = x[s][b].double() - features[t][s][labels == c].double().mean(0)
                    scores.append(-0.5 * apart @ torch.linalg.inv(shrunk) @ apart)
            totals[3 * s :] += torch.stack(scores).log_softmax(0)
            counts[3 * s :] += 1
        torch.testing.assert_close(found[b].double(), totals / counts, rtol=1e-4, atol=1e-4)


def test_combined_adds_two_log_posteriors():
    rng = torch.Generator().manual_seed(2)
    labels = torch.arange(2).repeat(20)
    statistics = [
        measure(labels, [torch.randn(40, 3, generator=rng) for _ in range(t + 1)], torch.zeros(40, 2), 2)
        for t in range(2)
    ]
    said = Evidence(
        [torch.randn(4, 2, generator=rng) for _ in range(2)],
        [torch.randn(4, 3, generator=rng) for _ in range(2)],
        statistics,
    )
    expected = density(said) + torch.cat(said.logits, 1).log_softmax(1)
    torch.testing.assert_close(RULES["combined"](said), expected)


def test_few_images_of_many_features_still_have_a_precision():
    statistics = measure(torch.tensor([0, 1, 1]), [torch.randn(3, 40)], torch.randn(3, 2), 2)
    assert statistics.precision.isfinite().all()


def test_statistics_survive_as_a_state():
    statistics = evidence().statistics[1]
    again = type(statistics).from_state(statistics.state())
    assert torch.equal(again.covariance, statistics.covariance)
    assert len(again.means) == 2


def test_every_rule_is_listed():
    assert set(RULES) == {
        "single-head",
        "concatenated",
        "max-prob",
        "energy",
        "energy-z",
        "density",
        "combined",
    }


def test_a_rare_class_is_measured_too():
    labels = torch.tensor([0] * 50 + [1] * 2 + [2] * 48)
    order = torch.cat([torch.arange(50), torch.arange(52, 100), torch.tensor([51, 50])])
    rows = sample_of_all(labels, order, 10)
    assert rows[:10].tolist() == list(range(10))
    assert sorted(labels[rows[10:]].tolist()) == [1, 2]
    assert torch.equal(sample_of_all(labels, torch.arange(100), 60), torch.arange(60))
