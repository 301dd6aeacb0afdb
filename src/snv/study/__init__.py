"""Many runs: what is asked for, what is there already, what is left to do."""

from __future__ import annotations

from snv.study.bench import bench, planned, work_off
from snv.study.estimate import Estimates, Guess
from snv.study.expand import Job, Plan, expand
from snv.study.fingerprint import fingerprint
from snv.study.hands import do_all
from snv.study.ledger import Ledger, Standing
from snv.study.local import LocalWorkers, cores
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
    "News",
    "Outcome",
    "Plan",
    "Space",
    "Standing",
    "Study",
    "Trial",
    "Tuning",
    "Work",
    "Workers",
    "as_words",
    "bench",
    "carry_out",
    "cores",
    "do_all",
    "expand",
    "fingerprint",
    "load_study",
    "planned",
    "ranked",
    "reached",
    "smoke",
    "tune",
    "work_off",
]
