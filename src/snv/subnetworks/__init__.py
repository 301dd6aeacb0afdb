"""The neurons of a task as a network of their own: chosen, cut out, certified, believed."""

from __future__ import annotations

from snv.subnetworks.budget import Budget, Plan, check_parts, outside_part
from snv.subnetworks.certificate import Certificate, certify, changed_evidence, evidence_hashes, probe_logits
from snv.subnetworks.common import Common, CommonTask
from snv.subnetworks.cutting import Compact, Link, compact, require_cuttable
from snv.subnetworks.folding import folded
from snv.subnetworks.reads import Read, reads
from snv.subnetworks.rules import RULES, Evidence, Statistics, measure, sample_of_all
from snv.subnetworks.select import select
from snv.subnetworks.specialists import Kept, Specialists, bytes_kept, evidence_of, responses, share_in_use
from snv.subnetworks.subnetwork import Subnetwork, masked, norm_of, subnetwork_of
from snv.subnetworks.trainee import Trainee, hold, hold_dense, restored_trainee, trainee_state, write_back

__all__ = [
    "RULES",
    "Budget",
    "Certificate",
    "Common",
    "CommonTask",
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
    "bytes_kept",
    "certify",
    "changed_evidence",
    "check_parts",
    "compact",
    "evidence_hashes",
    "evidence_of",
    "folded",
    "hold",
    "hold_dense",
    "masked",
    "measure",
    "norm_of",
    "outside_part",
    "probe_logits",
    "reads",
    "require_cuttable",
    "responses",
    "restored_trainee",
    "sample_of_all",
    "select",
    "share_in_use",
    "subnetwork_of",
    "trainee_state",
    "write_back",
]
