"""All that has been learned: one network, and of it one frozen subnetwork per task, which answers and never changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NotRequired, TypeAlias, TypedDict

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snv.components import ClassSums, redraw
from snv.files import State
from snv.networks import NORMS, Network, load_norm, norm_state, pack
from snv.neurons import Neurons, find_neurons, n_weights_outside, no_entries
from snv.shapes import Entries, Features, Images, Labels, Logits, Mask
from snv.subnetworks.certificate import (
    Certificate,
    certify,
    changed_evidence,
    common_hashes,
    evidence_hashes,
    probe_logits,
)
from snv.subnetworks.common import Batches, Common
from snv.subnetworks.copies import Copies
from snv.subnetworks.cutting import Compact, compact
from snv.subnetworks.folding import folded
from snv.subnetworks.reads import Read, reads
from snv.subnetworks.rules import RULES, Evidence, Statistics
from snv.subnetworks.subnetwork import Subnetwork

Detailed: TypeAlias = Float[Tensor, "b c rows columns"]
"""Images with more pixels than the network sees."""


class Kept(TypedDict):
    """Everything the specialists are made of, as it is stored."""

    network: dict[str, Tensor]
    frozen: Mask
    subnetworks: list[State]
    certificates: list[State]
    statistics: list[State]
    common: NotRequired[State]


class Specialists:
    """The body, a head for each task, and what each task needs besides: subnetwork, certificate, statistics.

    The network may have one head more than there are subnetworks: of a task that is being learned.
    """

    def __init__(
        self,
        network: Network,
        shape: tuple[int, int, int],
        phase: Callable[[str], AbstractContextManager[Any]] = nullcontext,
        common: Common | None = None,
    ) -> None:
        """``phase`` surrounds work whose amount depends on the images, so that it can be counted: ``cut``, ``ask``."""
        self.network, self.body, self.shape = network, network.body, shape
        self.device = next(self.body.parameters()).device
        self.neurons: Neurons = find_neurons(self.body, torch.zeros(2, *shape, device=self.device), include=["*"])
        self.subnetworks: list[Subnetwork] = []
        self.certificates: list[Certificate] = []
        self.statistics: list[Statistics] = []  # for telling tasks apart, if that is asked for
        self.common = common
        self._phase = phase
        self.copies = Copies()
        self._reads: dict[bytes, list[Read]] = {}

    # ---- what is frozen

    @property
    def frozen(self) -> Mask:
        """B_t, the neurons of all tasks (Eq. 7)."""
        return union(self.neurons, self.subnetworks)

    def read_by(self, tasks: Iterable[int] | None = None) -> list[Entries]:
        """The entries of each tensor of `own_weights` that any of these tasks, by default of all, depends on."""
        entries = no_entries(self.neurons)
        for t in range(len(self.subnetworks)) if tasks is None else tasks:
            for part, mine in zip(self.reads(t), entries, strict=True):
                mine |= part.entries
        return entries

    def reads(self, t: int) -> list[Read]:
        """Every weight of the body that task t depends on."""
        subnetwork = self.subnetworks[t]
        key = subnetwork.mask.numpy().tobytes()  # they depend on nothing else of it
        if key not in self._reads:
            self._reads[key] = reads(*self._parts(t), self.shape)
        return self._reads[key]

    def _parts(self, t: int) -> tuple[nn.Module, nn.Linear, Neurons, Subnetwork]:
        return self.body, self.network.head(t), self.neurons, self.subnetworks[t]

    # ---- answers

    def specialist(self, t: int) -> Compact:
        """Task t's subnetwork, cut out of the dense network as it is now."""
        return self.copies.of("cut out", t, lambda: _cut_out(self, t))

    def answer(self, images: Images, t: int) -> tuple[Features, Logits]:
        """Of task t: its features and the logits of its classes."""
        specialist = self.specialist(t)
        inside = specialist.body(images)
        return specialist.in_order(inside), specialist.head(inside)

    def logits(self, images: Images, t: int | None, rule: str = "combined", detailed: Detailed | None = None) -> Logits:
        """Of the classes of task t; of all classes if it is not known: by the common space, else by one of `RULES`.

        ``detailed``: the same images with more pixels, if the common space sees more than the network.
        """
        seen = images if detailed is None else detailed
        if t is not None:
            own, common = self.answer(images, t)[1], self._common_of(t)
            return own if common is None else common.answer(own, common.features(seen), t)
        if self.common is not None:
            return self.common.open_answer(images, self.common.features(seen), self._ask)
        return RULES[rule](evidence_of(self, images, whole_only=rule == "single-head"))

    def _ask(self, images: Images, t: int) -> Logits:
        """What task t's specialist says, by a copy of it with fewer operations, since many are asked."""

        def quick() -> Compact:
            with torch.inference_mode(False):
                small = folded(_cut_out(self, t))
                pack(small, images.clone())
            return small

        with self._phase("ask"):
            logits: Logits = self.copies.of("folded", t, quick)(images)
            return logits

    def _common_of(self, t: int) -> Common | None:
        """The common space, once task t has its part in it."""
        return self.common if self.common is not None and t < len(self.common.tasks) else None

    # ---- one task more, one task less

    def adopt(self, subnetwork: Subnetwork, seed: int) -> None:
        """From now on the newest head's task has this subnetwork: frozen, certified, and no earlier task changed."""
        self.subnetworks.append(subnetwork)
        self.copies.clear()
        self.certificates.append(self.certify(len(self.subnetworks) - 1, seed))
        self.verify()

    def add_statistics(self, statistics: Statistics) -> None:
        """What the newest task leaves behind, so that it can be told from others: certified too."""
        self.statistics.append(statistics)
        t = len(self.statistics) - 1
        self.certificates[t] = replace(self.certificates[t], evidence=_evidence(self, t))

    def add_common(self, sums: ClassSums, validation: Batches, labels: Labels) -> None:
        """The newest task's part in the common space, from its training and validation images: certified too."""
        assert self.common is not None
        self.common.add(sums, validation, labels, self._ask)
        t = len(self.common.tasks) - 1
        self.certificates[t] = self.certify(t)

    def forget(self, t: int, rng: torch.Generator) -> None:
        """Remove task t: its head, its subnetwork, every weight no other task reads; all others stay as they are."""
        others = self.read_by(s for s in range(len(self.subnetworks)) if s != t)
        redraw(self.neurons, [~read for read in others], rng)  # dense phases trained all, also with this task's images
        del self.subnetworks[t], self.certificates[t]
        if self.statistics:
            del self.statistics[t]
        if self.common is not None:
            self.common.forget(t)
        self.network.heads = nn.ModuleList(head for s, head in enumerate(self.network.heads) if s != t)
        for later in self.statistics[t:]:
            del later.means[t]
        self.certificates[t:] = [later.without_specialist(t) for later in self.certificates[t:]]
        _renew_norm(self.body, self.neurons, self.subnetworks[-1] if self.subnetworks else None)
        self.copies.clear()

    # ---- proof

    def certify(self, t: int, seed: int | None = None) -> Certificate:
        """The fingerprints of task t as it is now, by default on the probe images of its certificate."""
        seed = self.certificates[t].seed if seed is None else seed
        certificate = certify(*self._parts(t), self.reads(t), self.shape, seed, self._common_of(t), t)
        return replace(certificate, evidence=_evidence(self, t))

    def probe_logits(self, t: int) -> Logits:
        """Answers of task t to the probe images of its certificate."""
        with torch.inference_mode():
            return probe_logits(*self._parts(t), self.shape, self.certificates[t].seed, self._common_of(t), t)

    def changed(self) -> dict[int, list[str]]:
        """The tasks that are not, bit for bit, what they were when they were learned, and what of them, in words."""
        changes = {t: _changes(issued, self.certify(t)) for t, issued in enumerate(self.certificates)}
        return {t: parts for t, parts in changes.items() if parts}

    def verify(self) -> None:
        """Stop if any task changed by a single bit."""
        for t, parts in self.changed().items():
            raise RuntimeError(
                f"Task {t + 1} is not what it was when it was frozen: {', '.join(parts)} changed. Nothing was saved "
                "after the last checkpoint, which is intact; please report this."
            )

    # ---- what is kept

    def state(self) -> Kept:
        """Tensors are live: clone what must not change."""
        state: Kept = {
            "network": dict(self.network.state_dict()),
            "frozen": self.frozen,
            "subnetworks": [subnetwork.state() for subnetwork in self.subnetworks],
            "certificates": [certificate.state() for certificate in self.certificates],
            "statistics": [statistics.state() for statistics in self.statistics],
        }
        if self.common is not None:
            state["common"] = self.common.state()
        return state

    def load(self, state: Kept) -> None:
        _load_network(self.network, state["network"])
        self.subnetworks = [Subnetwork.from_state(stored, self.device) for stored in state["subnetworks"]]
        self.certificates = [Certificate.from_state(stored) for stored in state["certificates"]]
        self.statistics = [Statistics.from_state(stored, self.device) for stored in state["statistics"]]
        if self.common is not None:
            self.common.load(state["common"], self.device)
        self.copies.clear()


