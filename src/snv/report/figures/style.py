"""How figures look: colours that the colour-blind can tell apart, a marker for every method, a caption below.

Nothing is told by colour alone: methods have markers, bars have hatches, lines of methods that keep images are dashed,
and maps grow steadily lighter, so that a figure can be read in grey.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.mathtext import MathTextParser
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter

from snv.errors import UserError
from snv.files import write_atomic
from snv.learners import LEARNERS
from snv.runs import Result
from snv.text import printable, printable_lines

BLACK, GREY = "#000000", "#6b6b6b"
ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
"""Of Okabe and Ito; their yellow is too light for lines on white."""

MAP = "viridis"
"""Of shares and accuracies: perceptually uniform, readable in grey."""

HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++", "oo", "--")
SUFFIXES = (".png", ".svg", ".pdf")
CHARACTERS = 17.5
"""Of a caption, in an inch."""


@dataclass(frozen=True)
class Look:
    """A method's colour, which is its family's, and its marker, which is its own."""

    colour: str
    marker: str


LOOKS = {
    "sgd": Look(GREY, "v"),
    "joint": Look(BLACK, "*"),
    "ewc": Look(BLUE, "s"),
    "si": Look(BLUE, "D"),
    "lwf": Look(BLUE, "<"),
    "nfl": Look(SKY, ">"),
    "nfl+": Look(SKY, "P"),
    "pec": Look(PURPLE, "h"),
    "slda": Look(PURPLE, "p"),
    "wsn": Look(GREEN, "^"),
    "dcnet": Look(GREEN, "X"),
    "spacenet": Look(GREEN, "d"),
    "nispa": Look(GREEN, "8"),
    "icarl": Look(ORANGE, "s"),
    "der++": Look(ORANGE, "D"),
    "dytox": Look(ORANGE, "X"),
    "snv": Look(VERMILLION, "o"),
    "snv-paper": Look(VERMILLION, "H"),
}

OTHERS = [Look((BLUE, GREEN, ORANGE, PURPLE, SKY, BLACK, GREY)[i % 7], "sD^vPX<>hpd"[i % 11]) for i in range(77)]
"""Of variants: seven colours and eleven markers in all pairs."""


def look_of(method: str) -> Look:
    return LOOKS.get(method, Look(GREY, "o"))


def keeps_images(method: str) -> bool:
    """Whether images of old tasks are stored: its lines are dashed."""
    return method in LEARNERS and LEARNERS[method].card.stores_images


def line_of(method: str, variant: int = 0) -> dict[str, Any]:
    """How a method's line is drawn; its variants after the first borrow other colours and markers."""
    look = look_of(method) if variant == 0 else OTHERS[(variant - 1) % len(OTHERS)]
    return {
        "color": look.colour,
        "marker": look.marker,
        "linestyle": (0, (5, 2)) if keeps_images(method) else "-",
        "linewidth": 2.4 if method == "snv" and variant == 0 else 1.3,
        "markersize": 8 if look.marker == "*" else 5.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.5,
        "zorder": 5 if method == "snv" else 3,
    }


def hollow(style: dict[str, Any]) -> dict[str, Any]:
    """The same line dotted, with open markers: another reading of the same method."""
    return style | {"linestyle": (0, (1, 1.2)), "markerfacecolor": "white", "markeredgecolor": style["color"]}


# ---- sheet and caption


def sheet(width: float, height: float) -> Figure:
    """An empty figure of so many inches, without its caption."""
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06))


def captioned(figure: Figure, caption: str) -> Figure:
    """The figure with its caption below, made as much taller."""
    _tame(figure)
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(
        tamed(printable(caption)), int(width * CHARACTERS), break_long_words=False, break_on_hyphens=False
    )
    figure.set_size_inches(width, height + 0.14 * len(lines) + 0.1)
    figure.supxlabel("\n".join(lines), x=0.012, ha="left", fontsize=7.5, color="0.25", linespacing=1.25)
    return figure


def _tame(figure: Figure) -> None:
    """Words that are drawn stay words, whatever names they are made of."""
    for words in figure.findobj(Text):
        if (text := tamed(words.get_text())) != words.get_text():
            words.set_text(text)
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(formatter := axis.get_major_formatter(), FuncFormatter):  # what names of ticks become
                axis.set_major_formatter(FuncFormatter(_taming(formatter.func)))


def _taming(name: Callable[[float, int | None], str]) -> Callable[[float, int | None], str]:
    return lambda value, place: tamed(name(value, place))


