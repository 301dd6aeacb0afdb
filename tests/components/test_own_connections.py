"""A task's connections as parameters: nothing else can move."""

from __future__ import annotations

import torch

from snv.components.own_connections import OwnConnections, added_importance
from snv.networks import build_network
from snv.neurons import find_neurons, units_of


def test_importance_of_a_kernel_is_summed_over_its_weights():
    before, after, gradient = torch.randn(3, 5, 2, 2, generator=torch.Generator().manual_seed(0))
    by_hand = [sum(abs(float(x)) for x in ((after[i] - before[i]) * gradient[i]).flatten()) for i in range(5)]
    torch.testing.assert_close(added_importance(before, after, gradient), torch.tensor(by_hand))


def test_a_layer_without_a_connection_of_the_task_has_no_importance():
    for shape in ((0,), (0, 3, 3)):
        assert added_importance(*torch.zeros(3, *shape)).shape == (0,)


def wired():
    body = build_network("convnet", (1, 8, 8), 0, width=3).body
    c = units_of(find_neurons(body, torch.zeros(2, 1, 8, 8), include=["*"])).connections[1]
    return c, OwnConnections([c], {c.name: torch.tensor([[0, 1], [2, 2]])}, {c.name: torch.tensor([1.0, 2.0])})


def stepped(c, own, optimizer):
    c.weight.grad = torch.ones_like(c.weight)
    own.take_gradients()
    optimizer.step()
    own.write_back()


def test_an_update_reaches_the_networks_weights_at_their_places_only_and_adds_to_importance():
    c, own = wired()
    before = c.weight.detach().clone()
    stepped(c, own, torch.optim.SGD(own.weights.values(), lr=0.5, weight_decay=0.0))
    assert c.weight.grad is None
    moved = (c.weight.detach() - before).sum((2, 3))
    torch.testing.assert_close(moved, torch.tensor([[0.0, -4.5, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, -4.5]]))
    torch.testing.assert_close(own.importance[c.name], torch.tensor([5.5, 6.5]))


def test_a_connection_that_moves_leaves_a_zero_and_starts_from_zero():
    c, own = wired()
    optimizer = torch.optim.Adam(own.weights.values())
    stepped(c, own, optimizer)
    own.move(c, torch.tensor([1]), torch.tensor([[0, 0]]), optimizer)
    assert not c.weight.detach()[2, 2].any()
    assert own.places[c.name].tolist() == [[0, 1], [0, 0]]
    assert float(own.importance[c.name][1]) == 0
    for tensor in (own.weights[c.name].detach(), optimizer.state[own.weights[c.name]]["exp_avg"]):
        assert tensor[0].any()
        assert not tensor[1].any()


def test_a_state_makes_the_same_connections_again():
    c, own = wired()
    state = own.state()
    again = OwnConnections([c], state["places"], state["importance"])
    assert torch.equal(again.weights[c.name], own.weights[c.name])
    own.importance[c.name] += 1
    assert again.importance[c.name].tolist() == [1.0, 2.0], "a copy"
