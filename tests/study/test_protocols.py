"""A search cannot look at what it may not see: it is not there."""

from __future__ import annotations

import gc
import importlib
import weakref

import numpy as np
import pytest

from snv.config import changed
from snv.data import Source, TaskStream, load_source
from snv.errors import UserError
from snv.study.protocols import stream_for

runs = importlib.import_module("snv.runs.prepare")


class Guarded(Source):
    """A source that breaks when any image is read but those that are allowed."""

    def __init__(self, source: Source) -> None:
        self.source, self.allowed = source, np.empty(0, np.int64)
        self.name, self.labels, self.class_names = source.name, source.labels, source.class_names
        self.shape, self.mean, self.std, self.augmentation = source.shape, source.mean, source.std, source.augmentation

    def _check(self, rows):
        assert np.isin(rows, self.allowed).all(), "an image was read that this search may not see"

    def split(self, indices, labels):
        self._check(indices)
        return self.source.split(indices, labels)

    def part(self, rows):
        self._check(rows)
        return self.source.part(rows)


@pytest.fixture
def guarded(monkeypatch, config):
    """Digits that let training and validation images of the first ``n`` tasks be read, and nothing else."""

    def make(n: int) -> weakref.ref[Guarded]:
        data, source = config.data, Guarded(load_source("digits"))
        stream = TaskStream(source, data.tasks, config.seed, n_classes=data.classes, per_class=data.per_class)
        classes = [c for t in range(n) for c in stream._classes[t]]
        rows = np.concatenate([stream._indices.train, stream._indices.val])
        source.allowed = rows[np.isin(source.labels[rows], classes)]
        given = [source]
        monkeypatch.setattr(runs, "load_source", lambda *_, **__: given.pop())  # once, and only once
        return weakref.ref(source)

    return make


@pytest.mark.parametrize(("protocol", "n"), [("first-task", 1), ("halves", 2)])
def test_only_images_of_the_protocol_are_read_and_the_source_is_let_go(config, guarded, protocol, n):
    source = guarded(n)
    n_allowed = len(source().allowed)
    stream = stream_for(config, protocol)
    assert len(stream) == n
    assert len(stream.source.labels) == n_allowed
    gc.collect()
    assert source() is None
    for t in range(n):
        for split in (stream.task(t).train, stream.task(t).val, stream.test(t)):
            assert len(split)


def test_the_guard_of_these_tests_stops_whoever_reads_more(config, guarded):
    guarded(1)
    with pytest.raises(AssertionError, match="may not see"):
        stream_for(config, "halves")
    source = guarded(1)
    whole = runs.stream_of(config)
    with pytest.raises(AssertionError, match="may not see"):
        whole.test(0)
    with pytest.raises(AssertionError, match="may not see"):
        whole.task(1)
    assert source() is whole.source


def test_halves_of_a_half_are_refused(config):
    with pytest.raises(UserError, match=r"Leave data\.half out"):
        stream_for(changed(config, {"data.half": "first"}), "halves")
