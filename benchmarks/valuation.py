"""How good are estimated neuron values, and what do they cost? Ours beside shapiq, captum and the plain loop.

Five parts: (1) games whose Shapley values are known; (2) a small network trained here, against a long unbiased
reference; (3) the paper's network, for time and memory; (4) coalitions per second of the shared-prefix engine;
(5) cost against width. Cost is counted in V(S) on all data, a gradient as 3. A Markdown file and a plot go to --out;
the last line printed is JSON. --quick takes about ten minutes on two cores, the whole about an hour.

    python benchmarks/valuation.py --quick --data-dir FOLDER_WITH_TINY_IMAGENET
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snv.data import Preprocess, TaskStream, load_source
from snv.errors import UserError
from snv.networks import Specialist, build_network
from snv.seeding import generator
from snv.shapley import (
    ESTIMATORS,
    Airport,
    Budget,
    Game,
    KnownGame,
    Quadratic,
    Unanimity,
    coalitions_by_size,
    estimate,
    relative_error,
    saturating,
    spearman,
    top_k_precision,
    voting,
)
from snv.valuation import NeuronGame, value_neurons

mpl.use("Agg")

KNOWN_K, NETWORK_K = 0.2, 0.1  # top 20 % of some fifty players, top 10 % of 600 filters
SHAPIQ: dict[str, dict[str, Any]] = {"PermutationSamplingSV": {}, "SVARM": {}, "KernelSHAP": {"pairing_trick": True}}
MISSING = "not installed: pip install 'snv[bench]'"
MARGIN = 2.0  # standard errors by which shapiq has to lead, on first and on fresh seeds, to be called better
ENGINE_IMAGES = 64  # on which coalitions per second are counted
HEADER = ["game", "method", "V(S)", "top-k precision", "Spearman", "MSE/Var", "seconds", "note"]

Run = Callable[[int], Tensor]  # seed → values


@dataclass(frozen=True)
class Effort:
    """How much of everything: all of it, and --quick."""

    seeds: int  # repeats on known games
    budgets: tuple[int, ...]  # V(S) per player on known games
    images: int  # on which the trained network is valued
    epochs: int
    repeats: int  # of ten permutations
    captum: int  # permutations
    reference: float  # seconds at most
    limit: float  # seconds for an estimator that may never end
    paper: float  # seconds for the gradients of the paper's network; more is extrapolated
    turns: int  # of the engines
    segment: int  # coalitions per turn


WHOLE = Effort(30, (3, 5, 20, 80), 200, 12, 5, 10, 1200.0, 60.0, 900.0, 4, 64)
QUICK = Effort(8, (5, 20), 100, 8, 2, 2, 110.0, 15.0, 75.0, 2, 48)


@dataclass
class Row:
    """One estimator on one game at one price, over several seeds."""

    game: str
    method: str
    cost: float = math.nan  # mean V(S) on all data
    note: str = ""
    precision: list[float] = field(default_factory=list)
    rank: list[float] = field(default_factory=list)
    error: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, values: Tensor, truth: Tensor, k: float, seconds: float) -> None:
        values = values.nan_to_num(nan=0.0)
        self.precision.append(top_k_precision(values, truth, k))
        self.rank.append(spearman(values, truth))
        self.error.append(relative_error(values, truth))
        self.seconds.append(seconds)

    @property
    def cells(self) -> list[str]:
        cost = "" if math.isnan(self.cost) else f"{self.cost:,.0f}"
        if not self.precision:
            return [self.game, self.method, cost, "", "", "", "", self.note]
        error, seconds = f"{statistics.mean(self.error):.3g}", f"{statistics.mean(self.seconds):.2f}"
        return [self.game, self.method, cost, spread(self.precision), spread(self.rank), error, seconds, self.note]


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def mean_and_error(samples: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error (0 for a single sample)."""
    error = statistics.stdev(samples) / math.sqrt(len(samples)) if len(samples) > 1 else 0.0
    return statistics.mean(samples), error


def spread(samples: Sequence[float]) -> str:
    mean, error = mean_and_error(samples)
    return f"{mean:.3f} ± {error:.3f}" if len(samples) > 1 else f"{mean:.3f}"


