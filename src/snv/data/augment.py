"""From raw pixels to network input, as tensor operations on whole batches on the training device."""

from __future__ import annotations
