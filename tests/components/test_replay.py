"""Memories: a reservoir is fair, herding stays near the mean, and both come back as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from snv.components.replay import (
    Exemplars,
    Joined,
    Reservoir,
    buffer_size,
    exemplars_per_class,
    herd,
    reservoir_slots,
)
from snv.data.task import InMemory
from snv.files import cloned, load_state, save_state
from snv.seeding import generator


def numbered(start: int, n: int) -> dict[str, torch.Tensor]:
    """Rows whose every column tells which row it is."""
    number = torch.arange(start, start + n)
    pixels = number.to(torch.uint8).view(n, 1, 1, 1).expand(n, 1, 2, 2)
    return {"pixels": pixels, "labels": number, "logits": number[:, None] + torch.tensor([0.25, 0.5])}


def filled(capacity: int, n: int, seed: int = 0, batch: int = 7) -> Reservoir:
    reservoir = Reservoir(capacity)
    for start in range(0, n, batch):
        reservoir.offer(generator(seed, start), **numbered(start, min(batch, n - start)))
    return reservoir


# ---- reservoir


def test_every_sample_offered_is_kept_equally_often():
    runs, n, capacity = 6000, 50, 10
    kept = torch.zeros(n)
    for run in range(runs):
        place = torch.full((capacity,), -1)
        for start in (0, 8, 30):  # batches before, across and after the moment the memory is full
            stop = {0: 8, 8: 30, 30: n}[start]
            rows, slots = reservoir_slots(start, stop - start, capacity, generator(run, start))
            place[slots] = start + rows
        kept[place] += 1
    expected = runs * capacity / n
    chi_square = ((kept - expected) ** 2 / (expected * (1 - capacity / n))).sum() * (n - 1) / n
    assert kept.sum() == runs * capacity
    assert chi_square < 90  # 49 degrees of freedom: one in 2,000 fair reservoirs is above 87


def test_a_reservoir_obeys_the_rule_sample_by_sample():
    """Slots of a whole batch against one sample after the other, from the same uniform numbers."""
    offered, n, capacity = 5, 40, 12
    uniform = torch.rand(n, generator=generator(3), dtype=torch.float64).tolist()
    plain: dict[int, int] = {}
    for row in range(n):
        number = offered + row
        slot = number if number < capacity else int(uniform[row] * (number + 1))
        if slot < capacity:
            plain[slot] = row
    rows, slots = reservoir_slots(offered, n, capacity, generator(3))
    assert dict(zip(slots.tolist(), rows.tolist(), strict=True)) == plain


@pytest.mark.parametrize("n", [0, 3, 10, 11, 60])
def test_it_holds_what_was_offered_up_to_its_capacity_and_counts_samples(n):
    reservoir = filled(10, n)
    assert len(reservoir) == min(n, 10)
    assert reservoir.offered == n


def test_a_row_stays_together_and_stays_as_it_was():
    reservoir = filled(10, 200)
    kept = reservoir.draw(10, generator(0))
    assert len(set(kept["labels"].tolist())) == 10
    assert torch.equal(kept["logits"], kept["labels"][:, None] + torch.tensor([0.25, 0.5]))
    assert torch.equal(kept["pixels"][:, 0, 0, 0], kept["labels"].to(torch.uint8))
    assert kept["pixels"].dtype == torch.uint8


def test_a_draw_repeats_no_row_and_changes_nothing():
    reservoir = filled(30, 100)
    before = cloned(reservoir.state_dict())
    drawn = reservoir.draw(20, generator(1))
    drawn["logits"].zero_()
    assert len(set(drawn["labels"].tolist())) == 20
    assert len(reservoir.draw(99, generator(1))["labels"]) == 30
    assert all(torch.equal(before["columns"][k], v) for k, v in reservoir.state_dict()["columns"].items())


def test_longer_vectors_leave_the_older_ones_as_they_were():
    reservoir = Reservoir(10)
    reservoir.offer(generator(0), logits=torch.ones(4, 2))
    reservoir.offer(generator(1), logits=torch.full((3, 5), 2.0))
    logits = reservoir.state_dict()["columns"]["logits"]
    assert torch.equal(logits[:4], torch.tensor([1.0, 1, 0, 0, 0]).expand(4, 5))
    assert torch.equal(logits[4:], torch.full((3, 5), 2.0))


@pytest.mark.parametrize("n", [0, 6, 50])
def test_a_saved_reservoir_goes_on_like_the_original(n, tmp_path: Path):
    original, copy = filled(10, n), Reservoir(10)
    save_state(tmp_path / "state", original.state_dict())
    copy.load_state_dict(load_state(tmp_path / "state"))
    for reservoir in (original, copy):
        reservoir.offer(generator(9), **numbered(n, 20))
    for name, column in original.state_dict()["columns"].items():
        assert torch.equal(column, copy.state_dict()["columns"][name])
    assert original.offered == copy.offered == n + 20


def test_a_state_it_was_loaded_from_is_not_written_to():
    state = cloned(filled(10, 50).state_dict())
    before = cloned(state)
    reservoir = Reservoir(10)
    reservoir.load_state_dict(state)
    reservoir.offer(generator(0), **numbered(100, 100))
    assert all(torch.equal(before["columns"][k], v) for k, v in state["columns"].items())


# ---- exemplars


def plain_herding(features: torch.Tensor, m: int) -> list[int]:
    """Try every sample for every place."""
    rows = features.double()
    mean, picks = rows.mean(0), []
    while len(picks) < min(m, len(rows)):
        distance = {
            i: float((mean - torch.stack([rows[j] for j in [*picks, i]]).mean(0)).norm())
            for i in range(len(rows))
            if i not in picks
        }
        picks.append(min(distance, key=distance.__getitem__))
    return picks


def test_herding_equals_trying_every_sample():
    features = torch.nn.functional.normalize(torch.rand(25, 6, generator=generator(0)), dim=1)
    assert herd(features, 12).tolist() == plain_herding(features, 12)
    assert herd(3 * features + 1, 40).tolist() == plain_herding(3 * features + 1, 25)


def test_herded_samples_stand_for_their_class_better_than_random_ones():
    features = torch.nn.functional.normalize(torch.rand(100, 8, generator=generator(1)), dim=1)
    mean, order = features.mean(0), herd(features, 40)
    for m in (5, 10, 40):
        herded = (features[order[:m]].mean(0) - mean).norm()
        draws = [features[torch.randperm(100, generator=generator(2, k))[:m]] for k in range(50)]
        assert herded < torch.stack([(draw.mean(0) - mean).norm() for draw in draws]).mean()


def test_fewer_picks_are_the_first_of_more():
    features = torch.rand(30, 4, generator=generator(2))
    assert herd(features, 5).tolist() == herd(features, 20)[:5].tolist()


def test_shortened_lists_are_prefixes_with_the_labels_of_their_class(tmp_path: Path):
    exemplars, pixels = Exemplars(), torch.randint(0, 256, (9, 1, 2, 2), dtype=torch.uint8)
    for kept in (pixels[:4], pixels[4:]):
        exemplars.add(kept)
    exemplars.shorten(3)
    assert len(exemplars) == 6
    assert torch.equal(exemplars.split().pixels, torch.cat([pixels[:3], pixels[4:7]]))
    assert exemplars.split().labels.tolist() == [0, 0, 0, 1, 1, 1]
    save_state(tmp_path / "state", {"exemplars": exemplars.state_dict()})
    copy = Exemplars()
    copy.load_state_dict(load_state(tmp_path / "state")["exemplars"])
    assert torch.equal(copy.split().pixels, exemplars.split().pixels)


def test_two_joined_splits_are_read_as_one():
    pixels = torch.arange(10, dtype=torch.uint8).view(10, 1, 1, 1)
    labels = torch.arange(10)
    joined = Joined(InMemory(pixels[:7], labels[:7]), InMemory(pixels[7:], labels[7:]))
    order = [torch.tensor([8, 1, 9, 0]), torch.tensor([7]), torch.tensor([6, 2]), torch.tensor([3, 4, 5])]
    for index, (images, answers) in zip(order, joined.batches(order), strict=True):
        assert images.flatten().tolist() == answers.tolist() == index.tolist()
    assert len(joined) == 10
    joined.close()
    with pytest.raises(RuntimeError, match="gone"):
        next(joined.batches(order))


def test_a_memory_has_the_size_asked_for_or_the_papers_and_one_image_per_class_at_least():
    assert [buffer_size(None, "cil"), buffer_size(None, "til"), buffer_size(7, "til")] == [2000, 200, 7]
    assert [exemplars_per_class(2000, 60), exemplars_per_class(200, 1000)] == [33, 1]


def test_choosing_exemplars_shortens_old_lists_and_herds_the_classes_of_the_block():
    pixels = torch.arange(24, dtype=torch.uint8).view(24, 1, 1, 1).expand(24, 1, 2, 2)
    features, exemplars = torch.randn(24, 3, generator=generator(0)), Exemplars()
    labels = torch.arange(24) % 2
    exemplars.choose(InMemory(pixels, labels), range(2), features, capacity=9)
    before = exemplars.of_class
    exemplars.choose(InMemory(pixels, labels + 2), range(2, 4), features, capacity=9)
    for c, mine in enumerate((labels == c).nonzero().flatten() for c in range(2)):
        assert torch.equal(before[c], pixels[mine[herd(features[mine], 4)]])
        assert torch.equal(exemplars.of_class[c], before[c][:2])
        assert torch.equal(exemplars.of_class[2 + c], pixels[mine[herd(features[mine], 2)]])
    assert len(exemplars) == 8
