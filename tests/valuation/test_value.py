"""`value_neurons` on anything a user brings: the bill first, limits honoured, the model left as it was."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from crews import SOON, assert_same, crew_here
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import snv
from snv.errors import UserError
from snv.files import cloned
from snv.shapley.result import Valuation
from snv.shapley.workers import Workers
from snv.valuation.value import Bill, spoken

EXAMPLES = Path(__file__).parents[2] / "examples"


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(216, 5), nn.ReLU(), nn.Linear(5, 3)
    )


def data(n: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(n, 1, 8, 8), torch.arange(n) % 3


def with_one_bad(row: int) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = data(80)
    images[row, 0, 3] = math.nan
    return images, labels


class Restless(TensorDataset):
    """Augments at random, as training data do."""

    def __getitem__(self, row: int) -> tuple[torch.Tensor, ...]:
        image, label = super().__getitem__(row)
        return image + torch.randn(()), label


def test_tensors_datasets_and_loaders_give_the_same_values():
    images, labels = data()
    dataset = TensorDataset(images, labels)
    found = [
        snv.value_neurons(network(), given, draws=4).values
        for given in ((images, labels), dataset, DataLoader(dataset, batch_size=7))
    ]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_batches_that_can_only_be_iterated_give_the_same_values_too():
    images, labels = data()
    batches = list(zip(images.split(16), labels.split(16), strict=True))
    expected = snv.value_neurons(network(), (images, labels), draws=4).values
    assert torch.equal(snv.value_neurons(network(), iter(batches), draws=4).values, expected)
    assert torch.equal(snv.value_neurons(network(), batches, draws=4).values, expected)


def test_a_loader_is_read_in_its_own_order_and_without_what_it_drops():
    images, labels = data(40)
    loader = DataLoader(TensorDataset(images, labels), batch_size=16, sampler=range(39, -1, -1), drop_last=True)
    expected = snv.value_neurons(network(), (images.flip(0)[:32], labels.flip(0)[:32]), draws=4).values
    assert torch.equal(snv.value_neurons(network(), loader, draws=4).values, expected)


def test_every_filter_and_unit_has_a_name_and_a_layer_and_the_head_has_none():
    found = snv.value_neurons(network(), data(), draws=4)
    assert found.names == (*(f"0[{c}]" for c in range(6)), *(f"4[{c}]" for c in range(5)))
    assert found.layers == ("0",) * 6 + ("4",) * 5


def test_the_bill_comes_before_the_work():
    bills: list[Bill] = []

    def announce(bill: Bill) -> None:
        bills.append(bill)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        snv.value_neurons(network(), data(), "montecarlo", permutations=10**6, announce=announce)
    (bill,) = bills
    assert bill.neurons == 11
    assert bill.examples == 40
    assert bill.evaluations >= 10**6 * 10
    assert bill.forward_passes == bill.evaluations * 40
    assert bill.macs == pytest.approx(bill.forward_passes * (36 * 6 * 9 + 216 * 5 + 5 * 3))
    assert bill.seconds > 0
    assert "11 neurons" in str(bill)
    assert bill.engine == "shared prefixes"
    assert "coalitions by shared prefixes" in str(bill)


@pytest.mark.parametrize("method", ["montecarlo", "truncated", "tmab", "gradient", "hybrid"])
def test_limits_are_honoured_and_the_reason_is_told(method):
    found = snv.value_neurons(network(), data(), method, max_evaluations=60)
    assert found.evaluations <= 60 * 1.5
    assert found.stopped
    again = snv.value_neurons(network(), data(), method, max_seconds=0.2)
    assert sum(again.seconds.values()) < 10


@pytest.mark.parametrize("method", ["exact", "montecarlo", "truncated", "tmab", "gradient", "hybrid"])
def test_the_model_is_left_as_it_was(method):
    model = network().train()
    before, hooks = cloned(dict(model.state_dict())), [len(m._forward_hooks) for m in model.modules()]
    snv.value_neurons(model, data(), method, max_evaluations=3000)
    assert all(m.training for m in model.modules())
    assert hooks == [len(m._forward_hooks) for m in model.modules()]
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())


def test_all_estimators_agree_with_exact_on_a_small_network():
    truth = snv.value_neurons(network(), data(), "exact")
    assert truth.values.sum() == pytest.approx(truth.v_all - truth.v_none)
    long = snv.value_neurons(network(), data(), "montecarlo", permutations=200)
    assert ((long.values - truth.values).abs() <= 4.5 * long.stderr + 1e-9).all()
    quick = snv.value_neurons(network(), data(), "gradient", draws=200)
    assert torch.corrcoef(torch.stack([quick.values, truth.values]))[0, 1] > 0.9


def test_layers_can_be_left_out_by_name():
    found = snv.value_neurons(network(), data(), draws=4, exclude=["0"])
    assert set(found.layers or ()) == {"4"}


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (lambda: snv.value_neurons(network(), data(), "gradiant"), "Did you mean 'gradient'"),
        (lambda: snv.value_neurons(network(), data(), payoff="los"), "Did you mean 'loss'"),
        (lambda: snv.value_neurons(network(), data(), drawz=3), "Did you mean 'draws'"),
        (lambda: snv.value_neurons(network(), [1, 2, 3]), "should be pairs"),
        (lambda: snv.value_neurons(network(), []), "data are empty"),
        (lambda: snv.value_neurons(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), data()), "No neurons were found"),
        (lambda: snv.value_neurons(network(), with_one_bad(70)), "Example 70 holds"),
        (lambda: snv.value_neurons(network(), TensorDataset(*with_one_bad(70))), "Example 70 holds"),
        (lambda: snv.value_neurons(network(), Restless(*data())), "another input each time"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(call, answer):
    with pytest.raises(UserError, match=answer):
        call()


def test_saved_loaded_and_continued_it_is_the_longer_run(tmp_path):
    short = snv.value_neurons(network(), data(), draws=8)
    short.save(tmp_path / "v.safetensors")
    loaded = Valuation.load(tmp_path / "v.safetensors")
    assert torch.equal(loaded.values, short.values)
    continued = snv.value_neurons(network(), data(), draws=24, resume=loaded)
    assert torch.equal(continued.values, snv.value_neurons(network(), data(), draws=24).values)


def test_a_duration_is_told_in_a_persons_unit():
    assert spoken(3) == "3.0 seconds"
    assert spoken(600) == "10.0 minutes"
    assert spoken(86400 * 3) == "3.0 days"


def test_the_example_shows_that_the_best_neurons_carry_the_network():
    command = [sys.executable, str(EXAMPLES / "value_neurons.py")]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^accuracy with (.+?) +([0-9.]+) %$", told, flags=re.MULTILINE)
    whole, without_best, without_worst = (float(percent) for _, percent in found)
    assert whole > 90
    assert without_best < whole - 20
    assert without_worst > without_best + 30


@pytest.mark.parametrize("method", ["gradient", "hybrid", "montecarlo"])
def test_workers_change_no_bit_of_the_values_and_no_count(monkeypatch, method):
    monkeypatch.setattr(Workers, "crew", crew_here)
    dataset = TensorDataset(*data())
    found = [snv.value_neurons(network(), dataset, method, workers=n, **SOON[method]) for n in (None, 3)]
    assert_same(*found)


def test_the_network_is_prepared_with_the_threads_of_the_workers(monkeypatch):
    seen = []
    monkeypatch.setattr(Workers, "crew", crew_here)
    before = torch.get_num_threads()
    snv.value_neurons(
        network(),
        data(),
        draws=2,
        workers=Workers(1, threads=2),
        announce=lambda _: seen.append(torch.get_num_threads()),
    )
    assert seen == [2]
    assert torch.get_num_threads() == before


def test_the_bill_shares_the_time_among_the_workers_and_says_so():
    alone, four = (Bill("gradient", 9, 40, 150.0, 6000.0, 1e9, 60.0 / n, "shared prefixes", n) for n in (1, 4))
    assert "about 60.0 seconds; coalitions" in str(alone)
    assert "about 15.0 seconds with 4 workers; coalitions" in str(four)
