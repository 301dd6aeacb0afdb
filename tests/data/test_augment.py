from __future__ import annotations

import time

import pytest
import torch

from snv.data import SOURCES, Preprocess, load_source
from snv.data.augment import AUGMENTATIONS, crop_flip, resized_crop
from snv.errors import UserError
from snv.machine.ranks import Part


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pixels(b: int = 64, c: int = 3, side: int = 32) -> torch.Tensor:
    return torch.randint(0, 256, (b, c, side, side), dtype=torch.uint8, generator=rng())


def test_pixels_are_standardised_by_the_constants():
    prepare = Preprocess((0.1, 0.2, 0.3), (0.5, 0.6, 0.7), (3, 32, 32))
    x = pixels()
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (prepare.mean, prepare.std))
    torch.testing.assert_close(prepare(x, "cpu"), (x / 255 - mean) / std, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", AUGMENTATIONS)
def test_the_input_is_left_as_it_was(kind):
    x = pixels()
    Preprocess((0.5,) * 3, (0.5,) * 3, (3, 32, 32), kind)(x, "cpu", rng())
    assert torch.equal(x, pixels())


@pytest.mark.parametrize("kind", AUGMENTATIONS)
@pytest.mark.parametrize("channels_last", [False, True])
def test_the_same_generator_gives_the_same_images(kind, channels_last):
    prepare = Preprocess((0.5,) * 3, (0.5,) * 3, (3, 28, 28), kind)
    first, second = (prepare(pixels(), "cpu", rng(), channels_last) for _ in range(2))
    assert torch.equal(first, second)
    assert first.shape == (64, 3, 28, 28)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    assert first.is_contiguous(memory_format=layout)


@pytest.mark.parametrize("kind", AUGMENTATIONS)
def test_without_a_generator_nothing_is_random(kind):
    plain = Preprocess((0.5,) * 3, (0.5,) * 3, (3, 32, 32))
    assert torch.equal(Preprocess((0.5,) * 3, (0.5,) * 3, (3, 32, 32), kind)(pixels(), "cpu"), plain(pixels(), "cpu"))


def test_augmentation_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    for kind in AUGMENTATIONS:
        Preprocess((0.5,) * 3, (0.5,) * 3, (3, 32, 32), kind)(pixels(), "cpu", rng())
    assert torch.equal(before, torch.random.get_rng_state())


def test_crop_flip_equals_padding_cropping_and_flipping_one_by_one():
    images = torch.rand(40, 3, 8, 10, generator=rng())
    out = crop_flip(images, rng(5))
    draw = rng(5)
    top, left = torch.randint(0, 9, (2, 40, 1), generator=draw).squeeze(2).tolist()
    mirrored = torch.randint(0, 2, (40, 1), generator=draw, dtype=torch.bool).flatten().tolist()
    padded = torch.nn.functional.pad(images, (4, 4, 4, 4))
    for i in range(40):
        expected = padded[i, :, top[i] : top[i] + 8, left[i] : left[i] + 10]
        assert torch.equal(out[i], expected.flip(2) if mirrored[i] else expected)
    assert 0 < sum(mirrored) < 40


def test_a_resized_crop_shows_part_of_the_image_and_nothing_else():
    ramp = torch.linspace(0, 1, 64).expand(200, 1, 64, 64)
    out = resized_crop(ramp, (32, 32), rng())
    assert out.shape == (200, 1, 32, 32)
    assert 0 <= out.min() <= out.max() <= 1 + 1e-6
    widths = (out.amax((1, 2, 3)) - out.amin((1, 2, 3))).sort().values
    assert widths[0] < 0.4 < 0.9 < widths[-1]
    rising = (out[:, 0, 0, -1] > out[:, 0, 0, 0]).float().mean()
    assert 0.3 < rising < 0.7


def test_larger_images_are_cropped_in_the_middle():
    x = torch.zeros(1, 1, 6, 6, dtype=torch.uint8)
    x[:, :, 1:5, 1:5] = 255
    assert Preprocess((0.0,), (1.0,), (1, 4, 4))(x, "cpu").eq(1).all()


def test_an_unknown_augmentation_is_answered_with_the_known_ones():
    with pytest.raises(UserError, match="crop-flip"):
        Preprocess((0.5,), (0.5,), (1, 8, 8), "crop")


def test_digits_are_never_flipped():
    assert load_source("digits").augmentation == "none"
    assert Preprocess.of(load_source("permuted-digits")).augmentation == "none"
    assert all("digits" in name or "mnist" in name for name, about in SOURCES.items() if about.permuted)


def test_a_batch_is_augmented_in_milliseconds():
    prepare, x, draw = Preprocess((0.5,) * 3, (0.5,) * 3, (3, 32, 32), "crop-flip"), pixels(), rng()
    times = []
    for _ in range(20):
        start = time.perf_counter()
        prepare(x, "cpu", draw)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.01  # about 1 ms; generous, since test machines are busy


def test_a_kept_image_has_a_byte_for_each_of_its_numbers():
    assert Preprocess((0.5,) * 3, (0.5,) * 3, (3, 4, 5)).n_bytes == torch.zeros(3, 4, 5, dtype=torch.uint8).nbytes


@pytest.mark.parametrize("augmentation", ["crop-flip", "resized-crop"])
def test_a_part_of_a_batch_is_changed_as_it_is_within_the_batch(augmentation):
    images, ready = pixels(7, side=12), Preprocess((0.5,) * 3, (0.2,) * 3, (3, 12, 12), augmentation)
    whole = ready(images, "cpu", rng())
    for part in (Part(slice(0, None, 2), 7), Part(slice(1, None, 2), 7)):
        assert torch.equal(ready(images[part.rows], "cpu", rng(), part=part), whole[part.rows])
