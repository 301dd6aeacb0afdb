"""What classes were taken for, as a record keeps it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from snv.config import load_config
from snv.runs import Details, load_record, run
from snv.runs.evaluate import Answers

QUICK = ["data.tasks=2", "train.epochs=2", "network.name=mlp", "network.hidden=[12]", "threads=1", "data.per_class=40"]


def a_til_pair() -> Details:
    first = Answers(np.array([[3, 1], [0, 4]]), 0, None, 8)
    second = Answers(np.array([[2, 2], [1, 3]]), 0, None, 8)
    return Details.of([("cat", "dog"), ("cow", "hen")], [first, second, first])


def test_with_the_task_known_only_its_own_classes_are_confused():
    details = a_til_pair()
    assert details.confusion.tolist() == [[3, 1, 0, 0], [0, 4, 0, 0], [0, 0, 2, 2], [0, 0, 1, 3]]
    assert details.accuracy.tolist() == [75, 100, 50, 75]
    assert details.mistakes() == [(2, 3, 2), (0, 1, 1), (3, 2, 1)]


def test_what_is_stored_is_small_and_comes_back_the_same():
    details = a_til_pair()
    stored = json.loads(json.dumps(details.as_json(), allow_nan=False))
    assert stored["confusion"] == ["0:3 1:1", "1:4", "2:2 3:2", "2:1 3:3"]
    again = Details.from_json(stored)
    np.testing.assert_array_equal(again.confusion, details.confusion)
    assert (again.tasks, again.top5, again.as_json()) == (details.tasks, details.top5, details.as_json())


@pytest.mark.parametrize(("scenario", "settings", "has_top5"), [("til", [], False), ("cil", [], True)])
def test_a_run_records_answers_that_give_its_last_row(scenario, settings, has_top5, tmp_path):
    """Of ten classes, five compete in a task of five, and ten among all."""
    record = run(load_config(None, [*QUICK, f"scenario={scenario}", *settings]), tmp_path)
    details = load_record(tmp_path).details
    assert details.as_json() == record.details.as_json()
    blocks = np.split(details.confusion.diagonal(), 2), np.split(details.confusion.sum(1), 2)
    right = [100 * own.sum() / all_.sum() for own, all_ in zip(*blocks, strict=True)]
    np.testing.assert_allclose(right, record.accuracy[1])
    assert details.classes == tuple(name for names in details.tasks for name in names) and len(details.classes) == 10
    if has_top5:
        assert all(top5 >= one for top5, one in zip(details.top5, record.accuracy[1], strict=True))
    else:
        assert details.top5 == (None, None)


def test_details_cost_no_further_pass(tmp_path, monkeypatch):
    """Every test image is answered once per row, and once more with the task known; validation ones are judged by."""
    from snv.learners import SGD

    n, whole = [0], SGD.logits

    def counting(self, images, block):
        n[0] += len(images) * (not self.network.training)
        return whole(self, images, block)

    monkeypatch.setattr(SGD, "logits", counting)
    run(load_config(None, [*QUICK, "data.tasks=1", "data.classes=2", "train.epochs=1"]), tmp_path)
    test, val = 2 * 8, 2 * 4  # of 40 images per class
    # untrained and trained, one validation and one look at what came of it, latency at batch 1 and 64
    assert n[0] == 2 * test + 2 * val + 8 * (1 + 64)
