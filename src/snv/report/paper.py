"""What the paper prints, as it prints it; contradictions among its numbers are facts too (`contradictions`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from snv.errors import unknown

PRINTED_AS = {
    "snv": "SNV",
    "snv-paper": "SNV",
    "nfl": "NFL",
    "nfl+": "NFL+",
    "dcnet": "DCNet",
    "wsn": "WSN",
    "nispa": "NISPA",
    "spacenet": "SpaceNet",
    "pec": "PEC",
    "lwf": "LwF",
    "si": "SI",
    "ewc": "EWC",
    "dytox": "DyTox",
    "der++": "DER++",
    "icarl": "iCaRL",
}
"""Our methods in the paper's tables; it prints neither bounds nor the closed form."""

Sequences = Literal["imagenet-1k", "til", "cil"]
CAPACITIES = (0.03, 0.05, 0.1, 0.3, 0.5)
"""c of the sweeps of SNV and WSN in TIL."""


@dataclass(frozen=True)
class Printed:
    """A number of the paper; ``deviation`` where it prints one."""

    value: float
    deviation: float | None = None


@cache
def paper() -> dict[str, Any]:
    """All of it, as in `paper.json`."""
    found: dict[str, Any] = json.loads((files("snv.report") / "paper.json").read_text(encoding="utf-8"))
    return found


def paper_value(table: Sequences | Literal["cost"], method: str, column: str, metric: str = "ACC") -> Printed | None:
    """A number of the tables of accuracies or of costs; None where the paper has a dash, or no such row or column.

    ``method`` as printed ("SNV", in TIL "SNV c=0.1"); ``column`` such as "cifar-100/10", "TIL/50" or, of costs,
    "tiny-imagenet"; ``metric`` ACC, BWT and PS, or, of costs, teraFLOPs, minutes, GB, milliseconds.
    """
    return as_printed(paper()[table].get(method, {}).get(column, {}).get(metric))


def as_printed(stored: Any) -> Printed | None:
    """A number as `paper.json` has it: alone, or with its deviation."""
    if stored is None:
        return None
    return Printed(*stored) if isinstance(stored, list) else Printed(stored)


def row_name(method: str, scenario: str, capacity: float) -> str:
    """The row of a method of ours in the tables of CIFAR-100 and Tiny-ImageNet; SNV and WSN have one per c in TIL."""
    if method not in PRINTED_AS:
        raise unknown("method in the paper's tables", method, PRINTED_AS)
    name = PRINTED_AS[method]
    return f"{name} c={capacity:g}" if scenario == "til" and name in ("SNV", "WSN") else name


def chosen_capacity(method: str) -> float:
    """The c whose row stands for SNV (the one the paper chose) or WSN (it names none: the most of the sweep)."""
    return 0.1 if PRINTED_AS.get(method) == "SNV" else max(CAPACITIES)


def contradictions() -> list[str]:
    """Where the paper prints two numbers for one, or numbers that cannot both be."""
    return [*_two_accuracies(), *_two_times(), *_same_deviations(), *_forgetting(), *_units()]


def _two_accuracies() -> list[str]:
    """ACC in CIL after ten tasks, in the tables of accuracies and in that of costs."""
    found = []
    for method, columns in paper()["cost"].items():
        for data, costs in columns.items():
            table, column = ("imagenet-1k", "CIL/10") if data == "imagenet-1k" else ("cil", f"{data}/10")
            printed = paper()[table].get(method, {}).get(column, {}).get("ACC")
            if printed and printed[0] != costs["ACC"]:
                found.append(f"{method}, {data}: ACC {printed[0]:.2f}, in the table of costs {costs['ACC']:.2f}")
    return found


def _two_times() -> list[str]:
    """Minutes of all tasks, in the breakdown of valuations and in the table of costs."""
    return [
        f"{method}, {data}: {told[f'{method}, min']} minutes, in the table of costs {minutes:g}"
        for data, told in paper()["valuation"].items()
        for method in ("SNV", "EWC")
        if told[f"{method}, min"] != (minutes := paper()["cost"][method][data]["minutes"])
    ]


def _same_deviations() -> list[str]:
    """Methods whose deviations over seeds are the same numbers in TIL and in CIL."""
    til, cil = ({m: [cell["ACC"][1] for cell in row.values()] for m, row in paper()[t].items()} for t in ("til", "cil"))
    return [f"{m}: the same {len(til[m])} deviations of ACC in TIL and in CIL" for m in til if til[m] == cil.get(m)]


def _forgetting() -> list[str]:
    """BWT of SNV in CIL, and what its first task alone brings to it."""
    (first, last), n = paper()["text"]["accuracy of a task"]["cifar-100/10 task 1"], 10
    printed, alone = paper()["cil"]["SNV"]["cifar-100/10"]["BWT"], (last - first) / (n - 1) / 100
    fall = f"task 1 falls from {first:g} to {last:g}, which alone is {alone:.2f}"
    return [f"SNV, cifar-100, 10 tasks: BWT {printed:.2f} in CIL, where {fall}"]


def _units() -> list[str]:
    """BWT of SNV on ImageNet-1k in CIL, beside that of all others."""
    table = paper()["imagenet-1k"]
    rows = {m: [cell["BWT"] for n, cell in row.items() if n.startswith("CIL")] for m, row in table.items()}
    others = [bwt for method, row in rows.items() if method != "SNV" for bwt in row]
    own = " and ".join(f"{bwt:.2f}" for bwt in dict.fromkeys(rows["SNV"]))
    return [f"SNV, imagenet-1k: BWT {own} in CIL, where all others have {max(others):.2f} to {min(others):.2f}"]
