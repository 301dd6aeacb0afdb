"""Every kind of run of a study in small: its method, settings and network, on two batches of made-up images a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from snv.config import DataConfig, RunConfig
from snv.files import write_atomic
from snv.seeding import generator
from snv.study.bench import Watch, planned, work_off
from snv.study.estimate import shape_of
from snv.study.expand import Job
from snv.study.fingerprint import fingerprint
from snv.study.ledger import Ledger, Standing
from snv.study.study import Study
from snv.study.workers import Workers

CLASSES, TASKS = 10, 2
PER_CLASS = 5
"""Three to learn from, one to validate, one to test: 15 images of a task are two batches of 8."""

BATCH = 8

WALKS = ("montecarlo", "truncated", "tmab", "hybrid")
"""Estimators that ask the network once for every neuron, thousands of times for one permutation of a full-size one."""

WIDTH = 8
"""Of the network where neurons are valued that way."""


def smoke(
    study: Study,
    folder: Path,
    *,
    jobs: int | None = None,
    only: Sequence[str] = (),
    workers: Workers | None = None,
    watch: Watch = lambda _: None,
) -> list[Standing]:
    """Every kind of run of a study, proven in small; all it writes is below ``folder``."""
    small = in_small(planned(study, only).jobs, folder)
    standings = Ledger(folder / "records", folder / "runs").survey(small)
    return work_off(standings, jobs=jobs, workers=workers, watch=watch)


def in_small(jobs: Sequence[Job], folder: Path) -> list[Job]:
    """Runs that differ in more than the seed and the number of tasks, each once, on images made up in ``folder``."""
    kinds: dict[str, Job] = {}
    for job in jobs:
        config = _shrunk(job.config, folder)
        kinds.setdefault(fingerprint(config), dataclasses.replace(job, config=config))
    return list(kinds.values())


def _shrunk(config: RunConfig, folder: Path) -> RunConfig:
    """The same run with two tasks of five made-up classes, and two steps in each."""
    walks = config.method == "snv-paper" or config.learner.get("estimator") in WALKS
    network = dataclasses.replace(config.network, width=WIDTH) if walks else config.network
    return dataclasses.replace(
        config,
        seed=0,
        data=DataConfig(name=f"npz:{made_up(shape_of(config), folder)}", tasks=TASKS),
        network=network,
        train=dataclasses.replace(config.train, epochs=1, batch_size=BATCH),
        learner=dict(config.learner) | _fewest(config),
        keep="last",
    )


def _fewest(config: RunConfig) -> dict[str, Any]:
    """As few draws as an estimator takes."""
    if config.method == "snv-paper":
        return {"permutations": 2, "burn_in": 2}
    if config.method == "snv":
        return {"draws": 2}
    return {}


def made_up(shape: tuple[int, int, int], folder: Path) -> Path:
    """A file of noisy images of ten classes, each with a colour of its own in every corner."""
    channels, height, width = shape
    path = folder / f"made-up-{channels}x{height}.npz"
    if not path.exists():
        rng = generator(0, "made-up images", *shape)
        corners = torch.randint(0, 200, (CLASSES, channels, 2, 2), generator=rng).float()
        plain = torch.nn.functional.interpolate(corners, (height, width)).repeat_interleave(PER_CLASS, 0)
        noisy = plain + torch.randint(0, 56, plain.shape, generator=rng)
        images, labels = noisy.byte().permute(0, 2, 3, 1).numpy(), np.arange(CLASSES).repeat(PER_CLASS)
        write_atomic(path, lambda temporary: _save(temporary, images, labels))
    return path


def _save(path: Path, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> None:
    with path.open("wb") as file:
        np.savez(file, images=images, labels=labels)
