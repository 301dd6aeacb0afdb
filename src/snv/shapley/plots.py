"""A valuation as pictures: by layer, cumulated, and with its intervals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from snv.shapley.agreement import ranking
from snv.shapley.result import Valuation


def plot_layers(valuation: Valuation) -> Figure:
    """Every value as a dot, by layer in network order; bars are layer sums as a share of Σφ."""
    names = list(dict.fromkeys(valuation.layers or ["all players"] * len(valuation)))
    place = {name: i for i, name in enumerate(names)}
    x = np.array([place[name] for name in valuation.layers or ["all players"] * len(valuation)], dtype=float)
    values = valuation.values.numpy()
    chosen = np.zeros(len(values), dtype=bool)
    chosen[valuation.top_k().numpy()] = True
    figure = Figure(figsize=(max(5.0, 0.38 * len(names) + 2), 5.6), layout="constrained")
    dots, bars = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    spread = np.random.default_rng(0).uniform(-0.3, 0.3, len(values))
    dots.scatter((x + spread)[~chosen], values[~chosen], s=5, color="0.6", label="others")
    dots.scatter((x + spread)[chosen], values[chosen], s=8, color="tab:blue", label=f"top {valuation.k}")
    dots.axhline(0, color="black", linewidth=0.6)
    dots.set_ylabel("value φ")
    dots.legend(fontsize=8, loc="best")
    sums = np.bincount(x.astype(int), weights=values, minlength=len(names))
    bars.bar(range(len(names)), 100 * sums / (values.sum() or 1.0), color="tab:blue")
    bars.axhline(0, color="black", linewidth=0.6)
    bars.set_ylabel("% of Σφ")
    bars.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    figure.suptitle(_caption(valuation), fontsize=9)
    return figure


def plot_cumulative(valuation: Valuation) -> Figure:
    """Σ of the j largest values over j, as a share of Σφ: how few players hold how much."""
    values = valuation.values.sort(descending=True).values.numpy()
    figure = Figure(figsize=(5.0, 3.6), layout="constrained")
    axis = figure.subplots()
    axis.plot(np.arange(1, len(values) + 1), 100 * values.cumsum() / (values.sum() or 1.0), color="tab:blue")
    axis.axvline(valuation.k, color="0.5", linewidth=0.8, linestyle="--")
    axis.annotate(f" top {valuation.k}", (valuation.k, 3), fontsize=8, color="0.3")
    axis.axhline(100, color="black", linewidth=0.6)
    axis.set_xlabel("players, best first")
    axis.set_ylabel("cumulated value, % of Σφ")
    figure.suptitle(_caption(valuation), fontsize=9)
    return figure


def plot_intervals(valuation: Valuation, around: int = 30, confidence: float = 0.95) -> Figure:
    """Values with their intervals for the players ranked around the cut, where intervals decide."""
    order = ranking(valuation.values)
    low, high = (end.numpy() for end in valuation.interval(confidence))
    ranks = np.arange(max(0, valuation.k - around), min(len(order), valuation.k + around))
    players = order[torch.from_numpy(ranks)].numpy()
    centre = (valuation.values if valuation.unbiased is None else valuation.unbiased).numpy()[players]
    errors = np.stack([centre - low[players], high[players] - centre])
    errors = np.where(np.isfinite(errors), errors, np.nan)
    figure = Figure(figsize=(7.0, 3.6), layout="constrained")
    axis = figure.subplots()
    axis.errorbar(ranks + 1, centre, yerr=errors, fmt="o", markersize=3, linewidth=0.8, color="tab:blue")
    axis.axvline(valuation.k + 0.5, color="0.5", linewidth=0.8, linestyle="--")
    axis.set_xlabel("rank (dashed: the cut)")
    axis.set_ylabel(f"value, {100 * confidence:.0f} % interval")
    figure.suptitle(_caption(valuation), fontsize=9)
    return figure


PLOTS = {"layers": plot_layers, "cumulative": plot_cumulative, "intervals": plot_intervals}


def save_plots(valuation: Valuation, directory: Path) -> list[Path]:
    """All three, as PNG files."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, plot in PLOTS.items():
        paths.append(directory / f"{name}.png")
        plot(valuation).savefig(paths[-1], dpi=150)
    return paths


def _caption(valuation: Valuation) -> str:
    ratio = valuation.efficiency_ratio
    spent = f"{len(valuation):,} players, {valuation.evaluations:,.0f} evaluations, seed {valuation.seed}"
    return f"{valuation.method}, {spent} · Σφ / (V(all) − V(∅)) = {ratio:.2f}"
