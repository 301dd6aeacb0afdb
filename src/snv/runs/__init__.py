"""Who runs what, when; the directory a run leaves behind."""

from __future__ import annotations

from snv.neurons import NeuronTable
from snv.runs.details import Details
from snv.runs.directory import RunDirectory, find_runs, load_log, load_record, make_directory
from snv.runs.environment import describe
from snv.runs.evaluate import accuracy
from snv.runs.given import Given, Own
from snv.runs.interrupts import Interrupts
from snv.runs.meter import Meter
from snv.runs.mirror import Mirror, Wanted, but_checkpoints, everything, is_url, mirrored
from snv.runs.moment import Moment, moment_after
from snv.runs.neurons import neurons_of
from snv.runs.prepare import Prepared, left_as_found, open_run, prepare, stream_of
from snv.runs.progress import Progress
from snv.runs.record import Record
from snv.runs.reevaluate import Reevaluation, evaluate_run
from snv.runs.results import Result, keep_result, read_results, record_of
from snv.runs.run import run
from snv.runs.same import FREE_TO_CHANGE
from snv.runs.track import TRACKERS, Tracker, trackers
from snv.runs.value import value_run

__all__ = [
    "FREE_TO_CHANGE",
    "TRACKERS",
    "Details",
    "Given",
    "Interrupts",
    "Meter",
    "Mirror",
    "Moment",
    "NeuronTable",
    "Own",
    "Prepared",
    "Progress",
    "Record",
    "Reevaluation",
    "Result",
    "RunDirectory",
    "Tracker",
    "Wanted",
    "accuracy",
    "but_checkpoints",
    "describe",
    "evaluate_run",
    "everything",
    "find_runs",
    "is_url",
    "keep_result",
    "left_as_found",
    "load_log",
    "load_record",
    "make_directory",
    "mirrored",
    "moment_after",
    "neurons_of",
    "open_run",
    "prepare",
    "read_results",
    "record_of",
    "run",
    "stream_of",
    "trackers",
    "value_run",
]
