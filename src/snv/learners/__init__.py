"""The catalogue of methods, on one screen."""

from typing import Any

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
from snv.learners.pec import PEC
from snv.learners.sgd import SGD
from snv.learners.si import SI
from snv.learners.slda import SLDA
from snv.learners.snv import SNV
from snv.learners.snv_config import SNVConfig
from snv.learners.snv_evidence import add_to_common
from snv.learners.snv_paper import SNVPaper
from snv.learners.spacenet import SpaceNet
from snv.learners.wsn import WSN

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
    "SpaceNet",
    "add_to_common",
    "bytes_beyond_network",
    "method_table",
]
