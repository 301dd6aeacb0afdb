"""A task's whole answer in one module is the model's own, and its plain parts compute what the originals do."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from drawn import FISH
from snv.model.joint import Averaged, PlainPatches, Standardised, averaging
from snv.networks import PatchSpace
from taught import images_and_labels


@pytest.mark.parametrize(("size", "wanted"), [(7, 2), (27, 2), (64, 32), (50, 32), (5, 5), (3, 4)])
def test_averaging_is_adaptive_average_pooling(size, wanted):
    maps = torch.randn(2, 3, size, size + 1, generator=torch.Generator().manual_seed(0))
    expected = F.adaptive_avg_pool2d(maps, (wanted, wanted))
    torch.testing.assert_close(Averaged((size, size + 1), (wanted, wanted))(maps), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(averaging(size, wanted).sum(1), torch.ones(wanted))


@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 8, 8), (3, 48, 40)], ids=str)
def test_plain_patches_are_the_patches_of_the_common_space(shape):
    space = PatchSpace(shape, seed=0)
    images = torch.randn(40, *shape, generator=torch.Generator().manual_seed(1))
    space.fit(space.patches(images, torch.Generator().manual_seed(2)))
    torch.testing.assert_close(PlainPatches(space, shape)(images), space(images), atol=1e-4, rtol=1e-4)


def test_pixels_are_standardised_first():
    identity = torch.nn.Identity()
    pixels = torch.rand(2, 3, 4, 4)
    assert torch.allclose(Standardised(identity, (0.5,) * 3, (0.25,) * 3)(pixels), (pixels - 0.5) / 0.25)


@pytest.mark.parametrize("kind", ["model", "older"])
@pytest.mark.parametrize("fold", [True, False])
def test_the_module_gives_the_logits_of_the_model(kind, fold, request):
    model = request.getfixturevalue(kind)
    pixels = torch.from_numpy(images_and_labels(FISH, 3)[0]).permute(0, 3, 1, 2)
    logits = model.knowledge.logits(pixels, 1)
    with torch.inference_mode():
        torch.testing.assert_close(model.deployable("fish", fold)(pixels / 255), logits, atol=1e-4, rtol=1e-4)
