"""What every estimator returns: values, how sure they are, what they cost, and what is needed to continue."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from snv.errors import UserError, unknown
from snv.files import State, load_state, save_state
from snv.shapes import Indices, Mask
from snv.shapley.agreement import Cut, Number, ranking, split_half_overlap
from snv.shapley.intervals import asymptotic_radius, normal_quantile, t_radius
from snv.shapley.moments import Halves, Vector

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Account: TypeAlias = dict[str, Any]
"""What a valuation says of itself besides its values."""
HORIZON = 200.0  # time-uniform radii are tightest around this many observations


@dataclass(frozen=True)
class Valuation:
    """φ̂ of every player. ``stderr`` is infinite where unknown; a value nobody observed is not-a-number."""

    method: str
    seed: int
    values: Vector
    stderr: Vector
    counts: Int64[Tensor, " n"]
    k: int  # the selection the estimate was made for
    v_all: float
    v_none: float
    evaluations: float
    seconds: dict[str, float]
    stopped: str  # a sentence: why it ended
    halves: Float64[Tensor, "2 n"] | None = None  # values from two independent halves of the draws
    adaptive: bool = False  # who was sampled depended on the samples: intervals are time-uniform
    certified: bool = False
    eps: float = math.inf  # ε reached: no chosen player is worth less than a rejected one by more than this
    certificate: str = "Not certified: this estimator makes no statement about the top-k as a whole."
    contested: Indices = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    unbiased: Vector | None = None  # `hybrid`: from fresh exact flips; not-a-number where nothing was flipped
    unbiased_stderr: Vector | None = None
    names: tuple[str, ...] | None = None  # e.g. layer1.0.conv1[17]
    layers: tuple[str, ...] | None = None
    state: State = None  # what `resume` and `merge` need
    candidates: Mask | None = None  # who competed for the k places; None: everyone

    def __len__(self) -> int:
        return len(self.values)

    @property
    def efficiency_ratio(self) -> float:
        """Σφ̂ / (V(M) − V(∅)): 1 if efficiency holds; far from 1 it warns of bias (or of V(M) = V(∅))."""
        return efficiency_ratio(self.values, self.v_all, self.v_none)

    @property
    def account(self) -> Account:
        """What the valuation says of itself, without the values."""
        return account(
            self.method, self.values, (self.v_all, self.v_none), self.evaluations, self.stopped, self.certificate
        )

    @property
    def split_half_overlap(self) -> float:
        """The share of one half's top-k that the other half chooses too; not-a-number if there are no halves."""
        return math.nan if self.halves is None else split_half_overlap(self.halves, self.k)

    def top_k(self, k: Number | None = None) -> Indices:
        """The k (a number, or a share) players of largest signed value, best first, of those that competed."""
        return Cut.among(self.k if k is None else k, len(self), self.candidates).best(self.values)

    def interval(self, confidence: float = 0.95) -> tuple[Vector, Vector]:
        """Lower and upper end per player, around ``unbiased`` if there is one, else around ``values``.

        Student's t for one look at independent draws; time-uniform if sampling was adaptive. They cover what the
        estimator converges to: φ_i if it is unbiased, φ_i plus the bias that `efficiency_ratio` hints at if not.
        """
        centre = self.values if self.unbiased is None else self.unbiased
        stderr = self.stderr if self.unbiased_stderr is None else self.unbiased_stderr
        if self.adaptive:
            radius = asymptotic_radius(stderr**2 * self.counts, self.counts, 1 - confidence, HORIZON)
        else:
            radius = t_radius(stderr, self.counts, confidence)
        return centre - radius, centre + radius

    def merge(self, other: Valuation) -> Valuation:
        """Both samples as one, for independent runs of one sampling method with equal settings and unlike seeds."""
        if self.method != other.method or _settings(self) != _settings(other):
            raise UserError("Only valuations made by the same method with the same settings merge; these two differ.")
        if self.seed == other.seed:
            raise UserError(f"Both valuations used seed {self.seed}, so they hold the same draws; use another seed.")
        if self.adaptive or self.unbiased is not None or "halves" not in (self.state or {}):
            raise UserError(
                f"Values of {self.method!r} are not a plain sum over independent draws, so they cannot merge."
            )
        halves = Halves.from_state(self.state["halves"]).merge(Halves.from_state(other.state["halves"]))
        state = {**self.state, "halves": halves.state(), "merged": True}
        seconds = {name: self.seconds.get(name, 0.0) + s for name, s in other.seconds.items()}
        spent = self.evaluations + other.evaluations
        merged = replace(
            self, evaluations=spent, seconds=seconds, state=state, stopped=f"merged: {self.stopped}; {other.stopped}"
        )
        return merged.with_moments(halves)

    def with_moments(self, halves: Halves) -> Valuation:
        """The same with values, errors, counts and contested players taken from ``halves``."""
        moments = halves.all
        values, stderr = moments.observed_mean, moments.stderr
        return replace(
            self,
            values=values,
            stderr=stderr,
            counts=moments.count,
            halves=halves.means,
            contested=straddling(values, stderr, self.k),
        )

    def save(self, path: str | Path) -> None:
        """One safetensors file with a JSON header; no pickle."""
        save_state(Path(path), {name.name: getattr(self, name.name) for name in fields(self)})

    @staticmethod
    def load(path: str | Path) -> Valuation:
        """What `save` wrote, every part of it checked."""
        try:
            return restored(load_state(Path(path)))
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise UserError(f"{path} holds no values of players ({error}). Remove it, or value anew.") from None

    def plot(self, kind: str = "layers") -> Figure:
        """A picture: values by ``layers``, ``cumulative`` value, or ``intervals`` around the cut."""
        from snv.shapley.plots import PLOTS

        if kind not in PLOTS:
            raise unknown("picture", kind, PLOTS)
        return PLOTS[kind](self)

    def to_pandas(self) -> pd.DataFrame:
        """One row per player: value, stderr, count, 95 % interval, rank, and name, layer and unbiased if known."""
        try:
            import pandas as pd
        except ImportError:
            raise UserError("Tables need pandas, which is not installed. Try: pip install 'snv[pandas]'") from None
        low, high = self.interval()
        rank = torch.empty(len(self), dtype=torch.int64)
        rank[ranking(self.values)] = torch.arange(1, len(self) + 1)
        columns: dict[str, object] = {
            "value": self.values.numpy(),
            "stderr": self.stderr.numpy(),
            "count": self.counts.numpy(),
            "low": low.numpy(),
            "high": high.numpy(),
            "rank": rank.numpy(),
        }
        if self.unbiased is not None:
            columns["unbiased"] = self.unbiased.numpy()
        if self.layers is not None:
            columns["layer"] = list(self.layers)
        return pd.DataFrame(columns, index=None if self.names is None else pd.Index(self.names, name="player"))


