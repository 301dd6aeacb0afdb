"""A code of features that is smaller than they are, and factors read from it."""

from __future__ import annotations

import torch

from snv.networks import AutoEncoder, Rescaling
from snv.seeding import generator


def test_an_auto_encoder_of_512_features_and_128_numbers_has_131_712_parameters():
    made = AutoEncoder(512, 128, generator(0, "auto-encoder"))
    assert sum(p.numel() for p in made.parameters()) == 131_712


def test_features_are_read_through_a_code_that_is_never_negative():
    made, features = AutoEncoder(12, 3, generator(0, "auto-encoder")), torch.randn(5, 12)
    by_hand = (features @ made.encoder.weight.T + made.encoder.bias).clamp(min=0)
    torch.testing.assert_close(made.code(features), by_hand)
    torch.testing.assert_close(made(features), by_hand @ made.decoder.weight.T + made.decoder.bias)


def test_the_same_seed_gives_the_same_weights():
    first, again, other = (AutoEncoder(12, 3, generator(seed, "auto-encoder")) for seed in (0, 0, 1))
    assert torch.equal(first.encoder.weight, again.encoder.weight)
    assert not torch.equal(first.encoder.weight, other.encoder.weight)


def test_factors_are_the_printed_formula():
    made, code = Rescaling(3, 4, generator(0, "rescaling")), torch.rand(5, 3)
    assert torch.equal(made.scale, torch.ones(4)) and torch.equal(made.shift, torch.zeros(4))
    torch.manual_seed(0)
    with torch.no_grad():
        made.scale.copy_(torch.rand(4))
        made.shift.copy_(torch.rand(4))
    v, v0 = made.map.weight.tolist(), made.map.bias.tolist()
    u, q = made.scale.tolist(), made.shift.tolist()
    for i, row in enumerate(code.tolist()):
        for c in range(4):
            inner = sum(a * x for a, x in zip(v[c], row, strict=True)) + v0[c]
            torch.testing.assert_close(made(code)[i, c].item(), u[c] * inner + q[c], rtol=1e-5, atol=1e-6)


def test_factors_start_near_1():
    made = Rescaling(128, 40, generator(0, "rescaling"))
    assert (made(torch.rand(50, 128)).mean() - 1).abs() < 0.2


def test_more_classes_keep_the_rows_of_the_first():
    older, newer = (Rescaling(3, n, generator(0, "rescaling", n)) for n in (2, 5))
    fresh = [p.detach().clone() for p in newer.parameters()]
    newer.copy_rows(older)
    for now, old, was in zip(newer.parameters(), older.parameters(), fresh, strict=True):
        assert torch.equal(now[:2], old) and torch.equal(now[2:], was[2:])
