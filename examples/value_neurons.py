"""Which neurons of *your* network matter? Train a small network on handwritten digits, value it, and see what happens
when the best or the worst neurons are removed (held at their mean response).

    python examples/value_neurons.py

No continual learning here: `snv.value_neurons` takes any PyTorch model and any data.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

import snv
from snv.neurons import ablated
from snv.valuation import neuron_game


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """1,797 real handwritten digits of 8 × 8 pixels."""
    source = snv.load_source("digits")
    task = snv.TaskStream(source, tasks=1, seed=0).task(0)
    pixels, labels = next(iter(task.train.batches([torch.arange(len(task.train))])))
    return pixels.float() / 255, labels


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(40):
        for rows in torch.randperm(len(labels)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()


def main() -> None:
    torch.manual_seed(0)
    images, labels = digits()
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 48),
        nn.ReLU(),
        nn.Linear(48, 10),  # the classifier head: found by itself, not valued
    )
    train(model, images[:900], labels[:900])
    data = (images[900:], labels[900:])

    values = snv.value_neurons(model, data, draws=64, k=0.3, announce=lambda bill: print(f"the bill: {bill}\n"))

    low, high = values.interval(0.95)
    print("most valuable neurons, with 95 % intervals:")
    for i in values.top_k(5).tolist():
        print(f"  {values.names[i]:8} {values.values[i]:+.4f}  [{low[i]:+.4f}, {high[i]:+.4f}]")
    print(f"sum of values / (V(all) - V(none)) = {values.efficiency_ratio:.2f}")
    print(f"top 30 % chosen alike by two halves of the draws: {values.split_half_overlap:.0%}\n")

    game = neuron_game(model, data, payoff="accuracy")
    order = values.top_k(game.n)
    for name, removed in {
        "nothing removed": order[:0],
        "the best 15 % removed": order[: round(0.15 * game.n)],
        "the worst 15 % removed": order[-round(0.15 * game.n) :],
    }.items():
        kept = torch.ones(game.n, dtype=torch.bool)
        kept[removed] = False
        with ablated(game.neurons, kept, game.means), torch.no_grad():
            right = (model.eval()(data[0]).argmax(1) == data[1]).float().mean()
        print(f"accuracy with {name:24} {100 * right:5.1f} %")


if __name__ == "__main__":
    main()
