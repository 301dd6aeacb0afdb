"""One seed, and an independent generator for every purpose."""

from __future__ import annotations

import torch

from snv.seeding import derived_seed, generator


def test_the_same_seed_and_purpose_give_the_same_numbers():
    assert torch.equal(torch.rand(5, generator=generator(3, "a", 1)), torch.rand(5, generator=generator(3, "a", 1)))


def test_another_seed_or_purpose_gives_other_numbers():
    seeds = [derived_seed(*key) for key in ((3, "a", 1), (4, "a", 1), (3, "b", 1), (3, "a", 2), (3, "a"), (3, "a1"))]
    assert len(set(seeds)) == len(seeds)


def test_the_global_generator_is_left_alone():
    torch.manual_seed(0)
    state = torch.get_rng_state()
    torch.rand(5, generator=generator(3, "a"))
    assert torch.equal(torch.get_rng_state(), state)
