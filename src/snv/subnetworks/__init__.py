"""The neurons of a task as a network of their own: chosen, cut out, certified, believed."""

from __future__ import annotations

from snv.subnetworks.budget import Plan, plan, tasks_that_fit
from snv.subnetworks.certificate import Certificate, certify, changed_evidence, evidence_hashes, probe_logits
from snv.subnetworks.cutting import Compact, Link, compact, write_back
from snv.subnetworks.folding import folded
from snv.subnetworks.rules import RULES, Evidence, Statistics, measure
from snv.subnetworks.select import select
from snv.subnetworks.specialists import Kept, Specialists
from snv.subnetworks.subnetwork import Read, Subnetwork, masked, norm_of, reads, subnetwork_of
from snv.subnetworks.trainee import Trainee, hold

__all__ = [
    "RULES",
    "Certificate",
    "Compact",
    "Evidence",
    "Kept",
    "Link",
    "Plan",
    "Read",
    "Specialists",
    "Statistics",
    "Subnetwork",
    "Trainee",
    "certify",
    "changed_evidence",
    "compact",
    "evidence_hashes",
    "folded",
    "hold",
    "masked",
    "measure",
    "norm_of",
    "plan",
    "probe_logits",
    "reads",
    "select",
    "subnetwork_of",
    "tasks_that_fit",
    "write_back",
]
