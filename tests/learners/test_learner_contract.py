"""What holds for every method in every scenario it can do; the registry supplies the cases."""

from __future__ import annotations

import dataclasses
import gc
from pathlib import Path

import pytest
import torch
from toy import learn, make, toy_stream

from snv.files import cloned, load_state, save_state
from snv.learners import LEARNERS
from snv.networks.head import bytes_of
from snv.runs.evaluate import accuracy
from snv.training.stage import Batch

CASES = [(name, scenario) for name, learner in LEARNERS.items() for scenario in learner.card.scenarios]
pytestmark = pytest.mark.parametrize(("name", "scenario"), CASES, ids=[f"{n}-{s}" for n, s in CASES])


def matrix(learner, stream):
    rows = []
    for t in range(len(stream)):
        learn(learner, stream, t)
        rows.append([accuracy(learner, stream.test(j), stream.blocks[j]) for j in range(t + 1)])
    return rows


def test_the_task_just_learned_is_answered_better_than_by_chance(name, scenario):
    if (name, scenario) in (("snv-paper", "cil"), ("nfl", "cil")):
        pytest.skip(f"its heads are never trained against each other; test_{name.replace('-', '_')}.py has what holds")
    stream = toy_stream()
    for t, row in enumerate(matrix(make(name, scenario, stream), stream)):
        n_candidates = 2 if scenario == "til" else 2 * (t + 1)
        assert row[t] > 100 / n_candidates + 10, f"task {t + 1}"


def test_the_same_seed_gives_the_same_matrix_and_weights(name, scenario):
    stream = toy_stream()
    first, second = (make(name, scenario, stream) for _ in range(2))
    assert matrix(first, stream) == matrix(second, stream)
    assert_same(first.state_dict(), second.state_dict())


def test_another_seed_gives_other_weights(name, scenario):
    stream = toy_stream()
    first, second = make(name, scenario, stream, seed=0), make(name, scenario, stream, seed=1)
    for learner in (first, second):
        learn(learner, stream, 0)
    with pytest.raises(AssertionError):
        assert_same(first.state_dict(), second.state_dict())


def test_saved_and_loaded_it_predicts_the_same_and_learns_on_the_same(name, scenario, tmp_path: Path):
    stream = toy_stream()
    original = make(name, scenario, stream)
    learn(original, stream, 0)
    learn(original, stream, 1)
    save_state(tmp_path / "state.safetensors", original.state_dict())
    copy = make(name, scenario, stream)
    copy.load_state_dict(load_state(tmp_path / "state.safetensors"))
    images = torch.randn(5, 1, 8, 8)
    for learner in (original, copy):
        learner.network.eval()
    block = stream.blocks[0] if scenario == "til" else None
    assert torch.equal(original.logits(images, block), copy.logits(images, block))
    for learner in (original, copy):
        learn(learner, stream, 2)
    assert_same(original.state_dict(), copy.state_dict())


def test_smoothed_labels_change_training_and_not_the_validation_loss(name, scenario):
    if name in ("pec", "icarl", "slda"):
        pytest.skip("it minimises no cross-entropy, so there are no labels to smooth")
    stream = toy_stream()
    plain, smooth = (make(name, scenario, stream) for _ in range(2))
    smooth.setting = dataclasses.replace(smooth.setting, train=dataclasses.replace(smooth.setting.train, smoothing=0.2))
    task = stream.task(0).without_test()
    for learner in (plain, smooth):
        learner.begin_task(task)
    images, labels = torch.randn(6, 1, 8, 8), torch.arange(6) % 2
    validation, losses = [], []
    for learner in (plain, smooth):
        stage = learner.stage(task, 0)
        assert stage is not None
        validation.append(learner.validation(images, labels, stage)[0])
        losses.append(learner.loss(Batch(images, labels, images.byte(), torch.arange(6), stage, 0, 0, 0, 1, seed=0)))
    assert torch.equal(*validation)
    assert not torch.equal(*losses)


def test_a_prediction_changes_nothing(name, scenario):
    stream = toy_stream()
    learner = make(name, scenario, stream)
    learn(learner, stream, 0)
    before = cloned(learner.state_dict())
    accuracy(learner, stream.test(0), stream.blocks[0])
    accuracy(learner, stream.test(1), stream.blocks[1])
    assert_same(learner.state_dict(), before)


def test_no_image_of_a_task_can_be_reached_once_it_is_over_unless_a_memory_is_declared(name, scenario):
    stream = toy_stream()
    buffer = {"buffer": 7} if hasattr(LEARNERS[name].Config, "buffer") else {}
    learner = make(name, scenario, stream, **buffer)
    learn(learner, stream, 0)
    tensors = [x for x in reachable(learner) if isinstance(x, torch.Tensor) and x.shape[-3:] == (1, 8, 8)]
    images = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in tensors}
    declared = 7 * 64 if learner.card.stores_images else 0
    assert sum(images.values()) <= declared, "bytes of all pictures within reach"


def test_what_is_kept_is_what_was_declared(name, scenario):
    stream = toy_stream()
    learner = make(name, scenario, stream, **({"buffer": 20} if hasattr(LEARNERS[name].Config, "buffer") else {}))
    at_first, declared = bytes_of(learner.network), learner.bytes_kept(stream.blocks[-1].stop)
    most = 0
    for t in range(3):
        learn(learner, stream, t)
        most = max(most, held(learner.state_dict()))
    if learner.card.sees == "current task":
        learner.begin_task(stream.task(0).without_test())  # some keep more while they train
    most = max(most, held({k: v for k, v in learner.state_dict().items() if k != "targets"}))
    heads = sum(bytes_of(head) for head in learner.network.heads)
    assert most - at_first - heads <= 1.25 * declared + 64
    assert most - at_first >= 0.5 * declared


def held(state) -> int:
    """Bytes of all tensors of a state."""
    if isinstance(state, torch.Tensor):
        return state.nbytes
    parts = state.values() if isinstance(state, dict) else state if isinstance(state, list) else []
    return sum(held(part) for part in parts)


def test_a_stream_can_not_be_reached_from_a_learner_or_its_task(name, scenario):
    stream = toy_stream()
    learner = make(name, scenario, stream)
    task = stream.task(0).without_test()
    learner.begin_task(task)
    for start in (learner, task):
        assert not any(x is stream or x is stream.source for x in reachable(start))


def reachable(start: object) -> list[object]:
    """Every object that can be got at from ``start`` through attributes, items and views (not through code)."""
    seen: dict[int, object] = {}
    waiting = [start]
    while waiting:
        x = waiting.pop()
        if (
            id(x) in seen
            or isinstance(x, type)
            or type(x).__name__ in {"module", "function", "builtin_function_or_method"}
        ):
            continue
        seen[id(x)] = x
        if isinstance(x, torch.Tensor) and x._base is not None:
            waiting.append(x._base)
        waiting.extend(gc.get_referents(x))
    return list(seen.values())


def assert_same(a, b) -> None:
    """Bit-identical states."""
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, torch.Tensor):
        assert torch.equal(a, b)
    else:
        assert a == b
