"""How good is a neuron's estimated value, and what does it cost? Ours beside shapiq, captum and the plain loop.

Five parts: games whose Shapley values are known; a small network trained here, against a long unbiased reference;
the paper's network, for time and memory; coalitions per second of the shared-prefix engine; and cost against width.
Costs are in V(S) on all data, a gradient counting 3. Tables, a Markdown file and a plot go to --out; the last line
printed is JSON. --quick takes about ten minutes on two cores, the whole of it about an hour.

    python benchmarks/valuation.py --quick --data-dir FOLDER_OF_TINY_IMAGENET
"""

from __future__ import annotations

import argparse
import json
import math
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
from importlib.util import find_spec
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snv.data import Preprocess, TaskStream, load_source
from snv.errors import UserError
from snv.networks import build_network
from snv.networks.head import Specialist
from snv.seeding import generator
from snv.valuation.agreement import relative_error, spearman, top_k_precision
from snv.valuation.budget import Budget
from snv.valuation.estimate import ESTIMATORS, estimate
from snv.valuation.game import Game
from snv.valuation.hybrid import coalitions_by_size
from snv.valuation.known_games import Airport, KnownGame, Quadratic, Unanimity, saturating, voting
from snv.valuation.neuron_game import NeuronGame
from snv.valuation.value import value_neurons

mpl.use("Agg")

KNOWN_K, NETWORK_K = 0.2, 0.1  # top 20 % of some fifty players, top 10 % of 600 filters
SHAPIQ = {"PermutationSamplingSV": {}, "SVARM": {}, "KernelSHAP": {"pairing_trick": True}}
MISSING = "not installed; pip install 'snv[bench]'"
MINIBATCH = 0.5  # share of the images in one gradient of the compared rows
MARGIN = 2.0  # standard errors by which shapiq has to lead, twice, to be called better


@dataclass(frozen=True)
class Effort:
    """How much of everything."""

    seeds: int = 30  # repeats on known games
    budgets: tuple[int, ...] = (5, 20, 80)  # V(S) per player on known games
    images: int = 200  # on which the trained network is valued
    epochs: int = 8
    repeats: int = 5  # of ten permutations
    foreign: int = 10  # permutations given to captum
    reference: float = 1500.0  # seconds at most
    limit: float = 60.0  # seconds for an estimator that may never end
    paper: float = 900.0  # seconds at most for the paper's network
    turns: int = 4  # of the engines
    segment: int = 24  # coalitions per turn


QUICK = Effort(
    seeds=8,
    budgets=(5, 20),
    images=100,
    epochs=4,
    repeats=2,
    foreign=2,
    reference=100.0,
    limit=20.0,
    paper=90.0,
    turns=2,
    segment=16,
)


@dataclass
class Row:
    """One estimator on one game at one price, over several seeds."""

    game: str
    method: str
    cost: float  # V(S) on all data
    precision: list[float] = field(default_factory=list)
    rank: list[float] = field(default_factory=list)
    error: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    note: str = ""

    def add(self, values: Tensor, truth: Tensor, k: float, seconds: float) -> None:
        usable = values.nan_to_num(nan=float(values[~values.isnan()].mean()) if not values.isnan().all() else 0.0)
        self.precision.append(top_k_precision(usable, truth, k))
        self.rank.append(spearman(usable, truth))
        self.error.append(relative_error(usable, truth))
        self.seconds.append(seconds)

    @property
    def cells(self) -> list[str]:
        if not self.precision:
            return [self.game, self.method, _count(self.cost), "", "", "", "", self.note]
        numbers = [spread(self.precision), spread(self.rank), f"{statistics.mean(self.error):.3g}"]
        return [
            self.game,
            self.method,
            _count(self.cost),
            *numbers,
            f"{statistics.mean(self.seconds):.2f}",
            self.note,
        ]


HEADER = ["game", "method", "V(S)", "top-k precision", "Spearman", "MSE/Var", "seconds", "note"]


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def _count(cost: float) -> str:
    return "" if math.isnan(cost) else f"{cost:,.0f}"


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
    found = call()
    return found, time.perf_counter() - start


