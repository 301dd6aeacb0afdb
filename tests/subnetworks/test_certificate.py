"""Fingerprints tell every bit apart, and say in words what changed."""

from __future__ import annotations

import pytest
import torch
from test_specialists import taught

from snv.subnetworks.certificate import Certificate, changed_evidence, evidence_hashes, tensor_hash


def test_a_certificate_comes_back_from_its_state_and_from_one_without_evidence():
    issued = taught(2).certificates[1]
    assert Certificate.from_state(issued.state()) == issued
    older = {name: value for name, value in issued.state().items() if name != "evidence"}
    assert Certificate.from_state(older).evidence == ()


@pytest.mark.parametrize("part", ["a weight", "norm state", "mask", "head"])
def test_one_bit_of_anything_a_task_reads_changes_its_hash(part):
    specialists = taught(1)
    subnetwork, head = specialists.subnetworks[0], specialists.network.head(0)

    def now() -> str:
        return tensor_hash(head, specialists.neurons, subnetwork, specialists.reads(0))

    before = now()
    assert before == now()
    with torch.no_grad():
        match part:
            case "a weight":
                read = specialists.reads(0)[0]
                weight = read.owned.tensor[read.entries]
                weight.view(torch.int32)[0, 0, 0] ^= 1
                read.owned.tensor[read.entries] = weight
            case "norm state":
                subnetwork.norm["bn2.weight"].view(torch.int32)[0] ^= 1
            case "mask":
                subnetwork.mask[0] ^= True
            case "head":
                head.bias.data.view(torch.int32)[0] ^= 1
    assert now() != before


def test_evidence_is_named_part_by_part():
    statistics = taught(2).statistics[1]
    issued = evidence_hashes(statistics, ["first", "second"])
    assert changed_evidence(issued, issued) == []
    assert changed_evidence(issued, evidence_hashes(statistics, ["first", "other"])) == ["class means in task 2"]
    statistics.covariance[0, 0] += 1
    assert changed_evidence(issued, evidence_hashes(statistics, ["first", "second"])) == ["covariance"]


def test_without_a_specialist_its_class_means_are_no_longer_certified():
    issued = taught(2).certificates[1]
    assert len(issued.without_specialist(0).evidence) == len(issued.evidence) - 1
    assert issued.without_specialist(0).evidence[-1] == issued.evidence[-1]
