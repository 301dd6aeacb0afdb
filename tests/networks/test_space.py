"""The space no task trains: whitened filters, the same for one seed, and cheap for large images."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from snv.networks.space import SMALLEST, PatchSpace, clusters, quarters, whitening


@pytest.fixture
def images():
    smooth = torch.rand(60, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    return F.interpolate(smooth, size=(16, 16), mode="bilinear")


def space_of(images, seed=0, filters=8):
    space = PatchSpace(tuple(images.shape[1:]), seed, filters)
    space.fit(space.patches(images, torch.Generator().manual_seed(0)))
    return space


def test_whitened_patches_have_the_same_variance_in_every_direction_but_noise():
    patches = torch.randn(5000, 4, generator=torch.Generator().manual_seed(1)) * torch.tensor([10.0, 5.0, 5.0, 0.01])
    z, mean = whitening(patches)
    variances = torch.cov(((patches.double() - mean) @ z).T).diagonal()
    assert variances[:3] == pytest.approx([0.95, 0.85, 0.85], abs=0.1)  # the ridge takes a little
    assert variances[3] < 1e-3


def test_features_are_those_of_a_plain_second_implementation(images):
    space, expected = space_of(images), []
    for image in images[:5]:
        patches = F.unfold(image[None], 6)[0].T  # (positions, 108)
        responses = (patches @ space.filters.weight.flatten(1).T + space.filters.bias).view(11, 11, 8)
        halves = torch.cat([F.relu(responses - 0.5), F.relu(-responses - 0.5)], dim=2)
        cells = [
            halves[rows][:, columns].mean((0, 1))
            for rows in (slice(0, 6), slice(5, 11))
            for columns in (slice(0, 6), slice(5, 11))
        ]
        expected.append(torch.stack(cells, dim=1).flatten().sqrt())
    torch.testing.assert_close(space(images[:5]), torch.stack(expected), atol=2e-3, rtol=1e-3)


def test_one_seed_gives_one_space_and_another_seed_another(images):
    assert torch.equal(space_of(images)(images), space_of(images)(images))
    assert not torch.equal(space_of(images)(images), space_of(images, seed=1)(images))


def test_an_image_has_the_same_features_alone_and_among_others(images):
    space = space_of(images)
    torch.testing.assert_close(space(images)[17:18], space(images[17:18]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (3, 64, 64), (3, 20, 48), (1, 4, 4), (3, 1, 1)])
def test_images_of_any_shape_have_eight_features_per_filter(shape):
    images = torch.rand(10, *shape)
    features = space_of(images)(images)
    assert features.shape == (10, 64)
    assert torch.isfinite(features).all()


def test_images_that_are_all_one_colour_make_no_infinite_filter():
    space = space_of(torch.ones(10, 3, 16, 16))
    assert torch.isfinite(space.filters.weight).all()
    assert torch.isfinite(space(torch.rand(4, 3, 16, 16))).all()


@pytest.fixture
def three_directions():
    """Points along three axes, on either side, with a little noise; the third has too few to make a cluster."""
    rng = torch.Generator().manual_seed(3)
    axes = torch.tensor([0] * 300 + [1] * 300 + [2] * (SMALLEST - 5))
    points = 0.05 * torch.randn(len(axes), 8, generator=rng, dtype=torch.float64)
    sides = torch.randint(2, (len(axes),), generator=rng).double() * 2 - 1
    points[torch.arange(len(axes)), axes] += sides * torch.rand(len(axes), generator=rng).double().add(0.5)
    return points[torch.randperm(len(points), generator=rng)]


def test_clusters_are_the_directions_that_points_lie_along_on_either_side(three_directions):
    drawn = F.normalize(torch.randn(12, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), dim=1)
    found = clusters(three_directions, drawn, torch.Generator().manual_seed(1))
    assert torch.allclose(found.norm(dim=1), torch.ones(12, dtype=torch.float64))
    for axis in (0, 1):
        assert found[:, axis].abs().max() > 0.98


def test_a_direction_that_few_patches_share_is_drawn_at_random_instead(three_directions):
    drawn = F.normalize(torch.randn(12, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), dim=1)
    found = clusters(three_directions, drawn, torch.Generator().manual_seed(1))
    kept = (found == drawn).all(1)
    assert 0 < int(kept.sum()) < 12
    assert found[~kept, 2].abs().max() < 0.5, "the third axis has too few points for a filter of its own"


def test_no_filter_is_a_patch_of_an_image(images):
    space = PatchSpace(tuple(images.shape[1:]), 0, 8, "clusters")
    patches = space.patches(images, torch.Generator().manual_seed(0))
    space.fit(patches)
    z, mean = whitening(patches)
    towards = F.normalize(space.filters.weight.flatten(1).double() @ torch.linalg.inv(z), dim=1)
    seen = F.normalize((patches.double() - mean) @ z, dim=1)
    assert (towards @ seen.T).abs().max() < 0.999


def test_filters_along_clusters_follow_from_the_seed_and_differ_from_random_ones(images):
    def space_along(directions):
        space = PatchSpace(tuple(images.shape[1:]), 0, 8, directions)
        space.fit(space.patches(images, torch.Generator().manual_seed(0)))
        return space.filters.weight

    assert torch.equal(space_along("clusters"), space_along("clusters"))
    assert not torch.equal(space_along("clusters"), space_along("random"))


def test_images_that_are_all_one_colour_have_no_clusters_and_no_infinite_filter():
    space = PatchSpace((3, 16, 16), 0, 8, "clusters")
    space.fit(space.patches(torch.ones(10, 3, 16, 16), torch.Generator().manual_seed(0)))
    assert torch.isfinite(space.filters.weight).all()


@pytest.mark.parametrize("channels", [1, 8, 20, 32, 112, 128])
def test_cells_are_those_of_adaptive_pooling_bit_for_bit(channels):
    for height, width in ((1, 1), (2, 2), (3, 3), (11, 11), (23, 23), (27, 27), (27, 15), (12, 13)):
        maps = torch.randn(3, channels, height, width, generator=torch.Generator().manual_seed(height))
        maps = maps.contiguous(memory_format=torch.channels_last)
        assert torch.equal(quarters(maps), F.adaptive_avg_pool2d(maps, 2)), (height, width)
