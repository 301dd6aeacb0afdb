"""What a method says of itself, once: `snv list`, the demo, the engine and the README's table read it here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from snv.training import Scenario

if TYPE_CHECKING:
    from snv.learners.base import Learner

SCENARIOS: tuple[Scenario, ...] = ("til", "cil")


@dataclass(frozen=True)
class Card:
    """A method in words, and what may be asked of it before it is made."""

    title: str
    paper: str  # its authors and year, or what it is to the paper
    page: str | None = None  # its page in docs/methods, without the ending
    scenarios: tuple[Scenario, ...] = SCENARIOS
    memory: str = "nothing"  # what of old tasks is kept, in words
    stores_images: bool = False  # whether images of old tasks are among it
    sees: Literal["current task", "all tasks"] = "current task"
    grows: bool = False  # whether the network gets larger with tasks, heads apart
    one_network: bool = True  # whether `network` as it stands answers, so that its neurons can be valued
    adds_up: bool = False  # its loss is a mean over images and terms without images: a step may be made in parts
    alike: bool = False  # trains alike in both scenarios: a CIL run, with the task known, has the TIL run's accuracies
    parallel: bool = False  # whether several processes may share its training: its loss is a mean over the images of a
    # batch, and what else it does follows from the task and the weights alone
    quick: bool = True  # whether the demo has time for it; `snv demo --all` has for all
    forgets: str = ""  # why old tasks fall towards 0 in CIL, if that is in the nature of the method
    space: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # values of settings in the paper's grid
    idle_first: tuple[str, ...] = ()  # of these, settings that change nothing while the first task is learned
    idle: Mapping[str, str] = field(default_factory=dict)  # and those that never change anything, with the reason
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what the paper chose, by data set
    retired: Mapping[str, Any] = field(default_factory=dict)  # settings of older versions: what is always done now
    added: Mapping[str, Any] = field(default_factory=dict)  # settings that older runs do not name: what they do


def method_table(methods: Mapping[str, type[Learner[Any]]]) -> str:
    """The methods of a catalogue as a table in Markdown, with links that lead from the root of the repository."""
    head = ["| method | file | paper | scenarios | keeps |", "|---|---|---|---|---|"]
    return "\n".join([*head, *(_row(name, kind) for name, kind in methods.items())]) + "\n"


def _row(name: str, kind: type[Learner[Any]]) -> str:
    card, file = kind.card, "/".join(kind.__module__.split(".")[1:]) + ".py"
    method = f"[`{name}`](docs/methods/{card.page}.md)" if card.page else f"`{name}`"
    scenarios = ", ".join(scenario.upper() for scenario in card.scenarios)
    return f"| {method} | [`{file}`](src/snv/{file}) | {card.paper} | {scenarios} | {card.memory} |"
