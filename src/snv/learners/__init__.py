"""The catalogue of methods, on one screen."""

from typing import Any

from snv.learners.base import Learner, bytes_beyond_network
from snv.learners.card import SCENARIOS, Card, method_table
from snv.learners.der import DER
from snv.learners.ewc import EWC
from snv.learners.icarl import ICaRL
from snv.learners.joint import Joint
from snv.learners.lwf import LwF
from snv.learners.nispa import NISPA
from snv.learners.pec import PEC
from snv.learners.sgd import SGD
from snv.learners.si import SI
from snv.learners.slda import SLDA
from snv.learners.snv import SNV
from snv.learners.snv_config import SNVConfig
from snv.learners.snv_paper import SNVPaper
from snv.learners.spacenet import SpaceNet
from snv.learners.wsn import WSN

LEARNERS: dict[str, type[Learner[Any]]] = {
    "sgd": SGD,
    "joint": Joint,
    "ewc": EWC,
    "si": SI,
    "lwf": LwF,
    "pec": PEC,
    "slda": SLDA,
    "wsn": WSN,
    "spacenet": SpaceNet,
    "nispa": NISPA,
    "icarl": ICaRL,
    "der++": DER,
    "snv": SNV,
    "snv-paper": SNVPaper,
}

__all__ = [
    "DER",
    "EWC",
    "LEARNERS",
    "NISPA",
    "PEC",
    "SCENARIOS",
    "SGD",
    "SI",
    "SLDA",
    "SNV",
    "WSN",
    "Card",
    "ICaRL",
    "Joint",
    "Learner",
    "LwF",
    "SNVConfig",
    "SNVPaper",
    "SpaceNet",
    "bytes_beyond_network",
    "method_table",
]
