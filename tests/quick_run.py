"""Settings of a run that takes a second."""

from __future__ import annotations

QUICK = ["--data", "digits", "--tasks", "5", "--epochs", "8", "network.name=mlp", "network.hidden=[32]"]