def responses(specialists: Specialists, batches: Iterable[Images]) -> tuple[list[Tensor], Logits]:
    """Of images in batches: their features in every specialist, and the logits of the newest task."""
    features: list[list[Tensor]] = [[] for _ in specialists.subnetworks]
    logits: list[Tensor] = []
    for images in batches:
        for t, of_task in enumerate(features):
            of_task.append(specialists.specialist(t).features(images))
        logits.append(specialists.logits(images, len(features) - 1))
    return [torch.cat(parts) for parts in features], torch.cat(logits)


def evidence_of(specialists: Specialists, images: Images, whole_only: bool = False) -> Evidence:
    """What every task says of some images, for `RULES`; ``whole_only``: only the whole network speaks."""

    def unmasked() -> Logits:
        logits: Logits = specialists.network(images)
        return logits

    if whole_only:
        return Evidence([], [], [], unmasked)
    answers = [specialists.answer(images, t) for t in range(len(specialists.subnetworks))]
    features, logits = (list(part) for part in zip(*answers, strict=True))
    return Evidence(logits, features, specialists.statistics, unmasked)


def share_in_use(specialists: Specialists) -> dict[str, float]:
    """CAP (Eq. 12): share of parameters and of neurons in use; every task has norm layers of its own."""
    total = sum(p.numel() for p in specialists.body.parameters())
    in_use = specialists.frozen
    copies = sum(_n_norm(specialists.neurons, subnetwork.mask) for subnetwork in specialists.subnetworks)
    unused = n_weights_outside(specialists.neurons, specialists.read_by())
    unused += _n_norm(specialists.neurons, torch.ones_like(in_use)) - copies
    return {"parameters": 1 - unused / total, "neurons": float(in_use.double().mean())}


