"""What the neurons of a run were worth and whose they are, also of runs that did not keep it."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from snv.errors import UserError
from snv.neurons import NeuronTable
from snv.runs.directory import RunDirectory, load_record
from snv.runs.given import Own
from snv.runs.prepare import open_run, restore

FILE = "neurons.npz"


def neurons_of(path: Path, data_dir: Path | None = None, **own: Unpack[Own]) -> NeuronTable | None:
    """The table that a run kept, or that its newest checkpoint gives; None if its method values no neurons.

    What a run was made with of one's own is given again: ``own_method``, ``network``, ``data``.
    """
    if (path / FILE).exists():
        return NeuronTable.load(path / FILE)
    n_done = load_record(path).tasks_done
    if not RunDirectory(path).task_path(n_done).exists():
        raise UserError(f"{path} has no checkpoint of a task that is learned, so nothing is known of its neurons yet.")
    learner = open_run(path, data_dir, lambda *_: None, **own).learner
    restore(learner, path, n_done)
    return learner.neuron_table()
