"""Whatever changes of a task is found and named, and no other task is blamed."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest
import torch

from snv import Model, UserError
from snv.model.store import Store
from taught import QUICK, all_unchanged, answers, one_ulp, tampered_with, tensors


def first_weight(model: Model) -> torch.Tensor:
    """Weights of a neuron that only the first task uses."""
    birds, fish = model.specialists.subnetworks
    only = model.specialists.neurons.by_layer(birds.mask & ~fish.mask)
    layer, here = next((layer, here) for layer, here in only if here.any())
    return layer.module.weight.data[here.nonzero()[0, 0], 0, 0]


CHANGES = {
    "a weight": first_weight,
    "a head": lambda model: model.specialists.network.heads[0].bias.data,
    "a norm layer": lambda model: next(
        x for x in model.specialists.subnetworks[0].norm.values() if x.is_floating_point()
    ),
}


@pytest.mark.parametrize("part", CHANGES.values(), ids=CHANGES)
def test_a_single_changed_number_is_found_and_the_other_task_is_not_blamed(part, model):
    flat = part(model).view(-1)
    flat[0] = torch.nextafter(flat[0], flat[0] + 1)
    birds, fish = model.verify()
    assert (birds.unchanged, birds.told) == (False, "its weights changed")
    assert fish.unchanged


SUMS = ("class sums", "weights of opinions")
STATISTICS = ("energy", "covariance", "class means in task 1", "class means in task 2")

OPEN = [
    (kind, part) for kind, parts in (("model", SUMS), ("older", STATISTICS)) for part in (*parts, "open temperature")
]


@pytest.mark.parametrize(("kind", "what"), OPEN)
def test_one_changed_number_of_what_open_answers_need_is_found_and_named(kind, what, request):
    model = request.getfixturevalue(kind)
    tampered_with(model, what, one_ulp)
    birds, fish = model.verify()
    named = f"its {what} changed" if what == "open temperature" else f"its evidence changed ({what})"
    assert (fish.unchanged, fish.known, fish.evidence, fish.told_open) == (False, True, False, named)
    assert birds.unchanged, "another task is not blamed"


def test_a_task_without_change_says_what_is_proved_and_what_is_not(model):
    for verdict in model.verify():
        assert (verdict.unchanged, verdict.known, verdict.evidence) == (True, True, True)
        assert verdict.told == "weights and answers are bit-identical, whatever is learned later"
        assert verdict.told_open == "evidence is bit-identical; the choice may differ as classes are added"


FILTERS = {"weight": lambda filters: filters.weight.data[0, 0, 0], "bias": lambda filters: filters.bias.data}


@pytest.mark.parametrize("part", FILTERS.values(), ids=FILTERS)
def test_a_changed_filter_of_the_common_space_is_found_in_every_task(part, model):
    one_ulp(part(model.specialists.common.space.filters))
    assert [(verdict.known, verdict.told) for verdict in model.verify()] == [(False, "its weights changed")] * 2


@pytest.mark.parametrize(("kind", "found"), [("model", "its place among the tasks changed"), ("older", "class means")])
def test_tasks_in_another_order_are_found(kind, found, request):
    model = request.getfixturevalue(kind)
    store = Store(model.path)
    stored = store.read()
    with store.writing():
        store.write(stored.content | {"tasks": stored.content["tasks"][::-1]}, stored.states)
    verdicts = Model.open(model.path).verify()
    assert all(found in verdict.told_open for verdict in verdicts)
    assert not any(verdict.unchanged for verdict in verdicts)


KINDS = [("older", f"statistics.{part}") for part in ("energy", "covariance", "means")]
KINDS += [("model", f"common.{part}") for part in ("head", "weights", "open_weights", "classes")]
FILES = [(kind, f"task {t}", part) for t in (0, 1) for kind, part in KINDS]


@pytest.mark.parametrize(("kind", "state", "part"), FILES, ids=[f"{state}-{part}" for _, state, part in FILES])
def test_a_bit_flipped_in_a_file_whose_checksum_is_made_right_again_is_found(kind, state, part, request):
    model = request.getfixturevalue(kind)
    rng, store = random.Random(f"{state} {part}"), Store(model.path)
    stored = store.read()
    (kept,) = [kept for name, kept in stored.states.items() if name.startswith(state)]
    room, name = part.split(".")
    bytes_of = rng.choice(tensors(kept[room][name])).view(torch.uint8).view(-1)
    bytes_of[rng.randrange(len(bytes_of))] ^= 1 << rng.randrange(8)
    with store.writing():
        store.write(stored.content, stored.states)
    assert store.damage() == []
    verdicts = Model.open(model.path).verify()
    assert [verdict.unchanged for verdict in verdicts] == [state != "task 0", state != "task 1"]


def flip_a_bit(x: torch.Tensor, rng: random.Random) -> None:
    raw = x.view(-1)
    i = rng.randrange(len(raw))
    if x.dtype == torch.bool:
        raw[i] = ~raw[i]
    else:
        byte = raw[i : i + 1].view(torch.uint8)
        byte[rng.randrange(len(byte))] ^= 1 << rng.randrange(8)


def tamper(content: dict, states: dict, rng: random.Random) -> None:
    """Anything at all that is stored of a model, except the certificates themselves."""
    task, kept = rng.choice(content["tasks"]), rng.choice([kept for name, kept in states.items() if "task" in name])
    evidence = kept.get("common") or kept["statistics"]
    match rng.choice(["any tensor", "statistics", "statistics", "means", "classes", "temperature", "order", "spec"]):
        case "any tensor":
            flip_a_bit(rng.choice(tensors(rng.choice(list(states.values())))), rng)
        case "statistics":
            flip_a_bit(rng.choice(tensors(evidence)), rng)
        case "means":
            mean = rng.choice(evidence["means"]) if "means" in evidence else evidence["classes"]["sums"]
            mean.copy_(mean.flip(0) if rng.random() < 0.5 else mean * (1 + rng.choice([1e-7, 1e-3, 1.0])))
        case "classes":
            rng.shuffle(task["classes"])
        case "temperature":
            task[rng.choice(["temperature", "open_temperature"])] *= 1 + rng.choice([0, 1e-15, 1e-3, 1])
        case "order":
            rng.shuffle(content["tasks"])
        case "spec":
            content["spec"] |= rng.choice([{"seed": 7}, {"capacity": 0.5}, {"shape": [3, 15, 15]}])


def proved(path: Path) -> bool:
    try:
        return all(verdict.unchanged for verdict in Model.open(path).verify())
    except UserError:
        return False


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", ["model", "older"])
def test_after_tampering_open_answers_are_bit_identical_or_verify_fails(kind, seed, request):
    model = request.getfixturevalue(kind)
    rng, store, before = random.Random(seed), Store(model.path), answers(model, None)
    stored = store.read()
    for _ in range(rng.choice([1, 1, 2])):
        tamper(stored.content, stored.states, rng)
    with store.writing():
        store.write(stored.content, stored.states)  # every checksum is right
    assert not proved(model.path) or answers(Model.open(model.path), None) == before


def as_the_version_before_wrote_it(path: Path, monkeypatch) -> Model:
    """A directory of format 1: no task has a hash of evidence, names or temperatures."""
    directory = Store(path)
    stored = directory.read()
    for task in stored.content["tasks"]:
        del task["fingerprints"], task["certificate"]["evidence"]
    with monkeypatch.context() as patch, directory.writing():
        patch.setattr("snv.model.manifest.FORMAT", 1)
        directory.write(stored.content, stored.states)
    assert '"format": 1,' in (path / "model.json").read_text()
    return Model.open(path)


def test_a_model_of_the_version_before_verifies_with_the_task_known_and_says_what_was_not_certified(older, monkeypatch):
    before = answers(older, None)
    old = as_the_version_before_wrote_it(older.path, monkeypatch)
    assert answers(old, None) == before
    for verdict in old.verify():
        assert (verdict.unchanged, verdict.known, verdict.evidence) == (True, True, None)
        assert "bit-identical; the version of snv that wrote it certified no names and temperatures" in verdict.told
        assert verdict.told_open == "the version of snv that wrote it did not certify its evidence"
    one_ulp(old.specialists.network.heads[0].bias.data)
    birds, fish = old.verify()
    assert (birds.known, birds.evidence, fish.unchanged) == (False, False, True)
    assert birds.told == birds.told_open == "its weights changed"


def test_a_model_of_the_version_before_learns_saves_and_forgets(older, pictures, monkeypatch):
    old = as_the_version_before_wrote_it(older.path, monkeypatch)
    before = answers(old, "fish")
    old.learn(pictures / "trees", epochs=QUICK)
    assert [verdict.evidence for verdict in Model.open(old.path).verify()] == [None, None, True]
    old.forget("birds")
    again = Model.open(old.path)
    assert [(verdict.task, verdict.evidence) for verdict in again.verify()] == [("fish", None), ("trees", True)]
    assert all_unchanged(again)
    assert answers(again, "fish") == before
    one_ulp(again.specialists.statistics[1].means[0])
    assert again.verify()[1].told_open == "its evidence changed (class means in task 1)"


def test_a_certificate_that_lost_its_evidence_is_no_model_of_the_version_before(model):
    info = model.tasks[0]
    model.tasks[0] = dataclasses.replace(info, certificate=info.certificate | {"evidence": []})
    assert not model.verify()[0].unchanged


def test_answers_of_another_machine_are_compared_with_a_tolerance(model):
    info = model.tasks[0]
    model.tasks[0] = dataclasses.replace(info, certificate=info.certificate | {"logits": "computed elsewhere"})
    model.knowledge.probes[info.uid] = model.knowledge.probes[info.uid] + 1e-6
    assert model.verify()[0].unchanged
    model.knowledge.probes[info.uid] = model.knowledge.probes[info.uid] + 1e-2
    verdict = model.verify()[0]
    assert not verdict.unchanged
    assert "answers moved by 1.0e-02" in verdict.told
