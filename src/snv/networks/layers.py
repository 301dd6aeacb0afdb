"""The kinds of layers that the library knows."""

from __future__ import annotations

from torch import nn

MAPS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm, nn.GroupNorm, nn.LayerNorm)
