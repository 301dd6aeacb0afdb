"""From an image file to pixels, or to an error that names the file."""

from __future__ import annotations

import io
import math
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from snv.errors import UserError


def decode(file: io.BytesIO | Path, name: str | Path, size: int) -> NDArray[np.uint8]:
    """An image as (3, size, size): shorter side resized to ``size`` (bilinear, antialiased), then centre-cropped.

    Orientation follows the EXIF tag, and transparent parts become white.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd metadata are no concern of ours
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file) as image:
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
