"""Who runs what, when; the directory a run leaves behind."""

from __future__ import annotations

from snv.runs.directory import RunDirectory, find_runs, load_record
from snv.runs.environment import describe
from snv.runs.interrupts import Interrupts
from snv.runs.meter import Meter
from snv.runs.record import Record
from snv.runs.run import Progress, run
from snv.runs.value import open_run, value_run

__all__ = [
    "Interrupts",
    "Meter",
    "Progress",
    "Record",
    "RunDirectory",
    "describe",
    "find_runs",
    "load_record",
    "open_run",
    "run",
    "value_run",
]
