"""Sinks for what a run measures while it goes on: TensorBoard, MLflow, Weights & Biases; all on this machine."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from snv.config import flat
from snv.errors import UserError, unknown
from snv.runs.progress import Progress


@runtime_checkable
class Tracker(Protocol):
    """Hears of a run: its config once, numbers of a step now and then, the final ones if it finishes."""

    def begin(self, config: Mapping[str, Any], step: int) -> None:
        """What was asked. A run that goes on goes on after ``step``: what was told of later ones is void."""

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        """Of a step, which is the number of epochs and tasks so far."""

    def end(self, metrics: Mapping[str, float]) -> None:
        """The run has finished."""

    def close(self) -> None:
        """Nothing more will come, whether it has finished or not."""


class TensorBoard:
    """Event files in ``tensorboard``, within the run's directory; ``tensorboard --logdir runs`` shows all below."""

    def __init__(self, directory: Path) -> None:
        self._make = _required("tensorboard", "torch.utils.tensorboard").SummaryWriter
        self._folder = directory / "tensorboard"
        self._writer: Any = None

    def begin(self, config: Mapping[str, Any], step: int) -> None:
        self._writer = self._make(str(self._folder), purge_step=step + 1 if step else None)
        self._writer.add_text("config", f"```json\n{json.dumps(config, indent=1)}\n```", step)

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def end(self, metrics: Mapping[str, float]) -> None:
        self.numbers({f"final/{name}": value for name, value in metrics.items()}, 0)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class MLflow:
    """A database in ``mlflow``, within the run's directory, or wherever MLFLOW_TRACKING_URI says."""

    def __init__(self, directory: Path) -> None:
        self._make = _required("mlflow", "mlflow").MlflowClient
        self._directory = directory
        self._client: Any = None
        self._run = ""
        self._status = "KILLED"

    def begin(self, config: Mapping[str, Any], step: int) -> None:
        folder = self._directory.resolve() / "mlflow"
        folder.mkdir(parents=True, exist_ok=True)
        self._client = self._make(os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}"))
        self._run = self._find(folder)
        for name, value in flat(config).items():
            self._client.log_param(self._run, name, value)

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._client.log_metric(self._run, name, value, step=step)

    def end(self, metrics: Mapping[str, float]) -> None:
        self.numbers({f"final/{name}": value for name, value in metrics.items()}, 0)
        self._status = "FINISHED"

    def close(self) -> None:
        if self._client is not None:
            self._client.set_terminated(self._run, status=self._status)

    def _find(self, folder: Path) -> str:
        """The run that this directory had before, or a new one."""
        experiment = self._client.get_experiment_by_name("snv")
        where = experiment.experiment_id if experiment else self._client.create_experiment("snv", folder.as_uri())
        mark = _mark(self._directory)
        if found := self._client.search_runs([where], f"tags.snv_run = '{mark}'"):
            return str(found[0].info.run_id)
        made = self._client.create_run(where, tags={"snv_run": mark}, run_name=self._directory.name)
        return str(made.info.run_id)


class WandB:
    """Files in ``wandb``, within the run's directory, for `wandb sync`; WANDB_MODE=online sends them at once."""

    def __init__(self, directory: Path) -> None:
        self._init = _required("wandb", "wandb").init
        self._directory = directory
        self._run: Any = None

    def begin(self, config: Mapping[str, Any], step: int) -> None:
        self._run = self._init(
            project="snv",
            name=self._directory.name,
            id=_mark(self._directory),
            resume="allow",
            dir=str(self._directory),
            config=flat(config),
            mode=os.environ.get("WANDB_MODE", "offline"),
        )

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def end(self, metrics: Mapping[str, float]) -> None:
        self._run.summary.update({f"final/{name}": value for name, value in metrics.items()})

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()


class Several:
    """All of some trackers, or none."""

    def __init__(self, trackers: Sequence[Tracker] = ()) -> None:
        self._trackers = tuple(trackers)

    def begin(self, config: Mapping[str, Any], step: int) -> None:
        for tracker in self._trackers:
            tracker.begin(config, step)

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        for tracker in self._trackers:
            tracker.numbers(values, step)

    def end(self, metrics: Mapping[str, float]) -> None:
        for tracker in self._trackers:
            tracker.end(metrics)

    def close(self) -> None:
        for tracker in self._trackers:
            tracker.close()


TRACKERS: dict[str, Callable[[Path], Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}


def trackers(names: Sequence[str], directory: Path) -> Tracker:
    """Those of these names, for a run in this directory; one whose package is missing is refused."""
    for name in names:
        if name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS)
    return Several([TRACKERS[name](directory) for name in names])


def numbers_in(values: Mapping[str, Any]) -> dict[str, float]:
    """What of some values is a number, and known."""
    found = {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _required(name: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(
            f"--track {name} needs the package {name}, which is not installed. Use pip install 'snv[{name}]'."
        ) from None


def _mark(directory: Path) -> str:
    """What tells a run directory of this machine from any other."""
    return hashlib.blake2b(str(directory.resolve()).encode(), digest_size=8).hexdigest()


def _unheard(*_: object) -> None:
    """Nobody listens."""


class Listeners(NamedTuple):
    """Who hears of a run; of processes that train together, what follows the first has nothing to say."""

    progress: Progress = _unheard
    tracker: Tracker = Several()
    saved: Callable[[], None] = _unheard
