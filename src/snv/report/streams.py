"""Runs by what they learned: the same data cut into the same tasks, in the same network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from snv.config import RunConfig
from snv.learners import LEARNERS
from snv.report.cells import Cell
from snv.report.commands import flat
from snv.report.labels import apart, labels
from snv.report.measures import SCENARIOS
from snv.report.rows import GROUPS, group_of
from snv.report.settings import description, differing, settings_of
from snv.report.small import paper_stream
from snv.report.variants import Variant, find_variants, finished
from snv.runs import Result

UNKNOWN = "not in this catalogue"
RANKS = (*GROUPS, UNKNOWN)
"""Which rows compete, in the order in which they are shown."""


@dataclass(frozen=True, eq=False)
class Stream:
    """Runs that may stand side by side."""

    data: str
    n_tasks: int
    settings: Mapping[str, Any]  # of data and network
    results: tuple[Result, ...]
    apart: str = ""  # what sets it apart from streams with the same data and number of tasks

    @property
    def title(self) -> str:
        return f"{self.data}, {self.n_tasks} tasks" + (f" ({self.apart})" if self.apart else "")

    @property
    def paper_column(self) -> str:
        """Where the paper's tables have these data and as many tasks; empty if they do not."""
        return paper_stream(self._known)

    @property
    def setup(self) -> str:
        """Network and length of training, where all share them."""
        return description(self._known)

    @property
    def _known(self) -> list[Result]:
        """Runs of methods whose settings can be completed."""
        return [result for result in self.results if result.method in LEARNERS]


@dataclass(frozen=True, eq=False)
class Entry:
    """A variant on a stream in a scenario: a row of the table, a curve, a matrix."""

    label: str
    group: str
    variant: Variant

    @property
    def method(self) -> str:
        return self.variant.method

    @property
    def scenario(self) -> str:
        return self.variant.scenario

    @property
    def acc(self) -> Cell:
        return self.variant.metric("ACC")

    @property
    def borrowed(self) -> bool:
        """Whether its accuracies are read off runs of the other scenario, with the task known."""
        return any(result.scenario != self.scenario for result in self.variant.results.values())


def find_streams(results: Sequence[Result]) -> list[Stream]:
    """The streams, those with most runs first."""
    found: list[tuple[dict[str, Any], list[Result]]] = []
    for result in results:
        settings = {name: x for name, x in settings_of(result).items() if name.startswith(("data.", "network."))}
        same = (members for other, members in found if _alike(settings, other, result, members[0]))
        if (members := next(same, None)) is None:
            found.append((settings, [result]))
        else:
            members.append(result)
    streams = [
        Stream(str(settings.get("data.name")), members[0].record.n_tasks, settings, tuple(members))
        for settings, members in sorted(found, key=lambda pair: -len(pair[1]))
    ]
    return [Stream(s.data, s.n_tasks, s.settings, s.results, _apart(s, streams)) for s in streams]


def _alike(one: Mapping[str, Any], other: Mapping[str, Any], result: Result, member: Result) -> bool:
    return not differing([one, other]) and result.record.n_tasks == member.record.n_tasks


def _apart(stream: Stream, streams: Sequence[Stream]) -> str:
    """The settings that tell it from streams that would be called the same."""
    namesakes = [other for other in streams if (other.data, other.n_tasks) == (stream.data, stream.n_tasks)]
    told = apart([other.settings for other in namesakes], dict(flat(RunConfig().as_dict())))
    return told[namesakes.index(stream)]


def panels(stream: Stream) -> dict[str, list[Entry]]:
    """Every finished variant of a stream by scenario, group by group and the best first."""
    found = {scenario: find_variants(finished(stream.results), scenario) for scenario in SCENARIOS}
    names = labels(found)
    entries = {
        scenario: [Entry(names[id(v)], _group(method), v) for method, several in kinds.items() for v in several]
        for scenario, kinds in found.items()
    }
    return {scenario: sorted(several, key=_rank) for scenario, several in entries.items() if several}


def _group(method: str) -> str:
    return group_of(method) if method in LEARNERS else UNKNOWN


def _rank(entry: Entry) -> tuple[int, float]:
    return RANKS.index(entry.group), -(entry.acc.value or 0.0)
