"""One table of layer kinds: every row is right about what its layer does with channels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from snv.networks.layers import FUNCTIONS, KINDS, MAPS, NORMS, JointNorm, cut_linear, kind_of, places, rearranged

ALIKE = {kind: row for kind, row in KINDS.items() if row.family == "pointwise"}
POOLS = {kind: row for kind, row in KINDS.items() if row.family == "pool"}


@pytest.mark.parametrize("kind", ALIKE, ids=lambda kind: kind.__name__)
def test_a_pointwise_layer_treats_every_element_alike(kind):
    layer, x = kind().eval(), torch.randn(2, 3, 4, 4)
    shuffled = torch.randperm(96)
    assert torch.equal(layer(x).flatten()[shuffled], layer(x.flatten()[shuffled].view(x.shape)).flatten())
    assert not list(layer.parameters())


@pytest.mark.parametrize("kind", POOLS, ids=lambda kind: kind.__name__)
def test_a_pool_treats_every_channel_by_itself_and_leaves_zeros(kind):
    arguments = (2.0, 2) if "LP" in kind.__name__ else (2,)
    layer, x = kind(*arguments), torch.rand(2, 3, *[4] * int(kind.__name__[-2]))
    assert torch.equal(layer(x)[:, [2, 0]], layer(x[:, [2, 0]]))
    assert not layer(torch.zeros_like(x)).any()


@pytest.mark.parametrize("kind", NORMS, ids=lambda kind: kind.__name__)
def test_a_norm_is_joint_if_one_channel_changes_the_others(kind):
    dims = int(kind.__name__[-2]) if kind.__name__.endswith("d") else 2
    x = torch.rand(3, 4, *[3] * dims)
    arguments = {nn.GroupNorm: (2, 4), nn.LayerNorm: ((4, *[3] * dims),)}.get(kind, (4,))
    norm, other = kind(*arguments), x.clone()
    other[:, 0] *= torch.rand_like(other[:, 0])
    assert torch.allclose(norm(x)[:, 1], norm(other)[:, 1]) is not KINDS[kind].joint


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if FUNCTIONS[name].family != "shape"])
def test_every_function_named_in_the_table_exists(name):
    assert callable(getattr(F, name, None) or getattr(torch, name, None))


def test_a_layer_that_derives_from_a_known_one_is_of_its_kind():
    class Own(nn.Conv2d):
        pass

    assert kind_of(Own(1, 2, 3)) is KINDS[nn.Conv2d]
    assert kind_of(nn.Bilinear(1, 2, 3)) is None
    assert isinstance(Own(1, 2, 3), MAPS)


def test_a_linear_layer_cut_to_rows_and_columns_has_copies_of_their_weights():
    layer, rows, columns = nn.Linear(5, 4), torch.tensor([3, 0]), torch.tensor([1, 4, 2])
    small = cut_linear(layer, rows, columns)
    assert torch.equal(small.weight, layer.weight[rows][:, columns])
    assert torch.equal(small.bias, layer.bias[rows])
    with torch.no_grad():
        small.weight.zero_()
    assert layer.weight.all()


def test_channels_are_put_in_their_places_among_zeros():
    live, x = torch.tensor([2, 0]), torch.tensor([[1.0, 2.0]])
    assert places(live, 4).tolist() == [1, 2, 0, 2]
    assert rearranged(x, places(live, 4)).tolist() == [[2.0, 0.0, 1.0, 0.0]]


def test_a_joint_norm_with_all_its_channels_is_the_norm_itself():
    norm, x = nn.GroupNorm(2, 6), torch.randn(3, 6, 4, 4)
    nn.init.normal_(norm.weight)
    torch.testing.assert_close(JointNorm(norm, 2, 6, torch.arange(6))(x), norm(x))
