"""Any picture becomes a square of colour, or is named."""

from __future__ import annotations

import os
import resource
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from snv.errors import UserError
from written import images_of, load_folder, save


@pytest.mark.parametrize("suffix", ["jpg", "JPEG", "png", "bmp", "gif", "webp", "tiff", "ppm"])
def test_any_format_that_pillow_reads_will_do(pets, suffix):
    save(pets / "cat" / f"deep/er/x.{suffix}", (200, 10, 10))
    images = images_of(load_folder(pets))
    assert len(images) == 7
    assert abs(images[3, 0].astype(int) - 200).max() < 8


def test_the_longer_side_is_cropped_at_both_ends(pets):
    wide = Image.new("RGB", (200, 100))
    wide.paste((255, 255, 255), (50, 0, 150, 100))
    wide.save(pets / "cat" / "0.png")
    assert (images_of(load_folder(pets))[0][:, :, 2:-2] == 255).all()


def test_orientation_is_honoured(pets):
    picture = Image.new("RGB", (60, 60))
    picture.paste((255, 0, 0), (0, 0, 60, 30))  # red on top; the tag says: turn it upside down
    exif = Image.Exif()
    exif[0x0112] = 3
    picture.save(pets / "cat" / "0.png", exif=exif)
    red = images_of(load_folder(pets))[0, 0]
    assert (red[:28] == 0).all()
    assert (red[36:] == 255).all()


@pytest.mark.parametrize(
    ("mode", "colour", "expected"),
    [
        ("L", 77, (77, 77, 77)),
        ("1", 1, (255, 255, 255)),
        ("RGBA", (9, 9, 9, 0), (255, 255, 255)),
        ("LA", (40, 255), (40, 40, 40)),
        ("I;16", 257 * 50, (50, 50, 50)),
        ("P", 0, (0, 0, 0)),
        ("F", 0.5, (128, 128, 128)),
        ("CMYK", (0, 0, 0, 0), (255, 255, 255)),
    ],
)
def test_every_kind_of_pixel_becomes_colour(pets, mode, colour, expected):
    save(pets / "cat" / "9.tiff", colour, mode=mode)
    assert images_of(load_folder(pets))[3, :, 30, 30].tolist() == list(expected)


@pytest.mark.parametrize("content", [b"", b"no image at all", None])
def test_an_image_that_does_not_decode_is_named(pets, content):
    path = pets / "dog" / "1.png"
    path.write_bytes(path.read_bytes()[:60] if content is None else content)
    with pytest.raises(UserError, match=r"dog/1\.png cannot be read as an image"):
        load_folder(pets)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_float_image_with_pixels_that_are_no_numbers_is_named(pets, value):
    pixels = np.full((8, 8), 0.5, np.float32)
    pixels[2, 3] = value
    Image.fromarray(pixels).save(pets / "dog" / "bad.tiff")
    with pytest.raises(UserError, match=r"dog/bad\.tiff has pixels that are not numbers"):
        load_folder(pets)


def test_a_float_image_beyond_one_is_named(pets):
    Image.fromarray(np.full((8, 8), 3.5, np.float32)).save(pets / "dog" / "bad.tiff")
    with pytest.raises(UserError, match=r"bad\.tiff has pixels from 0 to 3\.5"):
        load_folder(pets)


@pytest.mark.parametrize("limit", [3000, 2000])  # a warning of Pillow's, and an error
def test_an_image_made_to_exhaust_memory_is_named(pets, monkeypatch, limit):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with pytest.raises(UserError, match=r"cat/0\.png has more than [23],000 pixels"):
        load_folder(pets)


def png(width: int, height: int, data: bytes = b"") -> bytes:
    """A PNG that announces such a size."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def test_an_image_that_announces_50_000_by_50_000_pixels_is_refused_at_once(pets):
    (pets / "cat" / "0.png").write_bytes(png(50_000, 50_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match=r"cat/0\.png has more than 89,478,485 pixels"):
        load_folder(pets)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**16


def test_a_png_with_broken_chunks_is_named(pets):
    data = bytearray(png(8, 8, bytes(25 * 8)))
    data[45] ^= 0xFF
    (pets / "cat" / "0.png").write_bytes(data)
    with pytest.raises(UserError, match=r"cat/0\.png cannot be read as an image"):
        load_folder(pets)


@pytest.mark.parametrize("kind", ["EPS", "TGA", "ICO", "PCX", "SGI", "JPEG2000"])
def test_a_format_that_no_camera_writes_is_refused_whatever_its_name_says(pets, kind):
    Image.new("RGB", (16, 16)).save(pets / "cat" / "0.png", kind)
    with pytest.raises(UserError, match=r"cat/0\.png cannot be read as an image"):
        load_folder(pets)


def test_a_pipe_named_like_a_picture_is_refused_instead_of_waited_for(pets):
    (pets / "cat" / "0.png").unlink()
    os.mkfifo(pets / "cat" / "0.png")
    with pytest.raises(UserError, match=r"cat/0\.png is not an ordinary file"):
        load_folder(pets)


def test_a_jpeg_of_thousands_of_scans_is_refused(pets):
    Image.effect_noise((64, 64), 50).convert("RGB").save(pets / "cat" / "0.jpg", progressive=True)
    data = (pets / "cat" / "0.jpg").read_bytes()
    scan = data[data.rindex(b"\xff\xda") : -2]
    (pets / "cat" / "0.jpg").write_bytes(data[:-2] + scan * 2000 + data[-2:])
    with pytest.raises(UserError, match=r"cat/0\.jpg is a JPEG of more than 100 scans"):
        load_folder(pets)