def restored(state: State) -> Valuation:
    """A valuation out of its parts; one that is of another kind or length is a ValueError."""
    for name in ("names", "layers"):
        state[name] = None if state.get(name) is None else tuple(state[name])
    made = Valuation(**state)
    n, few, float64 = len(made.values), len(made.contested), torch.float64
    known = {
        **dict.fromkeys(("values", "stderr", "unbiased", "unbiased_stderr"), (float64, (n,))),
        "counts": (torch.int64, (n,)),
        "halves": (float64, (2, n)),
        "candidates": (torch.bool, (n,)),
        "contested": (torch.int64, (few,)),
    }
    for name, (kind, shape) in known.items():
        x = getattr(made, name)
        optional = name not in ("values", "stderr", "counts", "contested")
        if not (optional and x is None) and (x.dtype != kind or x.shape != shape):
            raise ValueError(f"{name} are not {n} numbers")
    for name in ("names", "layers"):
        words = getattr(made, name)
        if words is not None and (len(words) != n or not all(isinstance(word, str) for word in words)):
            raise ValueError(f"{name} are not {n} words")
    _require_told(made, n)
    return made


def _require_told(made: Valuation, n: int) -> None:
    """What stands beside the values."""
    words, numbers = (
        (made.method, made.stopped, made.certificate),
        (made.v_all, made.v_none, made.evaluations, made.eps),
    )
    if not all(isinstance(word, str) for word in words) or not all(type(x) in (int, float) for x in numbers):
        raise ValueError("it is not said how they came about")
    seconds = made.seconds
    if not isinstance(seconds, dict) or not all(type(x) in (int, float) for x in seconds.values()):
        raise ValueError("seconds are no numbers")
    if type(made.k) is not int or type(made.seed) is not int or not 0 <= made.k <= max(1, n):
        raise ValueError(f"k is {str(made.k)[:40]} of {n}")
    if not all(isinstance(flag, bool) for flag in (made.adaptive, made.certified)):
        raise ValueError("it is not said whether they are certified")


def efficiency_ratio(values: Vector, v_all: float, v_none: float) -> float:
    """Σφ̂ / (V(M) − V(∅))."""
    gain = v_all - v_none
    return float(values.sum()) / gain if gain else math.nan


def account(
    estimator: str, values: Vector, ends: tuple[float, float] | None, evaluations: float, stopped: str, certificate: str
) -> Account:
    """What is kept of a valuation besides its values; without ``ends``, V(M) and V(∅), there is no ratio."""
    ratio = math.nan if ends is None else efficiency_ratio(values, *ends)
    return {
        "estimator": estimator,
        "evaluations": evaluations,
        "efficiency_ratio": ratio if math.isfinite(ratio) else None,
        "stopped": stopped,
        "certificate": certificate,
    }


def midpoint(values: Vector, k: int) -> float:
    """The cut: halfway between the k-th and the (k+1)-th value; minus infinity if everyone is chosen."""
    ordered = values.nan_to_num(nan=-torch.inf).sort(descending=True).values
    return -math.inf if k >= len(values) else float(ordered[k - 1] + ordered[k]) / 2


def straddling(values: Vector, stderr: Vector, k: int, confidence: float = 0.95) -> Indices:
    """Players whose interval holds the cut, so that more draws might move them across it."""
    radius = normal_quantile((1 + confidence) / 2) * stderr
    return ((values - midpoint(values, k)).abs() <= radius).nonzero()[:, 0]


def _settings(valuation: Valuation) -> State:
    return {} if valuation.state is None else valuation.state.get("settings", {})
