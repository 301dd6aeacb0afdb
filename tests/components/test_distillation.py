"""What a student is asked to keep of its teacher's answers."""

from __future__ import annotations

import pytest
import torch
from plain import plain_kd

from snv.components.distillation import distillation


@pytest.mark.parametrize("tau", [1.0, 2.0, 4.0])
def test_distillation_is_the_printed_formula(tau):
    torch.manual_seed(0)
    teacher, student = torch.randn(2, 6, 5) * 3
    assert distillation(student, teacher, tau).item() == pytest.approx(
        plain_kd(teacher.tolist(), student.tolist(), tau), rel=1e-5
    )


def test_distillation_pulls_nowhere_when_the_student_answers_like_its_teacher():
    student = torch.randn(6, 5).requires_grad_()
    distillation(student, student.detach(), 2.0).backward()
    assert student.grad.abs().max() < 1e-6
