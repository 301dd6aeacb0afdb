"""Figures from records."""

from __future__ import annotations

from snv.report.matrices import save_matrices

__all__ = ["save_matrices"]