def leads(theirs: Sequence[float], ours: Sequence[float]) -> bool:
    """Whether their mean exceeds ours by more than MARGIN standard errors of the difference."""
    (a, da), (b, db) = mean_and_error(theirs), mean_and_error(ours)
    return a - b > max(MARGIN * math.hypot(da, db), 1e-9)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns line up when read as text."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in [header, *rows]]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def clock(call: Callable[[], Tensor]) -> tuple[Tensor, float]:
    start = time.perf_counter()
    return call(), time.perf_counter() - start


def measured(row: Row, game: Game, truth: Tensor, k: float, run: Run, seeds: Sequence[int]) -> Row:
    """The row with one more result per seed, and what they cost on average."""
    before = game.evaluations
    for seed in seeds:
        values, seconds = clock(partial(run, seed))
        row.add(values, truth, k, seconds)
    row.cost = (game.evaluations - before) / len(seeds)
    return row


# ---- 1. games with known values


def known_games() -> dict[str, KnownGame]:
    """From interactions of a few players to steps and saturation."""
    rng = np.random.default_rng(0)

    def terms(n: int, count: int, most: int) -> list[tuple[list[int], float]]:
        sizes = rng.integers(2, most + 1, count)
        return [(rng.choice(n, size, replace=False).tolist(), float(rng.normal())) for size in sizes]

    single = [([i], float(rng.normal())) for i in range(50)]
    return {
        "unanimity, n = 40": Unanimity(40, terms(40, 80, 5)),
        "near-additive, n = 50": Unanimity(50, single + terms(50, 60, 3)),
        "airport, n = 50": Airport(torch.from_numpy(rng.gamma(2.0, size=50))),
        "voting, n = 51": voting(tuple(rng.integers(1, 46, 51).tolist())),
        "saturating, n = 60": saturating(tuple(rng.integers(1, 30, 60).tolist())),
        "quadratic, n = 30": Quadratic(
            torch.from_numpy(rng.normal(size=30)), torch.from_numpy(rng.normal(size=(30, 30))) / 4
        ),
    }


def our_ways(game: Game, budget: int, *, gradients: bool = True) -> dict[str, Run]:
    """Our estimators, each run until the budget ends it; without ``gradients``, those that see V(S) only."""
    gradients = gradients and game.differentiable
    many = 10**6
    settings: dict[str, dict[str, Any]] = {
        "montecarlo": {"permutations": many},
        "montecarlo, antithetic": {"permutations": many, "antithetic": True},
        "truncated": {"permutations": many, "chunk": 4},
        "tmab": {"permutations": many, "chunk": 4, "burn_in": 5},
        "regression": {"coalitions": many},
        "gradient": {"draws": many},
        "hybrid": {"rounds": many, "pilot_coalitions": 8, "pilot_players": 16},
    }

    def run(name: str, seed: int) -> Tensor:
        limit = Budget(max_evaluations=budget)
        return estimate(game, name.split(",")[0], seed=seed, budget=limit, k=KNOWN_K, **settings[name]).values

    known = {name: ESTIMATORS[name.split(",")[0]] for name in settings if name.split(",")[0] in ESTIMATORS}
    return {name: partial(run, name) for name, entry in known.items() if gradients or not entry.needs_gradient}


def shapiq_values(game: Game, name: str, budget: int, seed: int) -> Tensor:
    """An estimator of shapiq on our game."""
    from shapiq import approximator

    def payoff(coalitions: np.ndarray) -> np.ndarray:
        return game.values(torch.from_numpy(np.atleast_2d(coalitions).astype(bool))).numpy()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = getattr(approximator, name)(game.n, random_state=seed, **SHAPIQ[name]).approximate(budget, payoff)
    return torch.tensor([found[(i,)] for i in range(game.n)], dtype=torch.float64)