def bytes_kept(specialists: Specialists, n_tasks: int, n_classes: int, statistics: bool) -> int:
    """Mask and value per neuron, norm state; the common space, or half a covariance and means by specialist."""
    f = specialists.body.n_features
    per_task = 9 * specialists.neurons.n + sum(x.nbytes for x in norm_state(specialists.body).values())
    if specialists.common is not None:
        return n_tasks * per_task + specialists.common.bytes_kept(n_classes)
    return n_tasks * (per_task + (2 * f * f + 2 * f * n_classes if statistics else 0))


def union(neurons: Neurons, subnetworks: Iterable[Subnetwork]) -> Mask:
    """The neurons that any of these subnetworks has."""
    members = torch.zeros(neurons.n, dtype=torch.bool)
    for subnetwork in subnetworks:
        members |= subnetwork.mask
    return members


def _cut_out(specialists: Specialists, t: int) -> Compact:
    with specialists._phase("cut"), torch.inference_mode(False), torch.no_grad():
        return compact(*specialists._parts(t), specialists.shape)[0].eval()


def _evidence(specialists: Specialists, t: int) -> tuple[str, ...]:
    """Hashes of what task t brings to answers without the task, once that is measured."""
    if (common := specialists._common_of(t)) is not None:
        return common_hashes(common.tasks[t]) if common.open_answers else ()
    if t >= len(specialists.statistics):
        return ()
    upto = [certificate.tensors for certificate in specialists.certificates[: t + 1]]
    return evidence_hashes(specialists.statistics[t], upto)


def _changes(issued: Certificate, now: Certificate) -> list[str]:
    """What is not as it was issued, in words."""
    same_sums = (now.threads, now.machine) == (issued.threads, issued.machine)
    parts = ["weights"] if now.tensors != issued.tensors else []
    parts += ["answers"] if same_sums and now.logits != issued.logits else []
    return parts + (changed_evidence(issued.evidence, now.evidence) if issued.evidence else [])


def _load_network(network: Network, state: dict[str, Tensor]) -> None:
    """Weights of the body and of as many heads as there are; heads of the right sizes stay the objects they are."""
    n = sum(name.startswith("heads.") and name.endswith(".weight") for name in state)
    sizes = [len(state[f"heads.{t}.weight"]) for t in range(n)]
    if network.head_sizes != sizes[: len(network.heads)]:
        network.remove_heads()
    for k in sizes[len(network.heads) :]:
        network.add_head(k)
    network.load_state_dict(state)


def _renew_norm(body: nn.Module, neurons: Neurons, newest: Subnetwork | None) -> None:
    """The dense network's own norm layers are those of the newest task; without a task they are new."""
    if newest is not None:
        load_norm(body, newest.norm)
        _reset_silent(neurons, newest.mask)
        return
    for module in body.modules():
        if isinstance(module, NORMS):
            module.reset_parameters()


@torch.no_grad()
def _reset_silent(neurons: Neurons, mask: Mask) -> None:
    """Norm layers of all other neurons as in a new network: through zeros nothing would be learned."""
    for norm in neurons.norms:
        for name, new in (("weight", 1.0), ("bias", 0.0)):
            if (tensor := getattr(norm.module, name)) is not None:
                tensor[norm.silent(mask).to(tensor.device)] = new


def _n_norm(neurons: Neurons, mask: Mask) -> int:
    """Scales and shifts of the norm layers behind some neurons."""
    return sum(int(mask[owned.owner].sum()) for owned in neurons.owned if owned.role == "norm")
