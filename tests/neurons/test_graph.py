"""A module as a graph of its operations."""

from __future__ import annotations

import jaxtyping
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from snv.networks import build_network
from snv.neurons.graph import graph_of, told_to_train


def test_every_layer_of_a_network_is_a_node_of_its_graph():
    body = build_network("resnet18", (3, 16, 16), 0, width=4).body
    called = {str(node.target) for node in graph_of(body).nodes if node.op == "call_module"}
    assert {name for name, module in body.named_modules() if isinstance(module, nn.Conv2d)} <= called


class Undecided(nn.Module):
    def forward(self, images):
        return images if images.sum() > 0 else -images


@pytest.mark.parametrize("module", [nn.Linear(2, 3), Undecided()], ids=["traced", "not traced"])
def test_checking_of_shapes_is_as_it_was_also_after_code_that_depends_on_the_data(module):
    checked = jaxtyping.config.jaxtyping_disable
    try:
        graph_of(module)
    except torch.fx.proxy.TraceError:
        assert isinstance(module, Undecided)
    assert jaxtyping.config.jaxtyping_disable == checked


class Dropping(nn.Module):
    def __init__(self, told):
        super().__init__()
        self.inner, self.told = nn.Linear(2, 2), told

    def forward(self, x):
        return F.dropout(F.dropout(self.inner(x), training=self.training), training=self.told(self))


TOLD = {
    "as it is": (lambda own: own.training, [False, True]),
    "for ever": (lambda own: True, [True, True]),
    "of a part that never trains": (lambda own: own.inner.training, [False, False]),
}


@pytest.mark.parametrize(("told", "expected"), TOLD.values(), ids=TOLD)
def test_what_a_function_is_told_about_training_is_found_by_tracing_both_modes(told, expected):
    root = Dropping(told)
    root.inner.train = lambda mode: nn.Linear.train(root.inner, False)
    root.inner.eval()
    second = next(node for node in graph_of(root).nodes if node.name == "dropout_1")
    assert told_to_train(root, second) == expected
    assert root.training and not root.inner.training, "every module has its own mode back"
