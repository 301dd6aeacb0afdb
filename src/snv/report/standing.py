"""Which method is best on a stream, by how much, and how sure that is: in words, for the top of a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from snv.report.cells import Column, cell_text
from snv.report.measures import metric
from snv.report.paired import FEWEST, Paired, paired
from snv.report.streams import Entry
from snv.runs import Result

ACC = Column("ACC", better="higher")
COMPETE = {
    "keeps no image": "that keep no image",
    "keeps images": "that keep images",
    "all images at hand": "with all images at hand",
    "not in this catalogue": "that are not in this version's catalogue",
}


@dataclass(frozen=True)
class Standing:
    """The best of a panel, and what speaks for it."""

    best: str
    acc: str
    among: str
    lead: str
    certainty: Literal["clear", "open", "untested"]
    sure: str
    beside: tuple[str, ...]  # the best of the other groups


def standing(found: Sequence[Entry]) -> Standing:
    """What the top of a page says of the variants of one stream and scenario, the best of each group first."""
    best = found[0]
    rivals = [entry for entry in found if entry.group == best.group]
    acc, whose = _acc_text(best), COMPETE[best.group]
    if len(rivals) == 1:
        alone = f"alone among methods {whose}"
        return Standing(best.label, acc, alone, "", "untested", "Nothing to compare it with yet.", _beside(found))
    others = [entry for entry in rivals if entry.method != best.method]
    second = others[0] if others else rivals[1]
    return Standing(best.label, acc, f"best of {_many(rivals)} {whose}", *_lead(best, second), _beside(found))


def _many(rivals: Sequence[Entry]) -> str:
    """How many compete: methods, and ways in which they were run if those are more."""
    n = len({entry.method for entry in rivals})
    methods = f"{n} method{'s' * (n > 1)}"
    return methods if n == len(rivals) else f"{len(rivals)} variants of {methods}"


def difference(entry: Entry, reference: Entry) -> Paired | None:
    """ACC of an entry minus that of another, over the seeds both have."""

    def acc(result: Result) -> float | None:
        return metric(result, "ACC", entry.scenario)

    return paired(entry.variant.results, reference.variant.results, acc)


def _lead(best: Entry, second: Entry) -> tuple[str, Literal["clear", "open", "untested"], str]:
    """By how much the best leads, and how sure that is."""
    next_ = "the next method" if second.method != best.method else "the next variant"
    lead = f"{(best.acc.value or 0.0) - (second.acc.value or 0.0):.2f} points above {second.label}, {next_}"
    found = difference(best, second)
    if found is None:
        return lead, "untested", "They have no seed in common, so how sure this is cannot be said."
    n = len(found.seeds)
    if found.p is None or found.interval is None:
        few = f"They have {n} seed{'s' * (n > 1)} in common, so how sure this is cannot be said"
        return lead, "untested", f"{few}; {FEWEST} allow a test."
    low, high = found.interval
    chance = "< 0.001" if found.p < 0.001 else f"= {found.p:.3f}"
    figures = f"{found.mean:+.2f} over {n} common seeds, 95 % interval {low:+.2f} … {high:+.2f}, p {chance}"
    if found.p < 0.05:
        return lead, "clear", f"More than chance: {figures}, paired t test."
    return lead, "open", f"Could be chance: {figures}, paired t test."


def _beside(found: Sequence[Entry]) -> tuple[str, ...]:
    """One sentence for the best of each other group."""
    tops = {entry.group: entry for entry in reversed(found) if entry.group != found[0].group}
    return tuple(
        f"Best of those {COMPETE[top.group]}: {top.label}, {_acc_text(top)} %." for top in reversed(tops.values())
    )


def _acc_text(entry: Entry) -> str:
    return cell_text(entry.acc, ACC)
