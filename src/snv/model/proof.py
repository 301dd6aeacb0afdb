"""Proof that no task changed since it was learned: everything its answers are computed from, computed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from snv.model.checked import fitting
from snv.model.knowledge import Knowledge
from snv.model.task import changed_fingerprints
from snv.subnetworks import Certificate, changed_evidence

TOLERANCE = 1e-4
"""How far logits may lie apart between machines that add in another order."""
PROVED = (
    "weights and answers are bit-identical, whatever is learned later",
    "evidence is bit-identical; the choice may differ as classes are added",
)
"""What `verify` says of a task that did not change, asked with the task known and without."""
PROVED_BEFORE = (
    "weights and answers are bit-identical; the version of snv that wrote it certified no names and temperatures",
    "the version of snv that wrote it did not certify its evidence",
)
ELSEWHERE = "weights are bit-identical, answers agree to {:.1e} (another machine adds in another order)"


@dataclass(frozen=True)
class Verdict:
    """What was proved of a task, for each of the two ways to ask."""

    task: str
    known: bool  # asked with the task: every answer is what it was
    told: str
    evidence: bool | None  # asked without: what it brings to the choice is what it was; None: not certified at the time
    told_open: str

    @property
    def unchanged(self) -> bool:
        """Whether nothing that was certified has changed."""
        return self.known and self.evidence is not False


def verdicts(knowledge: Knowledge) -> list[Verdict]:
    """Each task recomputed."""
    return [_verdict(knowledge, t) for t in range(len(knowledge.tasks))]


def _verdict(knowledge: Knowledge, t: int) -> Verdict:
    task, specialists = knowledge.tasks[t], knowledge.specialists
    issued = Certificate.from_state(task.certificate)
    with fitting(), _threads(issued.threads):
        now = specialists.certify(t, issued.seed)
        logits = specialists.probe_logits(t).cpu()
        apart = float((logits - knowledge.probes[task.uid].cpu()).abs().max())
    certified = bool(task.fingerprints or issued.evidence)
    changes = _changes(issued, now, apart, certified) | changed_fingerprints(task, knowledge.preprocess)
    if not _in_order(knowledge, t):
        changes["place"] = "its place among the tasks changed"
    known = [words for part, words in changes.items() if part not in ("evidence", "open temperature", "place")]
    unknown = [words for part, words in changes.items() if part != "temperature"]
    exact, (proof, open_proof) = now.logits == issued.logits, PROVED if certified else PROVED_BEFORE
    return Verdict(
        task.name,
        not known,
        "; ".join(known) or (proof if exact else ELSEWHERE.format(apart)),
        None if not (certified or unknown) else not unknown,
        "; ".join(unknown) or open_proof,
    )


def _in_order(knowledge: Knowledge, t: int) -> bool:
    """Whether the tasks before were learned before, and those after it after: open answers add up in this order."""
    uids = [task.uid for task in knowledge.tasks]
    return all(uid < uids[t] for uid in uids[:t]) and all(uid > uids[t] for uid in uids[t + 1 :])


def _changes(issued: Certificate, now: Certificate, apart: float, certified: bool) -> dict[str, str]:
    """Which part of a certificate does not hold any more, in words; ``apart`` is how far probe answers moved."""
    changes = {}
    if now.tensors != issued.tensors:
        changes["weights"] = "its weights changed"
    elif now.logits != issued.logits and not apart <= TOLERANCE:
        changes["answers"] = f"its answers moved by {apart:.1e}"
    if certified and (parts := changed_evidence(issued.evidence, now.evidence)):
        changes["evidence"] = f"its evidence changed ({', '.join(parts)})"
    return changes


@contextmanager
def _threads(n: int) -> Iterator[None]:
    """As many threads as when the certificate was issued, since they decide the order of additions."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
