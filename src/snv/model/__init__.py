"""A classifier that lives in a directory and learns folder after folder of pictures."""

from __future__ import annotations

from snv.model.classifier import SNVClassifier
from snv.model.export import check_export, export_onnx, export_program
from snv.model.model import Model, Prediction, Standardised
from snv.model.pictures import decoded, picture_files
from snv.model.store import Store

__all__ = [
    "Model",
    "Prediction",
    "SNVClassifier",
    "Standardised",
    "Store",
    "check_export",
    "decoded",
    "export_onnx",
    "export_program",
    "picture_files",
]
