"""Real photographs: every method runs on Tiny-ImageNet, killed and continued, in both scenarios."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from test_resume import in_another_process, results

from snv.config import load_config
from snv.learners import LEARNERS

TOO_LITTLE = {"snv-paper"}  # refuses a task of which it knows less than τ, as after one epoch on ten images of a class
CASES = [(name, s) for name, learner in LEARNERS.items() if name not in TOO_LITTLE for s in learner.card.scenarios]
CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.fixture(scope="session")
def tiny_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Decoded once, whichever test comes first."""
    return tmp_path_factory.mktemp("tiny-imagenet")


@pytest.mark.parametrize(("method", "scenario"), CASES, ids=[f"{m}-{s}" for m, s in CASES])
def test_tiny_imagenet_runs_and_resumes(method, scenario, tiny_imagenet_dir, tiny_cache, tmp_path):
    small = ["data.per_class=10", "train.epochs=1", "network.width=8", "threads=1", "checkpoint_seconds=0"]
    if method not in ("sgd", "snv"):  # all ten tasks for two methods, four for the others, to save minutes
        small += ["data.tasks=4", "data.classes=24"]
    overrides = [f"method={method}", f"data.dir={tiny_imagenet_dir}", *small]
    config = load_config(CONFIGS / f"mini-{scenario}.toml", overrides)
    start = time.monotonic()
    process = in_another_process(config, tmp_path / "whole", tiny_cache)
    process.join()
    assert process.exitcode == 0
    duration = time.monotonic() - start
    process = in_another_process(config, tmp_path / "cut", tiny_cache)
    time.sleep(0.6 * duration)
    process.kill()
    process.join()
    process = in_another_process(config, tmp_path / "cut", tiny_cache)
    process.join()
    assert process.exitcode == 0
    assert results(tmp_path / "cut") == results(tmp_path / "whole")
