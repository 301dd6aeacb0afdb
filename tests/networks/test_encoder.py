"""The patch encoder against attention written out in loops, and how it starts."""

from __future__ import annotations

import math

import pytest
import torch

from snv.errors import UserError
from snv.networks import n_parameters
from snv.networks.encoder import (
    GatedAttention,
    MapEncoder,
    PatchEncoder,
    apart,
    default_patch,
    first_gazes,
    matching_width,
)
from snv.networks.resnet import ResNet18
from snv.networks.tokens import TaskAttention
from snv.seeding import generator


def softmax(z: list[float]) -> list[float]:
    total = sum(math.exp(x) for x in z)
    return [math.exp(x) / total for x in z]


def test_offsets_are_counted_in_patches_from_the_one_that_looks_to_the_one_it_sees():
    r, places = apart(2, 3), [(x, y) for y in range(2) for x in range(3)]
    for i, (xi, yi) in enumerate(places):
        for j, (xj, yj) in enumerate(places):
            assert r[i, j].tolist() == [xj - xi, yj - yi, (xj - xi) ** 2 + (yj - yi) ** 2]


def test_at_first_nine_of_twelve_heads_look_at_the_nine_nearest_patches():
    gazes, r, centre = first_gazes(12, generator(0)), apart(5, 5), 12
    seen = [int((r @ gaze)[centre].argmax()) for gaze in gazes[:9]]
    assert sorted(seen) == [6, 7, 8, 11, 12, 13, 16, 17, 18]
    assert 0 < gazes[9:].abs().max() <= 0.04


def test_gated_attention_equals_the_printed_formula_with_rows_divided_by_their_sum():
    attention = GatedAttention(8, 2, generator(0))
    with torch.no_grad():
        for p in attention.parameters():
            p.copy_(torch.randn(p.shape, generator=generator(1)) * 0.5)
    r, x = apart(2, 2), torch.randn(3, 4, 8, generator=generator(2))
    expected = torch.zeros(3, 4, 8)
    with torch.no_grad():
        queries, keys = attention.query_key(x).split(8, dim=2)
        values = attention.value(x)
        for b in range(3):
            for i in range(4):
                mixed = []
                for h in range(2):
                    part, sigma = slice(4 * h, 4 * h + 4), 1 / (1 + math.exp(-float(attention.gate[h])))
                    content = softmax([float(queries[b, i, part] @ keys[b, j, part]) / math.sqrt(4) for j in range(4)])
                    position = softmax([float(attention.gaze[h] @ r[i, j]) for j in range(4)])
                    row = [(1 - sigma) * c + sigma * p for c, p in zip(content, position, strict=True)]
                    row = [a / sum(row) for a in row]
                    mixed.append(sum(a * values[b, j, part] for j, a in enumerate(row)))
                expected[b, i] = attention.out(torch.cat(mixed))
        torch.testing.assert_close(attention(x, r), expected, atol=1e-5, rtol=1e-5)


def test_values_start_as_the_identity_and_gates_at_one():
    attention = GatedAttention(8, 2, generator(0))
    assert torch.equal(attention.value.weight, torch.eye(8))
    assert attention.gate.tolist() == [1, 1]


def test_features_are_all_patches_in_a_row():
    encoder = PatchEncoder((3, 8, 12), 4, 16, 2, 4, generator(0))
    assert encoder(torch.randn(5, 3, 8, 12)).shape == (5, encoder.n_features) == (5, 2 * 3 * 16)


def test_a_patch_changes_what_all_patches_say():
    encoder = PatchEncoder((1, 8, 8), 4, 16, 1, 4, generator(0))
    image = torch.randn(1, 1, 8, 8)
    other = image.clone()
    other[0, 0, 0, 0] += 1
    moved = (encoder(image) - encoder(other)).view(4, 16).abs().amax(1)
    assert (moved > 0).all()


def test_the_seed_gives_the_weights_and_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    first, second = (PatchEncoder((1, 8, 8), 4, 16, 1, 4, generator(0)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


def test_patches_that_do_not_fill_the_image_are_refused():
    with pytest.raises(UserError, match="Patches of 4 pixels do not fill an image of 8 × 10"):
        PatchEncoder((1, 8, 10), 4, 16, 1, 4, generator(0))


def test_beside_a_ResNet_18_it_has_the_originals_sizes():
    assert matching_width(11_168_832, 5) == 384
    encoder, rng = PatchEncoder((3, 32, 32), 4, 384, 5, 12, generator(0)), generator(0)
    assert 10.5e6 < n_parameters(encoder, TaskAttention(384, 12, rng)) < 10.9e6
    assert [default_patch(side) for side in (8, 28, 32, 64, 224)] == [4, 4, 4, 8, 16]
    assert matching_width(1, 5) == 32


def test_in_a_ResNet_every_place_of_the_third_stages_map_is_a_patch():
    resnet = ResNet18(generator(0), width=4)
    encoder, images = MapEncoder(resnet, 4, generator(1)).eval(), torch.randn(2, 3, 16, 16)
    resnet.eval()
    with torch.no_grad():
        maps = resnet.layer3(
            resnet.layer2(resnet.layer1(torch.relu(resnet.bn1(resnet.conv1(images)))))
        )  # (2, 16, 4, 4)
        for layer in encoder.layers[-6:]:
            maps = layer(maps)
        patches = encoder(images).view(2, 16, encoder.dim)
        for place in range(16):
            torch.testing.assert_close(patches[:, place], maps[:, :, place // 4, place % 4])
    assert encoder.dim == 32


def test_a_ResNet_of_full_width_gives_the_originals_504_channels():
    assert MapEncoder(ResNet18(generator(0)), 12, generator(1)).dim == 504
