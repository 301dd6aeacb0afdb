"""Steps that two processes share are the steps that one process makes."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn
from toy import learn, make, toy_stream

from company import of_two
from snv.files import State
from snv.learners import LEARNERS
from snv.machine import ranks
from snv.machine.ranks import Part
from snv.networks import build_network
from snv.training import Setting, TrainSettings
from snv.training.parallel import differentiate, divided, whole

ABLE = [name for name, kind in LEARNERS.items() if kind.card.parallel]
ROWS = 7
"""Of a batch: four for the first process, three for the second."""


def images(rows: int = ROWS) -> torch.Tensor:
    rng = torch.Generator().manual_seed(3)
    drawn = 5 + torch.randn(rows, 6, 4, 4, dtype=torch.float64, generator=rng)
    return drawn.contiguous(memory_format=torch.channels_last)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    norms = nn.BatchNorm2d(6, momentum=None), nn.BatchNorm2d(8), nn.BatchNorm1d(8, affine=False)
    return nn.Sequential(
        norms[0], nn.Conv2d(6, 8, 3), nn.ReLU(), norms[1], nn.Flatten(), nn.Linear(32, 8), norms[2], nn.Linear(8, 3)
    ).double()


def step(part: Part | None) -> dict[str, torch.Tensor]:
    """The loss, every gradient and every statistic of one step on all rows, or on a part of them."""
    model, x, labels = network(), images(), torch.arange(ROWS) % 3
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    mine = slice(None) if part is None else part.rows
    with divided(part):
        penalty = sum(p.square().sum() for p in model.parameters())
        own = nn.functional.cross_entropy(model(x[mine]), labels[mine]) + 0.01 * penalty
        loss = differentiate(own, optimizer)
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"loss": loss, **gradients, **dict(model.named_buffers())}


def learned(name: str, scenario: str) -> State:
    """What a method holds after two tasks in batches of 15 images, a network with norm layers and plain steps."""
    stream = toy_stream(2)
    learner = make(name, scenario, stream)
    train = TrainSettings(epochs=2, batch_size=15, lr=0.02, optimizer="sgd", precision="fp32", patience=0)
    body = build_network("convnet", stream.source.shape, 0, width=6)
    setting = dataclasses.replace(learner.setting, network=body, train=train)
    learner = LEARNERS[name](Setting(**vars(setting)), learner.config)
    for t in range(2):
        learn(learner, stream, t)
        ranks.require_alike(str(t), "in a test")  # all are still at the same place
    return learner.state_dict()


CASES = [(name, "til") for name in ABLE] + [(name, "cil") for name in ("joint", "icarl", "slda", "snv")]


def everything(rank: int) -> dict[object, object]:
    """All that two processes do for this file."""
    with ranks.together():
        done: dict[object, object] = {"step": step(ranks.part_of(ROWS))}
        done["whole"] = whole(images()[ranks.part_of(ROWS).rows], ranks.part_of(ROWS))
        for case in CASES:
            done[case] = learned(*case)
        return done


@pytest.fixture(scope="module")
def two() -> list[dict[object, object]]:
    answers = of_two(everything)
    assert all(isinstance(answer, dict) for answer in answers), answers
    return answers


def tensors(state: State, path: str = "") -> dict[str, torch.Tensor]:
    if isinstance(state, torch.Tensor):
        return {path: state}
    items = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list | tuple) else ()
    return {name: x for key, part in items for name, x in tensors(part, f"{path}/{key}").items()}


def test_loss_gradients_and_statistics_of_uneven_parts_are_those_of_the_whole_batch(two):
    alone = step(None)
    for answer in two:
        assert answer["step"].keys() == alone.keys()
        for name, x in alone.items():
            torch.testing.assert_close(answer["step"][name], x, rtol=1e-12, atol=1e-12, msg=name)


def test_both_processes_have_the_same_bits(two):
    first, second = (tensors(answer) for answer in two)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_every_process_can_see_the_rows_of_all(two):
    assert all(torch.equal(answer["whole"], images()) for answer in two)


@pytest.mark.parametrize(("name", "scenario"), CASES)
def test_a_method_that_says_it_can_learns_with_two_processes_what_it_learns_alone(two, name, scenario):
    alone, shared = tensors(learned(name, scenario)), tensors(two[0][name, scenario])
    assert alone.keys() == shared.keys()
    for path, x in alone.items():
        torch.testing.assert_close(shared[path], x, rtol=1e-3, atol=1e-4, msg=lambda text, path=path: f"{path}: {text}")


def test_one_process_divides_nothing():
    assert ranks.part_of(ROWS) is None
    assert whole(images(), None) is not None