# ---- 1. games with known values ------------------------------------------------------------------------------------


class BlackBox(KnownGame):
    """The same game without its gradient: what an estimator can do that sees V(S) only."""

    def __init__(self, game: KnownGame) -> None:
        self.n, self.shapley, self.payoff = game.n, game.shapley, game.payoff  # type: ignore[method-assign]


def known_games() -> dict[str, KnownGame]:
    rng = np.random.default_rng(0)
    terms = [(rng.choice(40, int(rng.integers(1, 6)), replace=False).tolist(), rng.normal()) for _ in range(80)]
    unanimity = Unanimity(40, terms)
    pairs = torch.from_numpy(rng.normal(size=(30, 30))) / 4
    quadratic = Quadratic(torch.from_numpy(rng.normal(size=30)), pairs)
    return {
        "unanimity, n = 40": unanimity,
        "unanimity, values only": BlackBox(unanimity),
        "airport, n = 50": Airport(torch.from_numpy(rng.gamma(2.0, size=50))),
        "voting, n = 51": voting(tuple(rng.integers(1, 46, 51).tolist())),
        "saturating, n = 60": saturating(tuple(rng.integers(1, 30, 60).tolist())),
        "saturating, values only": BlackBox(saturating(tuple(rng.integers(1, 30, 60).tolist()))),
        "quadratic, n = 30": quadratic,
    }


def our_ways(game: Game) -> dict[str, Callable[[int, Budget], Tensor]]:
    """Our estimators, each run until the budget ends it."""
    many = 10**6
    settings: dict[str, tuple[str, dict[str, object]]] = {
        "montecarlo": ("montecarlo", {"permutations": many}),
        "montecarlo, antithetic": ("montecarlo", {"permutations": many, "antithetic": True}),
        "truncated": ("truncated", {"permutations": many, "chunk": 4}),
        "tmab": ("tmab", {"permutations": many, "chunk": 4, "burn_in": 5}),
    }
    if "regression" in ESTIMATORS:
        settings["regression"] = ("regression", {"coalitions": many})
    if game.differentiable:
        settings["gradient"] = ("gradient", {"draws": many})
        settings["hybrid"] = ("hybrid", {"rounds": many, "pilot_coalitions": 8, "pilot_players": 16})

    def way(method: str, given: dict[str, object]) -> Callable[[int, Budget], Tensor]:
        return lambda seed, budget: estimate(game, method, seed=seed, budget=budget, k=KNOWN_K, **given).values

    return {name: way(*given) for name, given in settings.items()}


def shapiq_values(name: str, game: Game, budget: int, seed: int) -> Tensor:
    """An estimator of shapiq on our game."""
    from shapiq import approximator

    made = getattr(approximator, name)(game.n, random_state=seed, **SHAPIQ[name])

    def payoff(coalitions: np.ndarray) -> np.ndarray:
        return game.values(torch.from_numpy(np.atleast_2d(coalitions).astype(bool))).numpy()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = made.approximate(budget, payoff)
    return torch.tensor([found[(i,)] for i in range(game.n)], dtype=torch.float64)


def captum_values(game: Game, permutations: int, seed: int) -> Tensor:
    """Captum's permutation sampling, with the coalition as its input."""
    from captum.attr import ShapleyValueSampling

    torch.manual_seed(seed)
    ones = torch.ones(1, game.n)
    method = ShapleyValueSampling(lambda masks: game.values(masks > 0.5))
    found = method.attribute(ones, 0 * ones, n_samples=permutations, perturbations_per_eval=256)
    return found[0].double()


def measure(row: Row, game: Game, truth: Tensor, k: float, call: Callable[[], Tensor]) -> None:
    """Run once more; the cost of the row is the mean."""
    before = game.evaluations
    values, seconds = clock(call)
    done = len(row.precision)
    row.cost = ((0.0 if done == 0 else row.cost) * done + game.evaluations - before) / (done + 1)
    row.add(values, truth, k, seconds)


