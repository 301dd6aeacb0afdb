"""Examples are fetched when they are needed: the same values, whatever holds them, in the same memory."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

import snv
from snv.data.augment import Preprocess
from snv.data.task import InMemory
from snv.valuation.examples import READ_AT_ONCE, OfSplit, Remembered, Stacked
from snv.valuation.inrun import LearnedValues
from snv.valuation.neuron_game import NeuronGame
from snv.valuation.scores import SCORES


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5), nn.ReLU(), nn.Linear(5, 3)
    ).eval()


def pixels(n: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randint(256, (n, 3, 8, 8), dtype=torch.uint8), torch.arange(n) % 3


class Watched(Stacked):
    """Counts the rows asked for at once, and those still alive."""

    def __init__(self, images: Tensor) -> None:
        super().__init__(images)
        self.alive = self.most_alive = self.most_asked = self.n_asked = 0

    def batches(self, order: Sequence[Tensor]) -> Iterator[Tensor]:
        for rows in order:
            self.n_asked += len(rows)
            self.most_asked = max(self.most_asked, len(rows))
            self.alive += len(rows)
            self.most_alive = max(self.most_alive, self.alive)
            batch = self.images[rows]
            weakref.finalize(batch, self._gone, len(rows))
            yield batch
            del batch

    def _gone(self, n: int) -> None:
        self.alive -= n


@pytest.fixture
def watched(monkeypatch) -> Watched:
    monkeypatch.setattr("snv.valuation.examples.ROOM", 0)
    torch.manual_seed(1)
    return Watched(torch.randn(500, 3, 8, 8))


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("gradient", {"draws": 4}),
        ("gradient", {"draws": 2, "minibatch": None, "memory": 2**16}),
        ("montecarlo", {"permutations": 1}),
        ("hybrid", {"draws": 4, "rounds": 2, "burn_in": 2}),
    ],
)
def test_never_more_than_64_rows_are_asked_for_at_once_nor_two_batches_alive(watched, method, settings):
    snv.value_neurons(network(), (watched, torch.arange(500) % 3), method, **settings)
    assert watched.n_asked > 1000
    assert watched.most_asked <= READ_AT_ONCE == 64
    assert watched.most_alive <= 2 * READ_AT_ONCE + 4  # and the first two, on which a model is tried out


@pytest.mark.parametrize("name", ["activation", "taylor", "fisher"])
def test_simple_scores_ask_for_few_rows_too(watched, name):
    SCORES[name](NeuronGame(network(), watched, torch.arange(500) % 3, memory=2**16), 0)
    assert watched.most_asked <= READ_AT_ONCE


def test_a_split_is_valued_bit_for_bit_as_its_tensors_are():
    raw, labels = pixels(90)
    preprocess = Preprocess((0.5,) * 3, (0.25,) * 3, (3, 8, 8))
    split = OfSplit(InMemory(raw, labels), preprocess, "cpu")
    for method in ("gradient", "montecarlo"):
        lazy, held = (
            snv.value_neurons(network(), (images, labels), method, max_evaluations=40)
            for images in (split, preprocess(raw, "cpu"))
        )
        assert torch.equal(lazy.values, held.values)
        assert (lazy.v_all, lazy.v_none) == (held.v_all, held.v_none)


def test_what_was_remembered_without_gradients_can_be_learned_from():
    raw, labels = pixels(20)
    split = OfSplit(InMemory(raw, labels), Preprocess((0.5,) * 3, (0.25,) * 3, (3, 8, 8)), "cpu")
    learned = LearnedValues.of(network(), split, labels)
    with torch.inference_mode():
        list(learned.examples.batches([torch.arange(20)]))
    with learned.step():
        pass
    assert torch.equal(learned.values(), torch.zeros(9, dtype=torch.float64))


def test_rows_are_remembered_while_they_fit_and_no_longer(monkeypatch):
    monkeypatch.setattr("snv.valuation.examples.ROOM", 10 * 4)
    images = Watched(torch.arange(30.0)[:, None])
    near = Remembered(images)
    few, same, many = torch.tensor([3, 7, 1]), torch.tensor([1, 3]), torch.arange(20)
    for rows, asked in ((few, 1 + 3), (same, 0), (many, 20), (same, 0), (torch.tensor([8]), 1), (same, 2)):
        before = images.n_asked
        assert torch.equal(next(near.batches([rows])), images.images[rows])
        assert images.n_asked - before == asked


def test_a_small_dataset_is_read_once_for_its_labels_and_once_for_its_inputs():
    class Counted(TensorDataset):
        def __getitem__(self, row: int) -> tuple[Tensor, ...]:
            n_read[row] += 1
            return super().__getitem__(row)

    n_read = [0] * 40
    raw, labels = pixels(40)
    snv.value_neurons(network(), Counted(raw.float() / 255, labels), "montecarlo", permutations=2)
    assert n_read[8:] == [2] * 32  # the model is tried out on the first ones


class Generated(Dataset[tuple[Tensor, int]]):
    """Large pictures, made when they are asked for."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        return torch.full((3, 128, 128), row / self.n), row % 3


def peak_mib(n: int) -> float:
    """The peak memory of a process that values neurons on ``n`` pictures of 0.19 MiB each."""
    code = (
        "import resource, sys, torch, snv; from torch import nn; torch.set_num_threads(1)\n"
        "sys.path.insert(0, sys.argv[1]); from test_examples import Generated\n"
        "model = nn.Sequential(nn.Conv2d(3, 4, 8, 8), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 3))\n"
        "snv.value_neurons(model, Generated(int(sys.argv[2])), draws=4)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    command = [sys.executable, "-c", code, str(__file__).rsplit("/", 1)[0], str(n)]
    at_once = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}  # what is freed leaves; holes in the heap are no matter
    return int(subprocess.run(command, capture_output=True, text=True, check=True, env=at_once).stdout) / 1024


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak in KiB, as Linux reports it")
def test_eight_times_as_many_pictures_take_the_same_memory():
    assert abs(peak_mib(3200) - peak_mib(400)) < 40  # a few batches; the pictures are 600 and 75 MiB