def tamed(text: str) -> str:
    """Without signs that no font has, and with dollars as dollars where they are no mathematics."""
    text = printable_lines(text)
    if text.count("$") > 1:
        try:
            MathTextParser("path").parse(text)
        except Exception:  # of a grammar
            return text.replace("$", "\\$")
    return text


def caption_of(figure: Figure) -> str:
    """The caption as one line, for a page that places it itself."""
    return " ".join(figure.get_supxlabel().replace("\\$", "$").split())


def runs_of(results: Sequence[Result]) -> str:
    """How many runs there are, and with which seeds."""
    seeds = sorted({result.seed for result in results})
    n = len(results)
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))}"
    return f"{n} run{'s' * (n != 1)}, {which}" if results else "no runs"


def stream_of(result: Result) -> str:
    """The tasks of a run in words."""
    data = result.record.config["data"]
    classes = f", {data['classes']} classes" if data.get("classes") else ""
    return f"{data['name']}{classes}, {result.record.n_tasks} tasks"


def title_of(result: Result) -> str:
    """A run in words."""
    return f"{result.method} · {result.scenario.upper()} · seed {result.seed} ({stream_of(result)})"


# ---- axes


def plain(axis: Axes, x: str, y: str, grid: str = "y") -> None:
    """Labels, no box, a faint grid."""
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.spines[["top", "right"]].set_visible(False)
    if grid:
        axis.grid(axis=grid, color="0.9", linewidth=0.8)  # type: ignore[arg-type]
    axis.set_axisbelow(True)


def task_ticks(axis: Axes, n: int, first: float = 1, y: bool = False) -> None:
    """At most ten tasks named, counted from 1, the first of them at ``first``."""
    tasks = list(range(0, n, max(1, -(-n // 10))))
    places, names = [first + t for t in tasks], [str(t + 1) for t in tasks]
    axis.set_xticks(places, names)
    if y:
        axis.set_yticks(places, names)


@dataclass(frozen=True)
class End:
    """Where a line ends, and what stands there."""

    y: float
    text: str
    style: dict[str, Any]


def label_ends(axis: Axes, x: float, ends: Sequence[End]) -> None:
    """Names of lines at their right ends, moved apart, each with its marker."""
    low, high = axis.get_ylim()
    ordered = sorted(ends, key=lambda end: end.y)
    places = spread([end.y for end in ordered], 0.052 * (high - low), low, high)
    left, right = axis.get_xlim()
    at = x + 0.07 * (right - left)
    for end, place in zip(ordered, places, strict=True):
        style = {key: value for key, value in end.style.items() if key == "color" or key.startswith("marker")}
        axis.plot([x, at], [end.y, place], color=style["color"], linewidth=0.5, alpha=0.6, clip_on=False, zorder=1)
        axis.plot([at], [place], clip_on=False, linestyle="", **style)
        weight = "bold" if end.text == "snv" else "normal"
        axis.annotate(
            end.text,
            (at, place),
            (6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            annotation_clip=False,
            fontweight=weight,
        )
    axis.set_xlim(left, right)
    axis.set_ylim(low, high)


def spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Rising places moved as little as needed to lie ``gap`` apart, within the limits where there is room."""
    moved = [min(max(place, low), high) for place in places]
    for _ in range(400):
        for i in range(1, len(moved)):
            if (lack := gap - (moved[i] - moved[i - 1])) > 1e-9 * gap:
                moved[i - 1], moved[i] = moved[i - 1] - lack / 2, moved[i] + lack / 2
        if moved:
            moved[-1], moved[0] = min(moved[-1], high), max(moved[0], low)
    return moved


def on_colour(share: float) -> str:
    """Black or white, whichever is read better on the map at this share of its range."""
    return "black" if share > 0.6 else "white"


def none_of(what: str, command: str) -> UserError:
    """The answer if the runs given lack what a figure shows."""
    return UserError(f"None of these runs has {what}. Try: {command}")


# ---- files


def save_figure(figure: Figure, path: Path) -> Path:
    """As its ending says, whole or not at all, with the caption inside; the same figure gives the same bytes."""
    if path.suffix not in SUFFIXES:
        raise UserError(f"A figure is a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file; got {path.name}.")
    caption = caption_of(figure)
    metadata: dict[str, dict[str, Any]] = {
        ".png": {"Description": caption},
        ".svg": {"Description": caption, "Date": None},
        ".pdf": {"Subject": caption, "CreationDate": None, "ModDate": None},
    }

    def write(temporary: Path) -> None:
        with matplotlib.rc_context({"svg.hashsalt": "snv", "pdf.fonttype": 42}):
            figure.savefig(temporary, format=path.suffix[1:], dpi=200, metadata=metadata[path.suffix])

    write_atomic(path, write)
    return path
