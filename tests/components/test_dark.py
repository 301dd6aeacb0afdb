"""Which stored logits count, and what they pull."""

from __future__ import annotations

import torch

from snv.components.dark import label_loss, logit_loss, stored_columns

BLOCKS = [range(2), range(2, 4), range(4, 7)]


def test_logits_stored_before_a_class_existed_say_nothing_about_it():
    logits = torch.randn(3, 7, requires_grad=True)
    labels = torch.tensor([0, 3, 6])
    valid = stored_columns(labels, BLOCKS, False)
    assert valid.sum(1).tolist() == [2, 4, 7]
    logit_loss(logits, torch.zeros(3, 7), valid).backward()
    assert torch.equal(logits.grad != 0, valid)
    torch.testing.assert_close(logits.grad[valid], 2 * logits.detach()[valid] / 13)


def test_in_TIL_an_image_answers_to_its_own_head_only():
    labels = torch.tensor([1, 2, 5])
    own = stored_columns(labels, BLOCKS, True)
    assert [row.nonzero().flatten().tolist() for row in own] == [[0, 1], [2, 3], [4, 5, 6]]
    logits = torch.randn(3, 7, requires_grad=True)
    label_loss(logits, labels, own).backward()
    assert torch.equal(logits.grad != 0, own)
