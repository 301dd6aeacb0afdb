"""Neurons outside a subnetwork are silent, and the body is as it was afterwards."""

from __future__ import annotations

import pytest
import torch
from test_specialists import chosen, images, taught

from snv.errors import UserError
from snv.networks import norm_state
from snv.subnetworks.subnetwork import Subnetwork, masked, norm_of


def test_other_neurons_give_exact_zeros_and_only_inside_the_block():
    specialists = taught(1)
    subnetwork, seen = chosen(specialists, 0), {}
    body, first = specialists.body, subnetwork.mask[specialists.neurons.layers[0].neurons]
    hook = body.conv2.register_forward_pre_hook(lambda _, inputs: seen.update(maps=inputs[0]))
    with torch.no_grad():
        with masked(body, specialists.neurons, subnetwork):
            body(images())
        inside = seen["maps"]
        body(images())
    hook.remove()
    assert not inside[:, ~first].any()
    assert inside[:, first].any()
    assert seen["maps"][:, ~first].any()


def test_a_body_has_its_own_norm_layers_back_also_after_an_error():
    specialists = taught(1)
    before = norm_state(specialists.body)
    with pytest.raises(ZeroDivisionError), norm_of(specialists.body, chosen(specialists, 0)):
        assert not specialists.body.bn1.weight.all()
        _ = 1 / 0
    assert all(torch.equal(x, before[name]) for name, x in norm_state(specialists.body).items())


@pytest.mark.parametrize("means", [None, torch.zeros(3)], ids=["now", "as stored before"])
def test_a_state_comes_back(means):
    subnetwork = chosen(taught(1), 0)
    state = subnetwork.state() | ({} if means is None else {"means": means})
    again = Subnetwork.from_state(state)
    assert torch.equal(again.mask, subnetwork.mask)
    assert again.norm.keys() == subnetwork.norm.keys()


def test_a_state_of_neurons_that_were_not_silent_is_refused_with_advice():
    state = chosen(taught(1), 0).state() | {"means": torch.ones(3)}
    with pytest.raises(UserError, match=r"held at their mean responses, .* Learn it anew, or use it with the version"):
        Subnetwork.from_state(state)
