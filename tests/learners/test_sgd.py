"""The lower bound forgets."""

from __future__ import annotations

import torch
from toy import learn, make, toy_stream

from snv.config import load_config
from snv.runs.evaluate import accuracy
from snv.runs.run import run


def test_SGD_in_CIL_answers_everything_with_the_newest_classes():
    stream = toy_stream()
    learner = make("sgd", "cil", stream)
    learn(learner, stream, 0)
    learn(learner, stream, 1)
    assert accuracy(learner, stream.test(0), stream.blocks[0]) < 50
    assert accuracy(learner, stream.test(1), stream.blocks[1]) > 90


def test_in_TIL_too_SGD_forgets(tmp_path):
    overrides = ["method=sgd", "scenario=til", "network.width=16", "train.epochs=8", "threads=1"]
    record = run(load_config(None, overrides), tmp_path / "run")
    assert (record.accuracy.diagonal() > 80).all()
    assert record.metrics["BWT"] < -3


def test_training_only_on_the_new_classes_is_another_method():
    stream = toy_stream()
    results = []
    for scope in ("seen", "new"):
        learner = make("sgd", "cil", stream, ce_scope=scope)
        learn(learner, stream, 0)
        learn(learner, stream, 1)
        results.append(learner.network.heads[0].weight.detach().clone())
    assert not torch.equal(*results)
