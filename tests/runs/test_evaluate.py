"""One entry of the accuracy matrix."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from toy import learn, make, toy_stream

from snv.runs.evaluate import accuracy, answers


def test_it_is_the_percentage_of_right_answers_in_either_scenario():
    stream = toy_stream()
    for scenario in ("til", "cil"):
        learner = make("sgd", scenario, stream)
        learn(learner, stream, 0)
        test, block = stream.test(0), stream.blocks[0]
        images = torch.cat([images for images, _ in learner.setting.prepared(test)])
        answers = learner.logits(images, block if scenario == "til" else None).argmax(1)
        expected = 100 * float((answers + block.start == test.labels).double().mean())
        assert accuracy(learner, test, block) == pytest.approx(expected)


def test_in_CIL_a_task_to_come_is_answered_wrong_and_in_TIL_by_the_head_it_will_start_from():
    stream = toy_stream()
    cil, til = make("sgd", "cil", stream), make("sgd", "til", stream)
    for learner in (cil, til):
        learn(learner, stream, 0)
    assert accuracy(cil, stream.test(1), stream.blocks[1]) == 0
    assert accuracy(til, stream.test(1), stream.blocks[1]) > 0


def test_with_the_task_known_only_its_own_classes_are_candidates_in_CIL_too():
    stream = toy_stream()
    learner = make("sgd", "cil", stream)
    for t in range(2):
        learn(learner, stream, t)
    test, block = stream.test(0), stream.blocks[0]
    images = torch.cat([images for images, _ in learner.setting.prepared(test)])
    answers = learner.logits(images, None)[:, block.start : block.stop].argmax(1)
    expected = 100 * float((answers + block.start == test.labels).double().mean())
    assert accuracy(learner, test, block, known=True) == pytest.approx(expected)
    assert accuracy(learner, test, block, known=True) >= accuracy(learner, test, block)


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_answers_say_what_every_image_was_taken_for(scenario):
    stream = toy_stream()
    learner = make("sgd", scenario, stream)
    for t in range(2):
        learn(learner, stream, t)
    test, block = stream.test(1), stream.blocks[1]
    found = answers(learner, test, block)
    images = torch.cat([images for images, _ in learner.setting.prepared(test)])
    logits = learner.logits(images, block if scenario == "til" else None)
    expected = np.zeros((len(block), logits.shape[1]), int)
    np.add.at(expected, (test.labels.numpy() - block.start, logits.argmax(1).numpy()), 1)
    np.testing.assert_array_equal(found.counts, expected)
    assert found.accuracy == accuracy(learner, test, block)
    assert found.top5 is None, "no more than five classes compete"


def test_top_5_counts_images_whose_class_is_among_the_five_best():
    stream = toy_stream(n_tasks=4)
    learner = make("sgd", "cil", stream)
    for t in range(4):
        learn(learner, stream, t)
    test, block = stream.test(0), stream.blocks[0]
    assert learner.blocks[-1].stop > 5
    images = torch.cat([images for images, _ in learner.setting.prepared(test)])
    ranks = (-learner.logits(images, None)).argsort(1)[:, :5]
    expected = 100 * float((ranks == test.labels[:, None]).any(1).double().mean())
    assert answers(learner, test, block).top5 == pytest.approx(expected)


def test_where_memory_runs_out_fewer_images_at_a_time_are_answered_the_same(monkeypatch, caplog):
    """A network that takes no more than 10 images at once."""
    stream = toy_stream()
    learner = make("sgd", "til", stream)
    learn(learner, stream, 0)
    test, block = stream.test(0), stream.blocks[0]
    whole, features = answers(learner, test, block), learner.network.features
    assert len(test) > 10

    def narrow(images):
        if len(images) > 10:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return features(images)

    monkeypatch.setattr(learner.network, "features", narrow)
    monkeypatch.setattr(learner, "logits", lambda images, block: learner.network.classify(narrow(images), 0))
    again = answers(learner, test, block)
    assert again.counts.tolist() == whole.counts.tolist()
    assert learner.at_once == 8
    assert "Going on with half as much at once" in caplog.text
