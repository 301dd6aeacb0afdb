"""One forward pass, watched: what reaches the output, and what norm layers read."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from snv.neurons.find import find_neurons
from snv.neurons.trace import Source, Trace


def traced(model: nn.Module, example: torch.Tensor) -> tuple[Trace, torch.Tensor]:
    trace = Trace(model)
    with torch.no_grad():
        return trace, trace.run(model, example)


class Branches(nn.Module):
    """Two convolutions whose maps are joined as ``join`` says, and a norm layer behind them."""

    def __init__(self, join, channels: int = 3, norm: type[nn.Module] = nn.BatchNorm2d) -> None:
        super().__init__()
        self.a, self.b, self.norm, self.join = nn.Conv2d(2, 3, 1), nn.Conv2d(2, 3, 1), norm(channels), join

    def forward(self, images):
        return self.norm(self.join(self.a(images), self.b(images))).mean((2, 3))


def sources(join, channels: int = 3):
    trace, _ = traced(Branches(join, channels), torch.rand(2, 2, 4, 4))
    return {name: found for name, _, found in trace.norms()}


def test_a_norm_layer_reads_all_layers_of_a_sum():
    assert sources(lambda a, b: F.relu(a)) == {"norm": (Source("a"),)}
    assert sources(lambda a, b: F.relu(a) + F.max_pool2d(b, 1)) == {"norm": (Source("a"), Source("b"))}


def test_what_cannot_be_followed_is_not_guessed():
    assert sources(lambda a, b: a.cumsum(1)) == {}
    assert sources(lambda a, b: a + torch.rand(4)) == {}
    assert sources(lambda a, b: torch.cat([a, b], 1), channels=6) == {}


def test_flattened_maps_have_as_many_entries_per_channel_as_positions():
    model = nn.Sequential(nn.Conv2d(1, 3, 1), nn.Flatten(), nn.BatchNorm1d(48), nn.Linear(48, 2))
    trace, _ = traced(model, torch.rand(2, 1, 4, 4))
    assert [found for _, _, found in trace.norms()] == [(Source("0", span=16),)]


def test_a_norm_layer_called_for_two_layers_is_nobodys():
    class Twice(Branches):
        def forward(self, images):
            return self.norm(self.a(images)) + self.norm(self.b(images))

    trace, _ = traced(Twice(None), torch.rand(2, 2, 4, 4))
    assert list(trace.norms()) == []


def test_heads_are_the_layers_whose_output_is_the_models():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), nn.Softmax(1))
    trace, output = traced(model, torch.rand(2, 3))
    assert trace.heads(output) == {"2"}
    assert trace.called == ["0", "2"]


def test_a_head_behind_an_activation_is_known_by_its_name():
    class Squeeze(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(1, 3, 1), nn.ReLU())
            self.classifier = nn.Sequential(nn.Conv2d(3, 2, 1), nn.ReLU())

        def forward(self, x):
            return self.classifier(self.features(x)).mean((2, 3))

    neurons = find_neurons(Squeeze(), torch.rand(2, 1, 4, 4))
    assert [(layer.name, layer.n) for layer in neurons.layers] == [("features.0", 3)]


def test_no_hook_survives_a_pass_that_fails():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(5, 2)).eval()
    try:
        traced(model, torch.rand(2, 3))
    except RuntimeError as error:
        assert "shapes cannot be multiplied" in str(error)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_what_a_layer_reads_is_the_image_other_layers_or_unknown():
    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.sum, self.lost, self.after = (nn.Conv2d(n, 2, 1) for n in (1, 2, 2, 2))

        def forward(self, images):
            x = self.first(images * 2)
            y = self.sum(F.relu(x))
            z = self.lost(F.max_pool2d(x + y, 1))
            return self.after(z.cumsum(1))

    trace, output = traced(Reads(), torch.rand(2, 1, 4, 4))
    assert trace.reads("first") == ()
    assert trace.reads("sum") == (Source("first"),)
    assert trace.reads("lost") == (Source("first"), Source("sum"))
    assert trace.reads("after") is None
    assert trace.behind(output) == (Source("after"),)