def captum_values(game: Game, permutations: int, seed: int) -> Tensor:
    """Captum's permutation sampling, with the coalition as its input."""
    from captum.attr import ShapleyValueSampling

    torch.manual_seed(seed)
    ones = torch.ones(1, game.n)
    method = ShapleyValueSampling(lambda masks: game.values(masks > 0.5))
    return method.attribute(ones, 0 * ones, n_samples=permutations, perturbations_per_eval=256)[0].double()


def on_known_games(effort: Effort) -> tuple[list[Row], list[str], dict[str, list[str]]]:
    """All estimators at equal budgets; a sentence each on whether shapiq is better; and where it is."""
    rows, verdicts = [], []
    beaten: dict[str, list[str]] = {"shapiq_beats_ours": [], "shapiq_beats_ours_v_only": []}
    for name, game in known_games().items():
        for per_player in effort.budgets:
            budget = per_player * game.n
            theirs: dict[str, Run] = {m: partial(shapiq_values, game, m, budget) for m in SHAPIQ if find_spec("shapiq")}
            others: dict[str, Run] = {"captum": partial(captum_values, game, per_player)} if find_spec("captum") else {}
            runs = {**our_ways(game, budget), **theirs, **others}
            score = partial(scored, name, game, runs)
            found = {method: score(method, range(effort.seeds)) for method in runs}
            rows += found.values()
            rows += [Row(name, m, note=MISSING) for m in (*SHAPIQ, "captum") if m not in found]
            for key, gradients in {"shapiq_beats_ours": True, "shapiq_beats_ours_v_only": False}.items():
                if not gradients and not game.differentiable:
                    continue  # the same comparison
                where = f"{name}, {per_player} n{'' if gradients else ', without gradients'}"
                ours = {m: found[m] for m in our_ways(game, budget, gradients=gradients)}
                verdict, better = judged(ours, {m: found[m] for m in theirs}, score, 4 * effort.seeds)
                verdicts.append(f"{where}: {verdict}")
                beaten[key] += [f"{where}: {text}" for text in better]
                say(f"  {verdicts[-1]}")
    return rows, verdicts, beaten


def scored(name: str, game: KnownGame, runs: dict[str, Run], method: str, seeds: range) -> Row:
    return measured(Row(name, method), game, game.shapley, KNOWN_K, runs[method], seeds)


def judged(
    ours: dict[str, Row], theirs: dict[str, Row], score: Callable[[str, range], Row], n_fresh: int
) -> tuple[str, list[str]]:
    """Our best beside shapiq's in a sentence; those of shapiq that lead on these seeds and again on fresh ones."""
    best = max(ours, key=lambda m: (statistics.mean(ours[m].precision), -statistics.mean(ours[m].error)))
    better = []
    for method, row in theirs.items():
        if leads(row.precision, ours[best].precision):
            fresh = range(1000, 1000 + n_fresh)  # chosen after looking, so looked at anew
            again, own = score(method, fresh).precision, score(best, fresh).precision
            if leads(again, own):
                better.append(f"{method} {spread(again)}, our {best} {spread(own)} on {n_fresh} fresh seeds")
    scores = ", ".join(f"{method} {spread(row.precision)}" for method, row in theirs.items())
    verdict = "SHAPIQ IS BETTER" if better else "no shapiq estimator is better" if theirs else f"shapiq {MISSING}"
    return f"our {best} {spread(ours[best].precision)}; {scores}: {verdict}", better


# ---- networks


def network(width: int, shape: tuple[int, int, int] = (3, 32, 32), classes: int = 20, stem: str = "3x3") -> Specialist:
    net = build_network("resnet18", shape, seed=0, width=width, stem=stem)
    net.add_head(classes)
    return Specialist(net, 0).eval()


def random_images(n: int) -> tuple[Tensor, Tensor]:
    return torch.randn(n, 3, 32, 32, generator=generator(0, "images")), torch.arange(n) % 20