def on_known_games(effort: Effort) -> tuple[list[Row], list[str], list[str]]:
    """All estimators at equal budgets; where shapiq leads ours beyond noise, on first and on fresh seeds."""
    rows, verdicts, beaten = [], [], []
    for name, game in known_games().items():
        ways = our_ways(game)
        theirs = SHAPIQ if find_spec("shapiq") else {}
        for per_player in effort.budgets:
            budget = per_player * game.n

            def run(method: str, seeds: range, game: KnownGame = game, name: str = name, budget: int = budget) -> Row:
                row = Row(name, method, float(budget))
                for seed in seeds:
                    if method in SHAPIQ:
                        call = lambda seed=seed: shapiq_values(method, game, budget, seed)  # noqa: E731
                    elif method == "captum":
                        call = lambda seed=seed: captum_values(game, budget // game.n, seed)  # noqa: E731
                    else:
                        limit = Budget(max_evaluations=budget)
                        call = lambda seed=seed, limit=limit: our_ways(game)[method](seed, limit)  # noqa: E731
                    measure(row, game, game.shapley, KNOWN_K, call)
                return row

            foreign = [*theirs, *(["captum"] if find_spec("captum") else [])]
            mine = {method: run(method, range(effort.seeds)) for method in ways}
            others = {method: run(method, range(effort.seeds)) for method in foreign}
            rows += [*mine.values(), *others.values()]
            rows += [Row(name, m, math.nan, note=MISSING) for m in (*SHAPIQ, "captum") if m not in foreign]
            best = max(mine, key=lambda m: (statistics.mean(mine[m].precision), -statistics.mean(mine[m].error)))
            ours = mine[best].precision
            for method in theirs:
                if not leads(others[method].precision, ours):
                    continue
                fresh = range(1000, 1000 + 4 * effort.seeds)  # chosen after looking, so looked at anew
                again, own = run(method, fresh).precision, run(best, fresh).precision
                if leads(again, own):
                    beaten.append(f"{name}, {per_player} n: {method} {spread(again)}, our {best} {spread(own)}")
            lead = max(theirs, key=lambda m: statistics.mean(others[m].precision), default=None)
            told = "shapiq not installed" if lead is None else f"shapiq {lead} {spread(others[lead].precision)}"
            lost = any(text.startswith(f"{name}, {per_player} n:") for text in beaten)
            verdicts.append(
                f"{name}, {per_player} n: ours {best} {spread(ours)}; {told}: "
                f"{'SHAPIQ IS BETTER' if lost else 'no shapiq estimator is better'}"
            )
            say(verdicts[-1])
    return rows, verdicts, beaten


# ---- networks ------------------------------------------------------------------------------------------------------


def network(width: int, classes: int) -> Specialist:
    net = build_network("resnet18", (3, 32, 32), seed=0, width=width)
    net.add_head(classes)
    return Specialist(net, 0)


def random_images(n: int) -> tuple[Tensor, Tensor]:
    return torch.randn(n, 3, 32, 32, generator=generator(0, "images")), torch.arange(n) % 20


def trained(options: argparse.Namespace, effort: Effort) -> tuple[nn.Module, Tensor, Tensor]:
    """ResNet-18 of width 8 after a few epochs, and the validation images on which its filters are valued."""
    size = 32 if options.data == "tiny-imagenet" else None
    source = load_source(options.data, data_dir=options.data_dir, size=size, download=False)
    task = TaskStream(source, 1, 0, n_classes=min(20, source.n_classes)).task(0)
    made = build_network("resnet18", source.shape, seed=0, width=8)
    made.add_head(len(task.names))
    model, preprocess, rng = Specialist(made, 0), Preprocess.of(source), generator(0, "training")
    steps = effort.epochs * (len(task.train) // 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=steps)
    for epoch in range(effort.epochs):
        order = torch.randperm(len(task.train), generator=rng)[: len(task.train) // 64 * 64].split(64)
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


def plain_value(game: NeuronGame, coalition: Tensor) -> float:
    """V(S) as it is usually computed: a hook per layer, the whole network, batch after batch."""
    total = 0.0
    with ExitStack() as undo, torch.no_grad():
        for layer, kept in game.neurons.by_layer(coalition):
            kept, mean = kept.view(1, -1, 1, 1), game.means[layer.responses].view(1, -1, 1, 1)
            handle = layer.module.register_forward_hook(lambda _m, _i, out, k=kept, u=mean: torch.where(k, out, u))
            undo.callback(handle.remove)
        for images, labels in zip(game.images.split(100), game.labels.split(100), strict=True):
            total -= F.cross_entropy(game.model(images), labels, reduction="sum").item()
    return total / len(game.labels)


def plain_walk(game: NeuronGame, order: Tensor, start: Tensor) -> Tensor:
    """V after each player of ``order`` joined or left, one whole evaluation at a time."""
    coalition, found = start.clone(), []
    for i in order.tolist():
        coalition[i] ^= True
        found.append(plain_value(game, coalition))
    return torch.tensor(found, dtype=torch.float64)


def reference(game: NeuronGame, seconds: float, enough: float = 0.95) -> tuple[Tensor, dict[str, float]]:
    """φ by exact flips of all neurons at shared random coalitions, two images each: unbiased, from draws of its own.

    Per second it converges faster than whole permutations; it ends when its two halves rank alike, or at the limit.
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
        "spearman": agreement,
        "top_k": top_k_precision(halves[0], halves[1], NETWORK_K),
        "whole": 2 * agreement / (1 + agreement),  # Spearman–Brown: what a repeat of the whole would give
        "coalitions": 8.0 * rounds,
        "seconds": time.perf_counter() - start,
    }
    return halves.sum(0) / (8 * rounds), ceiling


# ---- 2. a trained network ------------------------------------------------------------------------------------------


def on_trained_network(options: argparse.Namespace, effort: Effort) -> tuple[list[Row], dict[str, object]]:
    """Every estimator on one trained network, against the reference."""
    model, images, labels = trained(options, effort)
    game = NeuronGame(model, images, labels)
    name, many, minibatch = f"ResNet-18, n = {game.n}", len(labels), max(1, int(MINIBATCH * len(labels)))
    say(f"  V(all) {game.everyone:.3f}, V(none) {game.no_one:.3f}; shared prefixes: {game.shares_prefixes}")
    truth, ceiling = reference(game, effort.reference)
    say(f"  reference: {ceiling}")
    rows: list[Row] = []

    def compare(method: str, calls: Sequence[Callable[[], Tensor]], cost: float | None = None, note: str = "") -> Row:
        rows.append(Row(name, method, math.nan, note=note))
        for call in calls:
            measure(rows[-1], game, truth, NETWORK_K, call)
        rows[-1].cost = rows[-1].cost if cost is None else cost
        say("  " + "  ".join(rows[-1].cells[1:]))
        return rows[-1]

    def gradient(draws: int, seed: int) -> Callable[[], Tensor]:
        return lambda: estimate(game, "gradient", seed=seed, draws=draws, minibatch=minibatch).values

    compare("random", [lambda s=s: torch.rand(game.n, generator=generator(s, "random")) for s in range(20)])
    compare("Taylor at the full network", [lambda: game.gradient(torch.ones(1, game.n))[0][0]])
    grad = {
        draws: compare(f"gradient, {draws} draws", [gradient(draws, s) for s in range(5)], note=f"{minibatch} images")
        for draws in (6, 20, 60)
    }
    monte = monte_carlo(game, truth, effort, rows, name)
    compare("hybrid", [lambda: estimate(game, "hybrid", seed=1, minibatch=min(16, many), max_band=128).values])
    ten = 10.0 * (game.n - 1) + 2
    sample = torch.randperm(game.n, generator=generator(0, "sample"))[:40]
    start = torch.rand(game.n, generator=generator(1, "sample")) < 0.5
    _, seconds = clock(lambda: plain_walk(game, sample, start))
    plain_seconds = seconds / len(sample) * ten
    extrapolated = f"EXTRAPOLATED from {len(sample)} evaluations; values are montecarlo's"
    rows.append(Row(name, "plain loop, 10 permutations", ten, note=f"{plain_seconds:,.0f} s, {extrapolated}"))
    rows += foreign_rows(options, effort, game, truth, name, (model, images, labels))
    fast = statistics.mean(monte.seconds)
    twenty = statistics.mean(grad[20].seconds)
    figures: dict[str, object] = {
        "spearman_gradient20": statistics.mean(grad[20].rank),
        "spearman_mc10": statistics.mean(monte.rank),
        "topk_gradient20": statistics.mean(grad[20].precision),
        "topk_mc10": statistics.mean(monte.precision),
        "gradient20": [spread(grad[20].precision), spread(grad[20].rank)],
        "mc10": [spread(monte.precision), spread(monte.rank)],
        "gradient20_minibatch": minibatch,
        "forwards_ratio": ten / grad[20].cost,
        "time_ratio": plain_seconds / twenty,
        "time_ratio_own_engine": fast / twenty,
        "reference_split_half": ceiling["spearman"],
        "reference": ceiling,
    }
    return rows, figures


def monte_carlo(game: NeuronGame, truth: Tensor, effort: Effort, rows: list[Row], name: str) -> Row:
    """1, 2, 5 and 10 permutations on all images; the longer runs continue the shorter ones. Returns the row of 10."""
    counts = (1, 2, 5, 10)
    found = {p: Row(name, f"montecarlo, {p} permutations", p * (game.n - 1.0) + 2) for p in counts}
    for seed in range(effort.repeats):
        so_far, seconds = None, 0.0
        for p in counts:
            start = time.perf_counter()
            so_far = estimate(game, "montecarlo", seed=seed, permutations=p, resume=so_far)
            seconds += time.perf_counter() - start
            found[p].add(so_far.values, truth, NETWORK_K, seconds)
        say(f"  montecarlo, seed {seed}: 10 permutations in {seconds:.0f} s, {so_far.evaluations:,.0f} passes' work")
        work = so_far.evaluations / found[10].cost
    for row in found.values():
        row.note = f"shared prefixes do {work:.2f} of that work"
        rows.append(row)
        say("  " + "  ".join(row.cells[1:]))
    return found[10]


def foreign_rows(
    options: argparse.Namespace, effort: Effort, game: NeuronGame, truth: Tensor, name: str, network: tuple
) -> list[Row]:
    """shapiq and captum on the same network, through our fast engine; those that may never end in a process apart."""
    rows, ten = [], 10.0 * (game.n - 1) + 2
    if find_spec("captum"):
        row = Row(name, f"captum ShapleyValueSampling, {effort.foreign} perm.", effort.foreign * game.n + 1.0)
        row.add(*_values_then_seconds(clock(lambda: captum_values(game, effort.foreign, 0)), truth))
        rows.append(row)
    else:
        rows.append(Row(name, "captum ShapleyValueSampling", math.nan, note=MISSING))
    for method in SHAPIQ:
        if not find_spec("shapiq"):
            rows.append(Row(name, f"shapiq {method}", math.nan, note=MISSING))
            continue
        limit = 600.0 if method == "PermutationSamplingSV" else effort.limit
        with tempfile.TemporaryDirectory() as folder:
            torch.save(network, Path(folder) / "network.pt")
            answer = in_own_process(options, limit, "shapiq", method, folder, str(int(ten)))
        row = Row(name, f"shapiq {method}", ten)
        if isinstance(answer, str):
            row.note = answer
        else:
            row.add(torch.tensor(answer["values"], dtype=torch.float64), truth, NETWORK_K, answer["seconds"])
        rows.append(row)
        say("  " + "  ".join(row.cells[1:]))
    return rows


def _values_then_seconds(timed: tuple[Tensor, float], truth: Tensor) -> tuple[Tensor, Tensor, float, float]:
    return timed[0], truth, NETWORK_K, timed[1]


# ---- processes of their own ----------------------------------------------------------------------------------------


def in_own_process(options: argparse.Namespace, limit: float, *what: str) -> dict | str:
    """What `child` answers, or a sentence if it did not finish."""
    command = [sys.executable, __file__, "--threads", str(torch.get_num_threads()), "--child", *what]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return f"not finished in {limit:.0f} s"
    if done.returncode:
        return f"failed: {(done.stderr.strip().splitlines() or ['no message'])[-1][:120]}"
    return json.loads(done.stdout.strip().splitlines()[-1])


def child(what: Sequence[str]) -> dict[str, object]:
    """One job in a fresh process: a shapiq estimator on a stored network, or the paper's network from start to end."""
    if what[0] == "shapiq":
        _, method, folder, budget = what
        game = NeuronGame(*torch.load(Path(folder) / "network.pt", weights_only=False))
        values, seconds = clock(lambda: shapiq_values(method, game, int(budget), 0))
        return {"values": values.tolist(), "seconds": seconds}
    model, (images, labels) = network(64, 20), random_images(600)
    start, draws = time.perf_counter(), ESTIMATORS["gradient"].settings().draws
    found = value_neurons(model, (images, labels), max_seconds=float(what[1]))
    seconds = time.perf_counter() - start
    done = 2 * int(found.counts.max())
    sampling = sum(found.seconds.values())
    return {
        "seconds": seconds if done == draws else seconds - sampling + sampling * draws / done,
        "extrapolated": done < draws,
        "draws": draws,
        "draws_done": done,
        "minibatch": ESTIMATORS["gradient"].settings().minibatch,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


# ---- 3 to 5. the paper's network, the engines, and width ------------------------------------------------------------


def engines(effort: Effort) -> dict[str, float]:
    """Coalitions per second along the same stretch of a permutation: ours and the plain loop, in turns."""
    images, labels = random_images(100)
    game = NeuronGame(network(64, 20).eval(), images, labels)
    rng, seconds, apart = generator(0, "engines"), {"ours": [], "plain": []}, 0.0
    for turn in range(effort.turns):
        order = torch.randperm(game.n, generator=rng)
        before = int(torch.randint(game.n - effort.segment, (), generator=rng))
        start = torch.zeros(game.n, dtype=torch.bool)
        start[order[:before]] = True
        segment = order[before : before + effort.segment]
        ways = {"ours": lambda a=segment, s=start: game.walk(a, start=s), "plain": lambda: None}
        ways["plain"] = lambda a=segment, s=start: plain_walk(game, a, s)
        answers = {}
        for name in ("ours", "plain") if turn % 2 else ("plain", "ours"):
            answers[name], took = clock(ways[name])
            seconds[name].append(took / effort.segment)
        steps = answers["plain"].diff(prepend=torch.tensor([plain_value(game, start)], dtype=torch.float64))
        apart = max(apart, float((answers["ours"] - steps).abs().max()))
        say(
            f"  turn {turn + 1}: "
            + ", ".join(f"{name} {1 / took[-1]:.2f} coalitions/s" for name, took in seconds.items())
        )
    ratio = statistics.median(p / o for p, o in zip(seconds["plain"], seconds["ours"], strict=True))
    medians = {name: statistics.median(took) for name, took in seconds.items()}
    return {
        "coalitions_per_s_ratio": ratio,
        "coalitions_per_s": 1 / medians["ours"],
        "coalitions_per_s_plain": 1 / medians["plain"],
        "engines_differ_by_at_most": apart,
    }


def scaling(effort: Effort) -> tuple[list[list[str]], dict[str, float]]:
    """Seconds of one gradient and of one forward pass on the same images, as the number of filters grows."""
    rows, ratios = [], {}
    for width in (8, 16, 32, 64):
        images, labels = random_images(64)
        game = NeuronGame(network(width, 20).eval(), images, labels)
        gates = torch.rand(2, game.n, generator=generator(0, "gates"))
        coalition = torch.rand(1, game.n, generator=generator(1, "gates")) < 0.5
        times: dict[str, list[float]] = {"gradient": [], "forward": []}
        for turn in range(effort.turns + 1):  # the first warms up
            for name, call in {
                "gradient": lambda: game.gradient(gates)[0],
                "forward": lambda: game.values(coalition),
            }.items():
                _, took = clock(call)
                times[name] += [took / len(gates) if name == "gradient" else took] if turn else []
        gradient, forward = (min(times[name]) for name in ("gradient", "forward"))
        ratios[str(width)] = gradient / forward
        rows.append([str(width), f"{game.n:,}", f"{gradient:.3f}", f"{forward:.3f}", f"{gradient / forward:.2f}"])
        say(f"  width {width}: {gradient:.3f} s per gradient, {forward:.3f} s per forward pass of 64 images")
    return rows, ratios


def faster_threads() -> int:
    """One thread, or all: on a machine that others use too, threads that wait for each other can be slower than one."""
    model, (images, _) = network(8, 20).eval(), random_images(64)
    seconds = {}
    for threads in sorted({1, torch.get_num_threads()}, reverse=True):
        torch.set_num_threads(threads)
        with torch.inference_mode():
            seconds[threads] = min(clock(lambda: model(images))[1] for _ in range(7))
    return min(seconds, key=lambda threads: seconds[threads])


# ---- what is written -----------------------------------------------------------------------------------------------


def plot(rows: Sequence[Row], path: Path) -> None:
    """1 − top-k precision against cost, one panel per game, one line per estimator; bars are standard errors."""
    import matplotlib.pyplot as plt

    games = list(dict.fromkeys(row.game for row in rows))
    columns = 3
    figure, axes = plt.subplots(
        math.ceil(len(games) / columns), columns, figsize=(16, 4.2 * math.ceil(len(games) / columns)), squeeze=False
    )
    for axis in axes.flat[len(games) :]:
        axis.axis("off")
    for axis, game in zip(axes.flat, games, strict=False):
        lines: dict[str, list[Row]] = {}
        for row in rows:
            if row.game == game and row.precision and row.cost > 0:
                family = row.method.split(", ")[0] if row.game.startswith("ResNet") else row.method
                lines.setdefault(family, []).append(row)
        for number, (method, found) in enumerate(lines.items()):
            found.sort(key=lambda row: row.cost)
            means, errors = zip(*(mean_and_error(row.precision) for row in found), strict=True)
            style = dict(marker="osv^Dx*P"[number % 8], markersize=4, linewidth=1.2, capsize=2)
            axis.errorbar([row.cost for row in found], [1 - m for m in means], errors, label=method, **style)
        axis.set(xscale="log", title=game, xlabel="cost, V(S) on all data", ylabel="share of the top-k that is wrong")
        axis.legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def claims(figures: dict[str, object]) -> list[str]:
    """What has to hold, and whether it does."""
    f = {key: value for key, value in figures.items() if isinstance(value, int | float)}
    wanted = {
        "gradient with 20 draws finds the top 10 % at least as well as 10 permutations": (
            "topk_gradient20",
            "topk_mc10",
        ),
        "and ranks at least as well": ("spearman_gradient20", "spearman_mc10"),
        "with at least 100 times fewer forward passes": ("forwards_ratio", 100),
        "and at least 50 times faster than the plain loop": ("time_ratio", 50),
        "shared prefixes evaluate at least 3 times as many coalitions per second": ("coalitions_per_s_ratio", 3),
        "ResNet-18 with 4,800 filters takes at most 60 s": (60, "resnet18_seconds"),
        "in at most 3 GiB": (3, "resnet18_peak_gib"),
    }
    lines = []
    for sentence, (large, small) in wanted.items():
        a, b = (f.get(x) if isinstance(x, str) else x for x in (large, small))
        if a is None or b is None:
            lines.append(f"not measured: {sentence}")
        else:
            lines.append(f"{'holds' if a >= b else 'FAILS'}: {sentence} ({a:.4g} ≥ {b:.4g})")
    if "shapiq_beats_ours" in figures:
        beaten = figures["shapiq_beats_ours"]
        lines.append(
            f"{'FAILS' if beaten else 'holds'}: no shapiq estimator is better than our best on known games {beaten}"
        )
    return lines


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repeats, a shorter reference")
    parser.add_argument("--data-dir", help="folder with the Tiny-ImageNet zip; else $SNV_DATA, else the cache folder")
    parser.add_argument("--data", default="tiny-imagenet", help="dataset of the trained network, e.g. digits")
    parser.add_argument("--out", type=Path, default=Path("valuation-benchmark"))
    parser.add_argument("--threads", type=int, help="default: one or all, whichever is faster right now")
    parser.add_argument("--only", default="12345", help="parts to run, e.g. 1 or 345")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads or faster_threads())
    if options.child:
        print(json.dumps(child(options.child)))
        return
    effort = QUICK if options.quick else Effort()
    figures: dict[str, object] = {"quick": options.quick, "threads": torch.get_num_threads()}
    rows, tables, begun = [], [], time.perf_counter()
    if "2" in options.only:  # fail where it is cheap
        load_source(options.data, options.data_dir, 32 if options.data == "tiny-imagenet" else None, download=False)
    say(f"{figures['threads']} thread(s), torch {torch.__version__}, {'quick' if options.quick else 'whole'}")
    if "1" in options.only:
        say("1. games with known values")
        known, verdicts, beaten = on_known_games(effort)
        rows += known
        figures |= {"shapiq_beats_ours": beaten}
        tables += ["## Games with known values", markdown(HEADER, [r.cells for r in known]), *verdicts]
    if "2" in options.only:
        say(f"2. ResNet-18 of width 8 trained on {options.data}, payoff loss")
        found, measured = on_trained_network(options, effort)
        rows += found
        figures |= measured
        title = "## A trained network, against a long unbiased reference whose two halves agree to "
        tables += [f"{title}{measured['reference_split_half']:.3f}", markdown(HEADER, [r.cells for r in found])]
    plain = None
    if "4" in options.only:
        say("4. coalitions per second, width 64, 100 images (random weights and images: only time is measured)")
        speed = engines(effort)
        plain = speed["coalitions_per_s_plain"]
        figures |= speed
        tables += [
            "## Coalitions per second",
            markdown(["quantity", "value"], [[k, f"{v:.4g}"] for k, v in speed.items()]),
        ]
    if "3" in options.only:
        say("3. the paper's network: width 64, 4,800 filters, 600 images (random weights and images: only time)")
        paper = in_own_process(options, 3 * effort.paper + 120, "paper", str(effort.paper))
        if isinstance(paper, str):
            raise SystemExit(f"the paper's network: {paper}")
        figures |= {f"resnet18_{key}": value for key, value in paper.items()}
        if plain:
            hours = 32 * 4800 * 6 / plain / 3600  # 600 images are six times the 100 that were timed
            figures |= {"resnet18_plain_32_permutations_hours_extrapolated": hours}
        text = [
            [k, f"{v:.4g}" if isinstance(v, float) else str(v)] for k, v in figures.items() if k.startswith("resnet18")
        ]
        tables += ["## The paper's network", markdown(["quantity", "value"], text)]
        say(f"  {paper}")
    if "5" in options.only:
        say("5. cost against width")
        table, ratios = scaling(effort)
        figures |= {"gradient_over_forward": ratios}
        header = ["width", "filters", "s per gradient", "s per forward pass", "ratio"]
        tables += ["## Cost against width, 64 images", markdown(header, table)]
    figures |= {"seconds": time.perf_counter() - begun}
    tables += ["## Claims", *(f"- {line}" for line in claims(figures))]
    options.out.mkdir(parents=True, exist_ok=True)
    report = "\n\n".join(["# Valuation benchmark", *tables, f"```json\n{json.dumps(figures, indent=1)}\n```"])
    (options.out / "valuation.md").write_text(report + "\n", encoding="utf-8")
    if rows:
        plot(rows, options.out / "valuation.png")
    print("\n" + "\n\n".join(tables) + f"\n\nwritten to {options.out}/\n")
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    try:
        main()
    except UserError as problem:
        raise SystemExit(f"The benchmark cannot run: {problem}") from None
