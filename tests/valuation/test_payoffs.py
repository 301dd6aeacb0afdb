"""What a coalition earns: named scores, a difference between groups, or any function of logits and labels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from snv.errors import UserError
from snv.valuation.neuron_game import NeuronGame
from snv.valuation.payoffs import PAYOFFS
from snv.valuation.value import value_neurons


@pytest.fixture(scope="module")
def game():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)).eval()
    rng = torch.Generator().manual_seed(1)
    return NeuronGame(model, torch.randn(12, 5, generator=rng), torch.randint(3, (12,), generator=rng))


def coalitions(n, p=5):
    rng = torch.Generator().manual_seed(2)
    return torch.rand(p, n, generator=rng) < torch.rand(p, 1, generator=rng)


def test_disparity_is_minus_the_largest_difference_between_groups(game):
    groups = torch.arange(12) % 3
    fair = NeuronGame(game.model, game.images, game.labels, game.neurons, "disparity", groups=groups)
    game.model.eval()
    with torch.no_grad():
        hits = (game.model(game.images).argmax(1) == game.labels).double()
    scores = [hits[groups == g].mean().item() for g in range(3)]
    assert fair.everyone == pytest.approx(-(max(scores) - min(scores)))
    assert not fair.samples_examples
    with pytest.raises(UserError, match="groups"):
        NeuronGame(game.model, game.images, game.labels, game.neurons, "disparity")


def test_a_callable_may_score_examples_or_all_of_them(game):
    chosen = coalitions(game.n)

    def each(logits, labels):
        return -F.cross_entropy(logits, labels, reduction="none")

    def all_at_once(logits, labels):
        return -F.cross_entropy(logits, labels)

    for payoff, samples in [(each, True), (all_at_once, False)]:
        own = NeuronGame(game.model, game.images, game.labels, game.neurons, payoff, means=game.means)
        assert own.samples_examples == samples
        torch.testing.assert_close(own.values(chosen), game.values(chosen))
        torch.testing.assert_close(own.gradient(chosen.float())[0], game.gradient(chosen.float())[0])


def test_unknown_or_impossible_payoffs_are_answered(game):
    with pytest.raises(UserError, match="Did you mean 'accuracy'"):
        NeuronGame(game.model, game.images, game.labels, game.neurons, "acuracy")
    with pytest.raises(UserError, match="one number per example"):
        NeuronGame(game.model, game.images, game.labels, game.neurons, lambda logits, labels: logits)
    assert set(PAYOFFS) == {"loss", "accuracy", "probability", "disparity"}


@pytest.mark.parametrize("payoff", ["loss", "accuracy", "probability"])
def test_every_payoff_can_be_valued_by_gradient_and_exactly(game, payoff):
    for method in ("gradient", "exact"):
        assert torch.isfinite(value_neurons(game.model, (game.images, game.labels), method, payoff=payoff).values).all()


def test_disparity_between_groups_is_a_payoff(game):
    groups = torch.arange(12) % 2
    found = value_neurons(game.model, (game.images, game.labels), "exact", payoff="disparity", groups=groups)
    assert found.values.sum() == pytest.approx(found.v_all - found.v_none)


def test_a_callable_is_a_payoff(game):
    def margin(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return logits.gather(1, labels[:, None])[:, 0] - logits.mean(1)

    assert torch.isfinite(value_neurons(game.model, (game.images, game.labels), payoff=margin, draws=4).values).all()
