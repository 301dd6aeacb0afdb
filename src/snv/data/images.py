"""From an image file to pixels, or to an error that names the file."""

from __future__ import annotations

import io
import math
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from snv.errors import UserError
from snv.files import read_bytes

FORMATS = ("JPEG", "MPO", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM", "AVIF")
"""What pictures come in. Pillow reads forty more, one of which runs a program (EPS); no camera writes them."""
LARGEST = 2**30
"""Bytes of a picture file."""
SCANS = 100
"""Of a JPEG; ten are usual, and every further one may cost as much as decoding the picture."""


def decode(file: io.BytesIO | Path, name: str | Path, size: int) -> NDArray[np.uint8]:
    """An image as (3, size, size): shorter side resized to ``size`` (bilinear, antialiased), then centre-cropped.

    Orientation follows the EXIF tag, and transparent parts become white.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd metadata are no concern of ours
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(_read(file, name), formats=_formats()) as image:
                if image.width * image.height > (Image.MAX_IMAGE_PIXELS or math.inf):
                    raise Image.DecompressionBombError  # warnings belong to all threads, so they may pass unseen
                image.draft(None, (2 * size, 2 * size))  # large JPEGs decode at a fraction of their size
                return squared(ImageOps.exif_transpose(image), name, size)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UserError(
            f"{name} has more than {Image.MAX_IMAGE_PIXELS:,} pixels, as files made to exhaust memory do. "
            "Shrink the image or remove it."
        ) from None
    except UserError:
        raise
    except Exception as error:  # Pillow's readers fail in many ways: OSError, SyntaxError, struct.error …
        raise UserError(f"{name} cannot be read as an image ({error}). Replace it or remove it.") from None


def is_picture(path: Path) -> bool:
    """Whether its name ends like those of files that are read."""
    return path.suffix.lower() in _suffixes()


@cache
def _suffixes() -> frozenset[str]:
    return frozenset(suffix for suffix, kind in Image.registered_extensions().items() if kind in _formats())


@cache
def _formats() -> tuple[str, ...]:
    """Those that this Pillow was built with."""
    Image.init()
    return tuple(kind for kind in FORMATS if kind in Image.OPEN)


def _read(file: io.BytesIO | Path, name: str | Path) -> io.BytesIO:
    """The bytes of a picture; a JPEG of so many scans that decoding it would never end is refused."""
    stream = file if isinstance(file, io.BytesIO) else io.BytesIO(read_bytes(file, LARGEST))
    data = stream.getvalue()
    if data[:2] == b"\xff\xd8" and data.count(b"\xff\xda") > SCANS:
        raise UserError(
            f"{name} is a JPEG of more than {SCANS} scans, as files made to keep a computer busy are. Save it anew."
        )
    return stream


def squared(image: Image.Image, name: str | Path, size: int) -> NDArray[np.uint8]:
    """An image as RGB (3, size, size)."""
    fitted = ImageOps.fit(_rgb(image, name), (size, size), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(fitted).transpose(2, 0, 1))


def _rgb(image: Image.Image, name: str | Path) -> Image.Image:
    if image.mode == "F":
        return Image.fromarray(bytes_from_unit(np.asarray(image), name)).convert("RGB")
    if image.mode.startswith("I"):  # 16 bits per pixel; Pillow itself would clip instead of scaling
        levels = np.asarray(image).clip(0, 65535)
        return Image.fromarray((levels // 257).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def bytes_from_unit(values: NDArray[np.floating], name: str | Path) -> NDArray[np.uint8]:
    """Pixels 0..255 from pixels in [0, 1]; anything else is refused under the name of the image."""
    if not np.isfinite(values).all():
        raise UserError(f"{name} has pixels that are not numbers (NaN or infinity). Repair it or remove it.")
    low, high = float(values.min(initial=0)), float(values.max(initial=0))
    if low < 0 or high > 1:
        raise UserError(
            f"{name} has pixels from {low:g} to {high:g}, but floating-point pixels lie in [0, 1]. "
            "Rescale them, or save 8-bit pixels."
        )
    levels: NDArray[np.uint8] = np.rint(values * 255).astype(np.uint8)
    return levels