def trained(options: argparse.Namespace, effort: Effort) -> tuple[nn.Module, Tensor, Tensor]:
    """ResNet-18 of width 8 (stem of stride 2) after a few epochs, and the images on which its filters are valued."""
    source = load_source(options.data, options.data_dir, size_of(options.data), download=False)
    task = TaskStream(source, 1, 0, n_classes=min(20, source.n_classes)).task(0)
    model, preprocess = network(8, source.shape, len(task.names), "3x3/2"), Preprocess.of(source)
    rng, steps = generator(0, "training"), len(task.train) // 64
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=effort.epochs * steps)
    model.train()
    for epoch in range(effort.epochs):
        order = torch.randperm(len(task.train), generator=rng)[: 64 * steps].split(64)
        for pixels, labels in task.train.batches(order):
            loss = F.cross_entropy(model(preprocess(pixels, "cpu", rng)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        say(f"  epoch {epoch + 1} of {effort.epochs}: loss {loss.item():.2f}")
    model.eval()
    chosen = torch.randperm(len(task.val), generator=rng)[: effort.images]
    pixels, labels = next(iter(task.val.batches([chosen])))
    images = preprocess(pixels, "cpu")
    with torch.no_grad():
        accuracy = float((model(images).argmax(1) == labels).double().mean())
    say(f"  {len(task.train)} images of {len(task.names)} classes; accuracy on the {len(labels)} kept: {accuracy:.2f}")
    return model, images, labels


def size_of(data: str) -> int | None:
    return 32 if data == "tiny-imagenet" else None


def plain_value(game: NeuronGame, coalition: Tensor) -> float:
    """V(S) as it is usually computed: a hook per layer, the whole network, batch after batch."""
    total = 0.0
    with ExitStack() as undo, torch.no_grad():
        for layer, gates in game.neurons.by_layer(coalition):
            kept, mean = gates.view(1, -1, 1, 1), game.means[layer.responses].view(1, -1, 1, 1)
            handle = layer.module.register_forward_hook(lambda _m, _i, out, k=kept, u=mean: torch.where(k, out, u))
            undo.callback(handle.remove)
        for images, labels in zip(game.images.split(100), game.labels.split(100), strict=True):
            total -= F.cross_entropy(game.model(images), labels, reduction="sum").item()
    return total / len(game.labels)


def plain_values(game: NeuronGame, coalitions: Tensor) -> Tensor:
    """V of each coalition, one whole evaluation at a time."""
    return torch.tensor([plain_value(game, coalition) for coalition in coalitions], dtype=torch.float64)


def stretch(n: int, length: int, seed: int) -> Tensor:
    """Consecutive coalitions of a random permutation, (length, n)."""
    rng = generator(seed, "stretch")
    places, first = torch.randperm(n, generator=rng), int(torch.randint(n - length, (), generator=rng))
    return places < torch.arange(first, first + length)[:, None]


def reference(game: NeuronGame, seconds: float, enough: float = 0.95) -> tuple[Tensor, dict[str, float]]:
    """φ by exact flips of all neurons at shared random coalitions, two images each: unbiased, from draws of its own.

    It needs less time than whole permutations. It ends when its two halves rank alike, or when the time is up.
    """
    rng, everyone = generator(12345, "reference"), torch.arange(game.n)
    halves, rounds, start, agreement = torch.zeros(2, game.n, dtype=torch.float64), 0, time.perf_counter(), 0.0
    while (agreement < enough or rounds < 20) and time.perf_counter() - start < seconds:
        for half in halves:
            for coalition in coalitions_by_size(game.n, 4, rng):
                half += game.flips(coalition, everyone, torch.randperm(game.n_examples, generator=rng)[:2])
        rounds, agreement = rounds + 1, spearman(halves[0], halves[1])
        if rounds % 20 == 0:
            say(f"  reference: {8 * rounds} coalitions, the two halves agree to {agreement:.3f}")
    ceiling = {
        "reference_split_half": agreement,
        "reference_split_half_topk": top_k_precision(halves[0], halves[1], NETWORK_K),
        "reference_expected_with_truth": math.sqrt(max(0.0, 2 * agreement / (1 + agreement))),  # Spearman–Brown
        "reference_coalitions": 8.0 * rounds,
    }
    return halves.sum(0) / (8 * rounds), ceiling


# ---- 2. a trained network


def on_trained_network(options: argparse.Namespace, effort: Effort) -> tuple[list[Row], dict[str, Any]]:
    """Every estimator on one trained network, against the reference."""
    game = NeuronGame(*trained(options, effort))
    name, minibatch = f"ResNet-18, n = {game.n}", 3 * game.n_examples // 4
    say(f"  V(all) {game.everyone:.3f}, V(none) {game.no_one:.3f}; shared prefixes: {game.shares_prefixes}")
    truth, ceiling = reference(game, effort.reference)
    rows: list[Row] = []

    def compare(method: str, run: Run, seeds: int = 1, note: str = "") -> Row:
        rows.append(measured(Row(name, method, note=note), game, truth, NETWORK_K, run, range(seeds)))
        say("  " + "  ".join(rows[-1].cells[1:]))
        return rows[-1]

    compare("random", lambda seed: torch.rand(game.n, generator=generator(seed, "random")), 20)
    compare("Taylor at the full network", lambda _: game.gradient(torch.ones(1, game.n))[0][0])
    slopes = {
        draws: compare(
            f"gradient, {draws} draws",
            lambda seed, d=draws: estimate(game, "gradient", seed=seed, draws=d, minibatch=minibatch).values,
            seeds=5,
            note=f"{minibatch} of {game.n_examples} images per pair of draws",
        )
        for draws in (6, 20, 60)
    }
    limit = Budget(max_seconds=2 * effort.limit)
    compare("hybrid", lambda seed: estimate(game, "hybrid", seed=seed, budget=limit, minibatch=16, fresh=2).values)
    rows[-1].note = f"stopped after {limit.max_seconds:.0f} s if not done"
    rows += permutations(game, truth, effort.repeats, name)
    ten, quick20 = rows[-1], statistics.mean(slopes[20].seconds)
    sample = stretch(game.n, 40, 0)
    plain = clock(partial(plain_values, game, sample))[1] / len(sample) * ten.cost
    rows.append(Row(name, "plain loop, 10 permutations", ten.cost))
    rows[-1].note = f"EXTRAPOLATED {plain:,.0f} s, from {len(sample)} evaluations; its values are montecarlo's"
    rows += foreign_rows(game, truth, effort, name)
    return rows, {
        "spearman_gradient20": statistics.mean(slopes[20].rank),
        "spearman_mc10": statistics.mean(ten.rank),
        "topk_gradient20": statistics.mean(slopes[20].precision),
        "topk_mc10": statistics.mean(ten.precision),
        "gradient20_topk_spearman": [spread(slopes[20].precision), spread(slopes[20].rank)],
        "mc10_topk_spearman": [spread(ten.precision), spread(ten.rank)],
        "gradient20_minibatch": minibatch,
        "forwards_ratio": ten.cost / slopes[20].cost,
        "time_ratio": plain / quick20,
        "time_ratio_own_engine": statistics.mean(ten.seconds) / quick20,
        **ceiling,
    }


def permutations(game: NeuronGame, truth: Tensor, repeats: int, name: str) -> list[Row]:
    """1, 2, 5 and 10 permutations on all images, the longer runs continuing the shorter; costs are whole passes."""
    rows = {p: Row(name, f"montecarlo, {p} permutations", p * (game.n - 1.0) + 2) for p in (1, 2, 5, 10)}
    for seed in range(repeats):
        so_far, seconds = None, 0.0
        for p, row in rows.items():
            start = time.perf_counter()
            so_far = estimate(game, "montecarlo", seed=seed, permutations=p, resume=so_far)
            seconds += time.perf_counter() - start
            row.add(so_far.values, truth, NETWORK_K, seconds)
            row.note = f"shared prefixes do it with {so_far.evaluations / row.cost:.2f} of that work"
        say(f"  montecarlo, seed {seed}: 10 permutations in {seconds:.0f} s")
    for row in rows.values():
        say("  " + "  ".join(row.cells[1:]))
    return list(rows.values())


def foreign_rows(game: NeuronGame, truth: Tensor, effort: Effort, name: str) -> list[Row]:
    """captum and shapiq on the same network through our engine; what may never end runs in a process of its own."""
    budget = 10 * (game.n - 1) + 2
    captum = Row(name, f"captum, {effort.captum} permutations", effort.captum * game.n + 1.0)
    if find_spec("captum"):
        values, seconds = clock(partial(captum_values, game, effort.captum, 0))
        captum.add(values, truth, NETWORK_K, seconds)
    else:
        captum.note = MISSING
    rows = [captum, *(Row(name, f"shapiq {method}", float(budget), note=MISSING) for method in SHAPIQ)]
    if find_spec("shapiq"):
        with tempfile.TemporaryDirectory() as folder:
            torch.save((game.model, game.images, game.labels), Path(folder) / "network.pt")
            for method, row in zip(SHAPIQ, rows[1:], strict=True):
                limit = 900.0 if method == "PermutationSamplingSV" else effort.limit
                answer = in_own_process(limit, "shapiq", method, folder, str(budget))
                row.note = answer if isinstance(answer, str) else ""
                if isinstance(answer, dict):
                    row.add(torch.tensor(answer["values"]).double(), truth, NETWORK_K, answer["seconds"])
    for row in rows:
        say("  " + "  ".join(row.cells[1:]))
    return rows


def in_own_process(limit: float, *what: str) -> dict[str, Any] | str:
    """What `child` answers, or a sentence if it did not finish."""
    command = [sys.executable, __file__, "--threads", str(torch.get_num_threads()), "--child", *what]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return f"not finished in {limit:.0f} s"
    if done.returncode:
        return f"failed: {(done.stderr.strip().splitlines() or ['no message'])[-1][:120]}"
    return json.loads(done.stdout.strip().splitlines()[-1])


def child(job: str, *rest: str) -> dict[str, Any]:
    """One job in a fresh process: a shapiq estimator on a stored network, or the paper's network from start to end."""
    if job == "shapiq":
        method, folder, budget = rest
        game = NeuronGame(*torch.load(Path(folder) / "network.pt", weights_only=False))
        values, seconds = clock(lambda: shapiq_values(game, method, int(budget), 0))
        return {"values": values.tolist(), "seconds": seconds}
    start, settings = time.perf_counter(), ESTIMATORS["gradient"].settings()
    found = value_neurons(network(64), random_images(600), max_seconds=float(rest[0]))
    seconds, sampling, done = time.perf_counter() - start, found.seconds["gradients"], 2 * int(found.counts.max())
    return {
        "seconds": seconds + sampling * (settings.draws / done - 1),
        "seconds_extrapolated": done < settings.draws,
        "draws": settings.draws,
        "draws_done": done,
        "minibatch": settings.minibatch,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


# ---- 3 to 5. the paper's network, the engines, and width


def paper_network(effort: Effort, plain_per_s: float | None) -> dict[str, Any]:
    """Seconds and memory of value_neurons at its defaults: 4,800 filters, 600 random images, random weights."""
    found = in_own_process(3 * effort.paper + 120, "paper", str(effort.paper))
    if isinstance(found, str):
        return {"resnet18": found}
    if plain_per_s:  # measured on fewer images than 600
        found["plain_32_permutations_hours_EXTRAPOLATED"] = 32 * 4800 * 600 / ENGINE_IMAGES / plain_per_s / 3600
    return {f"resnet18_{key}": value for key, value in found.items()}


def engines(effort: Effort) -> dict[str, float]:
    """Coalitions per second along the same stretches of permutations: ours and the plain loop, in turns."""
    game = NeuronGame(network(64), *random_images(ENGINE_IMAGES))
    ways = {"ours": game.values, "plain": partial(plain_values, game)}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    apart = 0.0
    for turn in range(-1, effort.turns):  # the first turn, a single coalition, warms up
        coalitions = stretch(game.n, effort.segment if turn >= 0 else 1, turn)
        answers = {}
        for name in ("ours", "plain") if turn % 2 else ("plain", "ours"):
            answers[name], took = clock(partial(ways[name], coalitions))
            seconds[name] += [took / len(coalitions)] if turn >= 0 else []
        apart = max(apart, float((answers["ours"] - answers["plain"]).abs().max()))
        if turn < 0:
            continue
        say("  " + ", ".join(f"{name} {1 / took[-1]:.2f} coalitions/s" for name, took in seconds.items()))
    ratio = statistics.median(plain / ours for plain, ours in zip(seconds["plain"], seconds["ours"], strict=True))
    speed = {name: 1 / statistics.median(took) for name, took in seconds.items()}
    return {
        "coalitions_per_s_ratio": ratio,
        "coalitions_per_s": speed["ours"],
        "coalitions_per_s_plain": speed["plain"],
        "engines_differ_by_at_most": apart,
    }


def scaling(turns: int) -> tuple[list[list[str]], dict[str, float]]:
    """Seconds of one gradient and of one V(S) on the same 64 images, as the number of filters grows."""
    rows, ratios = [], {}
    for width in (8, 16, 32, 64):
        game = NeuronGame(network(width), *random_images(64))
        gates = torch.rand(2, game.n, generator=generator(0, "gates"))
        calls = {"gradient": partial(game.gradient, gates), "forward": partial(game.values, gates[:1] > 0.5)}
        times = {name: min(clock(call)[1] for _ in range(turns + 1)) for name, call in calls.items()}  # first warms up
        gradient, forward = times["gradient"] / len(gates), times["forward"]
        ratios[str(width)] = gradient / forward
        rows.append([str(width), f"{game.n:,}", f"{gradient:.3f}", f"{forward:.3f}", f"{gradient / forward:.2f}"])
        say(f"  width {width}: {gradient:.3f} s per gradient, {forward:.3f} s per V(S)")
    return rows, ratios


def faster_threads() -> int:
    """All threads if that is faster and nobody else computes, else one: threads that wait for a core cost tenfold."""
    model, (images, _), seconds = network(16), random_images(64), {}
    if os.getloadavg()[0] > 0.5:
        return 1
    for threads in sorted({1, torch.get_num_threads()}, reverse=True):
        torch.set_num_threads(threads)
        with torch.inference_mode():
            seconds[threads] = statistics.median(clock(partial(model, images))[1] for _ in range(7))
    return min(seconds, key=lambda threads: seconds[threads])


# ---- what is written


def plot(rows: Sequence[Row], path: Path) -> None:
    """What is wrong in the top-k against cost: one panel per game, one line per estimator, bars are standard errors."""
    import matplotlib.pyplot as plt

    games = list(dict.fromkeys(row.game for row in rows))
    height = math.ceil(len(games) / 3)
    figure, axes = plt.subplots(height, 3, figsize=(16, 4.2 * height), squeeze=False)
    for axis in axes.flat[len(games) :]:
        axis.axis("off")
    for axis, game in zip(axes.flat, games, strict=False):
        lines: dict[str, list[Row]] = {}
        for row in rows:
            if row.game == game and row.precision and row.cost > 0:
                lines.setdefault(row.method.split(", ")[0] if "ResNet" in game else row.method, []).append(row)
        for number, (method, found) in enumerate(lines.items()):
            found.sort(key=lambda row: row.cost)
            means, errors = zip(*(mean_and_error(row.precision) for row in found), strict=True)
            x, y, marker = [row.cost for row in found], [1 - mean for mean in means], "osv^Dx*P"[number % 8]
            axis.errorbar(x, y, errors, label=method, marker=marker, markersize=4, linewidth=1.2, capsize=2)
        axis.set(xscale="log", title=game, xlabel="cost, V(S) on all data", ylabel="share of the top-k that is wrong")
        axis.legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def claims(figures: dict[str, Any]) -> list[str]:
    """What has to hold, and whether it does."""
    wanted: dict[str, tuple[str | float, str | float]] = {
        "gradient with 20 draws finds the top 10 % as well as 10 permutations": ("topk_gradient20", "topk_mc10"),
        "and ranks as well": ("spearman_gradient20", "spearman_mc10"),
        "with 100 times fewer forward passes": ("forwards_ratio", 100.0),
        "and 50 times faster than the plain loop": ("time_ratio", 50.0),
        "shared prefixes give 3 times as many coalitions per second": ("coalitions_per_s_ratio", 3.0),
        "ResNet-18 with 4,800 filters takes at most 60 s": (60.0, "resnet18_seconds"),
        "and at most 3 GiB": (3.0, "resnet18_peak_gib"),
    }
    lines = []
    for sentence, sides in wanted.items():
        large, small = (figures.get(side) if isinstance(side, str) else side for side in sides)
        if large is None or small is None:
            lines.append(f"not measured: {sentence}")
        else:
            lines.append(f"{'holds' if large >= small else 'FAILS'}: {sentence} ({large:.4g} ≥ {small:.4g})")
    for key, what in {
        "shapiq_beats_ours": "our best",
        "shapiq_beats_ours_v_only": "our best without gradients",
    }.items():
        if key in figures:
            lines.append(
                f"{'FAILS' if figures[key] else 'holds'}: no shapiq estimator finds more of the top-k than {what}"
            )
    return lines


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repeats, a shorter reference")
    parser.add_argument("--data-dir", help="folder with the Tiny-ImageNet zip; else $SNV_DATA, else the cache folder")
    parser.add_argument("--data", default="tiny-imagenet", help="dataset of the trained network, e.g. digits")
    parser.add_argument("--out", type=Path, default=Path("valuation-benchmark"))
    parser.add_argument("--threads", type=int, help="default: all on an idle machine, else one")
    parser.add_argument("--only", default="12345", help="parts to run, e.g. 1 or 345")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options, begun = arguments(), time.perf_counter()
    torch.set_num_threads(options.threads or faster_threads())
    if options.child:
        print(json.dumps(child(*options.child)))
        return
    effort = QUICK if options.quick else WHOLE
    if "2" in options.only:  # fail where it is cheap
        load_source(options.data, options.data_dir, size_of(options.data), download=False)
    figures: dict[str, Any] = {"quick": options.quick, "threads": torch.get_num_threads()}
    say(f"{figures['threads']} thread(s), torch {torch.__version__}, {'quick' if options.quick else 'whole'}")
    rows, report = [], ["# Valuation benchmark"]
    if "1" in options.only:
        say("1. games with known values")
        known, verdicts, beaten = on_known_games(effort)
        rows, figures = rows + known, figures | beaten
        report += ["## Games with known values", markdown(HEADER, [row.cells for row in known])]
        report.append("\n".join(f"- {verdict}" for verdict in verdicts))
    if "2" in options.only:
        say(f"2. ResNet-18 of width 8 trained on {options.data}, payoff loss")
        found, told = on_trained_network(options, effort)
        rows, figures = rows + found, figures | told
        agreement = f"the halves of its reference rank alike to {told['reference_split_half']:.3f}"
        report += [f"## A trained network; {agreement}", markdown(HEADER, [row.cells for row in found])]
    if "4" in options.only:
        say("4. coalitions per second: width 64, 64 images (random weights and images: only time counts)")
        figures |= engines(effort)
    if "3" in options.only:
        say("3. the paper's network: 4,800 filters, 600 images (random weights and images: only time counts)")
        figures |= paper_network(effort, figures.get("coalitions_per_s_plain"))
    if "5" in options.only:
        say("5. cost against width")
        table, figures["gradient_over_forward"] = scaling(effort.turns)
        header = ["width", "filters", "s per gradient", "s per V(S)", "ratio"]
        report += ["## Cost against width, 64 images", markdown(header, table)]
    figures["seconds"] = time.perf_counter() - begun
    single = [[key, f"{value:.4g}" if isinstance(value, float) else str(value)] for key, value in figures.items()]
    report += ["## Figures", markdown(["quantity", "value"], single), "## Claims", *claims(figures)]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "valuation.md").write_text("\n\n".join(report) + "\n", encoding="utf-8")
    if rows:
        plot(rows, options.out / "valuation.png")
    print("\n" + "\n\n".join(report) + f"\n\nWritten to {options.out}.\n")
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    try:
        main()
    except UserError as problem:
        raise SystemExit(f"The benchmark cannot run: {problem}") from None
