"""Answers within the classes that logits speak of."""

from __future__ import annotations

import torch

from snv.training.losses import cross_entropies, n_right


def test_labels_count_from_the_first_class_of_the_scope():
    logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([4, 4])
    expected = -logits.log_softmax(1)[:, 0]
    torch.testing.assert_close(cross_entropies(logits, labels, range(4, 6)), expected)
    assert int(n_right(logits, labels, range(4, 6))) == 1
    torch.testing.assert_close(cross_entropies(logits, labels - 4, None), expected)


def test_smoothing_spreads_a_share_of_the_label_over_all_classes():
    logits, labels = torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([0])
    log_p = logits.log_softmax(1)[0]
    expected = -(0.7 * log_p[0] + 0.3 * log_p.mean())
    torch.testing.assert_close(cross_entropies(logits, labels, None, smoothing=0.3)[0], expected)
