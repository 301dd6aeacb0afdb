"""Numbers from accuracy matrices and probabilities."""

from __future__ import annotations

from snv.metrics.calibration import calibration_error, temperature
from snv.metrics.transfer import Matrix, summary

__all__ = ["Matrix", "calibration_error", "summary", "temperature"]
