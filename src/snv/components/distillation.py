"""Answers of an older network that a newer one is asked to keep."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from snv.shapes import Logits


def distillation(student: Logits, teacher: Logits, temperature: float) -> Tensor:
    """KD_τ = τ² · mean_i [−Σ_c softmax(a_i/τ)_c log softmax(b_i/τ)_c] of teacher's a and student's b."""
    return temperature**2 * F.cross_entropy(student.float() / temperature, (teacher.float() / temperature).softmax(1))
