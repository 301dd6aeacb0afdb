"""A classifier that lives in a directory and learns folder after folder of pictures."""

from __future__ import annotations

from snv.model.answers import Prediction
from snv.model.audit import Audited
from snv.model.check import Check, check
from snv.model.classifier import SNVClassifier
from snv.model.export import Exported, check_export, export_onnx, export_program
from snv.model.joint import Standardised
from snv.model.model import Model
from snv.model.pictures import decoded, picture_files
from snv.model.proof import Verdict
from snv.model.store import Store
from snv.model.task import Learned, Status, TaskInfo

__all__ = [
    "Audited",
    "Check",
    "Exported",
    "Learned",
    "Model",
    "Prediction",
    "SNVClassifier",
    "Standardised",
    "Status",
    "Store",
    "TaskInfo",
    "Verdict",
    "check",
    "check_export",
    "decoded",
    "export_onnx",
    "export_program",
    "picture_files",
]
