"""A module of one's own is a body."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from snv.errors import UserError
from snv.networks.own import OwnBody, own_body

SHAPE = (1, 8, 8)


def classifier() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 1000))


def test_the_linear_layer_that_gives_the_output_is_left_out():
    own = classifier()
    body = own_body(own, SHAPE)
    images = torch.rand(3, *SHAPE)
    assert body.n_features == 12
    torch.testing.assert_close(body(images), own[:3](images))


def test_a_module_that_gives_features_stays_whole():
    features = classifier()[:3]
    body = own_body(features, SHAPE)
    assert [tuple(p.shape) for p in body.parameters()] == [(12, 64), (12,)]


def test_what_is_trained_is_a_copy():
    own = classifier()
    before = [p.clone() for p in own.parameters()]
    body = own_body(own, SHAPE)
    with torch.no_grad():
        for p in body.parameters():
            p.add_(1)
    assert all(torch.equal(a, b) for a, b in zip(before, own.parameters(), strict=True))
    assert isinstance(own[3], nn.Linear) and own.training


class Named(nn.Module):
    """As torchvision's networks are: the head is an attribute."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(4, 10)

    def forward(self, x):
        return self.fc(self.body(x))


def test_the_head_may_be_any_attribute():
    body = own_body(Named(), SHAPE)
    assert (body.n_features, isinstance(body.inner.fc, nn.Identity)) == (4, True)


@pytest.mark.parametrize(
    ("module", "told"),
    [
        (nn.Linear(8, 3), "single linear layer|should give features"),
        (nn.Sequential(nn.Conv2d(3, 4, 3)), "cannot read images of shape"),
        (nn.Conv2d(1, 4, 3), r"should give features \(b, f\) for images; it gives"),
    ],
)
def test_what_cannot_be_a_body_is_refused(module, told):
    with pytest.raises(UserError, match=told):
        own_body(module, SHAPE)


def test_as_a_body_alone_nothing_is_left_out():
    assert OwnBody(classifier(), SHAPE).n_features == 1000
