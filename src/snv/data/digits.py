"""1,797 handwritten digits of 8 × 8 pixels, part of the package: real images that learn in seconds.

They are the test part of "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, 1998, UCI Machine
Learning Repository, CC BY 4.0), with its 17 grey levels spread over 0..255.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from snv.data.arrays import Arrays
from snv.data.locate import Options
from snv.data.task import Source


def load(options: Options) -> Source:
    """The digits, from the file beside this one."""
    options.fixed_size("digits", 8)
    with np.load(Path(__file__).with_name("digits.npz"), allow_pickle=False) as file:
        images, labels = file["images"][:, None], file["labels"].astype(np.int64)
    return Arrays("digits", images, labels, tuple("0123456789"), mean=(0.3053,), std=(0.3759,))
