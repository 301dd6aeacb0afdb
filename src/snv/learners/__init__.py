"""The catalogue of methods, on one screen."""

from __future__ import annotations

from typing import Any

from snv.errors import UserError, unknown
from snv.learners.base import Learner, bytes_beyond_network
from snv.learners.card import SCENARIOS, Card, method_table
from snv.learners.dcnet import DCNet
from snv.learners.der import DER
from snv.learners.dytox import DyTox
from snv.learners.ewc import EWC
from snv.learners.icarl import ICaRL
from snv.learners.joint import Joint
from snv.learners.lwf import LwF
from snv.learners.nfl import NFL
from snv.learners.nfl_plus import NFLPlus
from snv.learners.nispa import NISPA
from snv.learners.own import is_own, mark_of_file, own_method, require_method, resolved
from snv.learners.pec import PEC
from snv.learners.sgd import SGD
from snv.learners.si import SI
from snv.learners.slda import SLDA
from snv.learners.snv import SNV
from snv.learners.snv_config import SNVConfig
from snv.learners.snv_evidence import add_to_common
from snv.learners.snv_paper import SNVPaper, SNVPaperConfig
from snv.learners.snv_values import estimator_settings, shares_prefixes
from snv.learners.spacenet import SpaceNet
from snv.learners.wsn import WSN
from snv.machine import ranks

LEARNERS: dict[str, type[Learner[Any]]] = {
    "sgd": SGD,
    "joint": Joint,
    "ewc": EWC,
    "si": SI,
    "lwf": LwF,
    "nfl": NFL,
    "nfl+": NFLPlus,
    "pec": PEC,
    "slda": SLDA,
    "wsn": WSN,
    "dcnet": DCNet,
    "spacenet": SpaceNet,
    "nispa": NISPA,
    "icarl": ICaRL,
    "der++": DER,
    "dytox": DyTox,
    "snv": SNV,
    "snv-paper": SNVPaper,
}

__all__ = [
    "DER",
    "EWC",
    "LEARNERS",
    "NFL",
    "NISPA",
    "PEC",
    "SCENARIOS",
    "SGD",
    "SI",
    "SLDA",
    "SNV",
    "WSN",
    "Card",
    "DCNet",
    "DyTox",
    "ICaRL",
    "Joint",
    "Learner",
    "LwF",
    "NFLPlus",
    "SNVConfig",
    "SNVPaper",
    "SNVPaperConfig",
    "SpaceNet",
    "add_to_common",
    "bytes_beyond_network",
    "estimator_settings",
    "is_own",
    "mark_of_file",
    "method_named",
    "method_table",
    "register",
    "require_parallel",
    "resolved",
    "shares_prefixes",
]


def method_named(name: str) -> type[Learner[Any]]:
    """A method of the catalogue, or the class that FILE.py:CLASS names; that file is executed."""
    if is_own(name):
        return own_method(name)
    if name.endswith(".py"):
        raise UserError(f"A method of your own is named by its file and its class, such as {name}:Mine; got {name}.")
    if name not in LEARNERS:
        raise unknown("method", name, LEARNERS)
    return LEARNERS[name]


def require_parallel(name: str) -> None:
    """Refuse a method that several processes cannot train together, if torchrun has started several."""
    if ranks.started() > 1 and not method_named(name).card.parallel:
        able = ", ".join(known for known, kind in LEARNERS.items() if kind.card.parallel)
        raise UserError(
            f"{name} cannot be trained by the {ranks.started()} processes that torchrun started: its step is more "
            f"than a mean over the images of a batch. Start it without torchrun, or choose one of {able}."
        )


def register(name: str, kind: type[Learner[Any]]) -> None:
    """Let a method of one's own be called by name, in this process."""
    require_method(kind)
    if LEARNERS.get(name, kind).__module__.startswith("snv.") and LEARNERS.get(name, kind) is not kind:
        raise UserError(f"{name!r} is a method of snv. Give yours another name.")
    LEARNERS[name] = kind
