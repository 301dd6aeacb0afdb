"""What "auto" stands for, and what cannot be used is refused before anything is made."""

from __future__ import annotations

import pytest
import torch

from snv.errors import UserError
from snv.machine.devices import Resources, resolve_device, resolve_precision


@pytest.mark.parametrize("wanted", ["cuda:99", "abacus"])
def test_a_device_that_is_not_here_is_refused_with_advice(wanted):
    with pytest.raises(UserError, match=rf"Device '{wanted}' cannot be used here .*--device cpu"):
        resolve_device(wanted)


def test_auto_takes_a_gpu_if_there_is_one(monkeypatch):
    for there, expected in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert resolve_device("auto") == torch.device(expected)


def test_a_cpu_computes_in_fp32_whatever_it_could_do_and_a_gpu_in_bf16_where_it_is_native(monkeypatch):
    assert resolve_precision("auto", torch.device("cpu")) == "fp32"
    assert resolve_precision("bf16", torch.device("cpu")) == "bf16"
    for native, expected in ((True, "bf16"), (False, "fp32")):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda native=native, **_: native)
        assert resolve_precision("auto", torch.device("cuda")) == expected


def test_resources_are_read_as_they_are_written():
    taken = Resources(cpus=2, gpus=0.25, memory="1.5GB")
    assert (taken.threads, taken.bytes) == (2, 1_500_000_000)
    assert str(taken) == "2 CPUs and 0.25 GPU and 1.5GB of memory"
    assert (Resources(cpus=0.5).threads, Resources().bytes) == (1, 0)
    assert Resources(memory="512 MiB").bytes == 512 * 2**20
    assert Resources(memory="100").bytes == 100


@pytest.mark.parametrize(
    ("wrong", "told"),
    [({"cpus": 0}, "cpus"), ({"cpus": 1.5}, "cpus"), ({"gpus": -1}, "gpus"), ({"memory": "2 apples"}, "2GB or 500MiB")],
)
def test_resources_that_no_machine_gives_are_refused(wrong, told):
    with pytest.raises(UserError, match=told):
        Resources(**wrong)


def test_each_of_several_processes_takes_the_gpu_of_its_own_number(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("snv.machine.ranks.size", lambda: 4)
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert resolve_device("auto") == torch.device("cuda:3")
    assert resolve_device("cpu") == torch.device("cpu")
    with pytest.raises(UserError, match=r"cuda:1 names one GPU, and 4 processes train together\. Use device=cuda"):
        resolve_device("cuda:1")
