"""Many runs: what is asked for, what is there already, what is left to do."""

from __future__ import annotations

from snv.study.bench import bench, planned, work_off
from snv.study.estimate import Estimates, Guess
from snv.study.expand import Job, Plan, expand
from snv.study.fingerprint import fingerprint
from snv.study.hands import do_all
from snv.study.hired import hired
from snv.study.ledger import Ledger, Standing
from snv.study.local import LocalWorkers, cores, seats
from snv.study.mirrored import MirroredWorkers, at_hand, but_runs, failures, how_they_stand
from snv.study.ray_workers import RayWorkers
from snv.study.smoke import smoke
from snv.study.space import PROTOCOLS, Space
from snv.study.study import Group, Study, load_study
from snv.study.trial import Outcome, Trial, as_words
from snv.study.tune import tune
from snv.study.tuning import Tuning, ranked, reached
from snv.study.workers import News, Work, Workers, carry_out

__all__ = [
    "PROTOCOLS",
    "Estimates",
    "Group",
    "Guess",
    "Job",
    "Ledger",
    "LocalWorkers",
    "MirroredWorkers",
    "News",
    "Outcome",
    "Plan",
    "RayWorkers",
    "Space",
    "Standing",
    "Study",
    "Trial",
    "Tuning",
    "Work",
    "Workers",
    "as_words",
    "at_hand",
    "bench",
    "but_runs",
    "carry_out",
    "cores",
    "do_all",
    "expand",
    "failures",
    "fingerprint",
    "hired",
    "how_they_stand",
    "load_study",
    "planned",
    "ranked",
    "reached",
    "seats",
    "smoke",
    "tune",
    "work_off",
]
