"""One valuation, many workers: how long it takes, what moves between the processes, and what the cost model says.

    python benchmarks/scaling_valuation.py [--workers 1 2] [--turns 3] [--ray local]

A ResNet-18 of width 8 (600 filters), and for the bandit a perceptron of forty neurons, with random weights are valued
on random images; their values mean nothing and cost what any would. Every process has one thread. Kinds of runs take
turns, and the median counts. The model is fitted to an eighth of the draws in this process and predicts the rest;
start-up is what it takes until every worker has answered once. A busy machine gives a worker less than a core, so the
processor seconds of the busiest worker stand beside the clock's: what the clock would show, but for waiting, if every
worker had a core of its own. Values must be the same bits in every run. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from snv.networks import Specialist, build_network
from snv.shapley import ESTIMATORS, Valuation, Workers
from snv.shapley.processes import LocalCrew, pickled
from snv.shapley.questions import Answer, Question
from snv.shapley.shared import Crew, SharedGame
from snv.valuation import NeuronGame

SETTINGS: dict[str, dict[str, Any]] = {
    "gradient": {"draws": 192, "minibatch": 32},
    "montecarlo": {"permutations": 16, "minibatch": 4, "chunk": 64},
    "hybrid": {"draws": 32, "pilot_coalitions": 8, "pilot_players": 32, "max_band": 64, "burn_in": 8, "rounds": 24}
    | {"fresh": 16, "minibatch": 8, "eps": 1e-9},
    "tmab": {"permutations": 120, "burn_in": 30, "chunk": 8, "eps": 1.5},
}
FEW = {
    "gradient": {"draws": 24},
    "montecarlo": {"permutations": 2},
    "hybrid": {"draws": 4, "rounds": 8, "fresh": 2},
    "tmab": {"permutations": 15, "burn_in": 15},
}
"""About an eighth of the draws."""


def mlp_game(images: int = 1000) -> NeuronGame:
    """Forty neurons: so few that the bandit soon knows some of them apart."""
    rng = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 10))
    return NeuronGame(network, torch.randn(images, 8, 8, generator=rng), torch.arange(images) % 10)


def resnet_game(images: int = 64) -> NeuronGame:
    network = build_network("resnet18", (3, 32, 32), 0, width=8)
    network.add_head(10)
    rng = torch.Generator().manual_seed(0)
    return NeuronGame(
        Specialist(network, 0).eval(), torch.randn(images, 3, 32, 32, generator=rng), torch.arange(images) % 10
    )


GAMES = dict.fromkeys(SETTINGS, resnet_game) | {"tmab": mlp_game}


@dataclass
class Traffic:
    """What passed between this process and its workers."""

    questions: int = 0
    evaluations: float = 0.0  # of all answers, those that nobody used included
    out: int = 0  # bytes
    back: int = 0
    predicted_out: int = 0  # masks of one byte, gates and rows of eight
    predicted_back: int = 0  # eight bytes per number


@dataclass
class Listened:
    """A crew, and what is said."""

    crew: Crew
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def ahead(self) -> int:
        return self.crew.ahead

    def room(self) -> int:
        return self.crew.room()

    def submit(self, ticket: int, question: Question) -> None:
        self.traffic.questions += 1
        self.traffic.out += len(pickle.dumps(question))
        self.traffic.predicted_out += sum(x.numel() * x.element_size() for x in question.about if x is not None)
        self.crew.submit(ticket, question)

    def news(self) -> list[tuple[int, Answer]]:
        told = self.crew.news()
        for _, answer in told:
            self.traffic.evaluations += sum(answer.costs)
            self.traffic.back += len(pickle.dumps(answer))
            self.traffic.predicted_back += sum(8 * x.numel() for x in answer.found)
        return told

    def close(self) -> None:
        self.crew.close()


@dataclass(frozen=True)
class Spent:
    """One run."""

    seconds: float
    cpu_here: float
    cpu_workers: tuple[float, ...]  # of each, while it answered
    start: float  # until the first answer
    found: Valuation
    traffic: Traffic


def cpu_of(crew: Crew) -> tuple[float, ...]:
    """Processor seconds of each worker so far, where they are processes of this machine."""
    if not isinstance(crew, LocalCrew):
        return (0.0,)
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in crew.pids()]
    return tuple((int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK") for f in fields)


def valued(method: str, settings: dict[str, Any], n: int, ray: str | None) -> Spent:
    """With ``n`` workers, or by this process."""
    function, own = ESTIMATORS[method].function, ESTIMATORS[method].settings(**settings)
    game = GAMES[method]()
    if n == 0:
        clock, busy = time.perf_counter(), time.process_time()
        found = function(game, own, seed=1)
        return Spent(time.perf_counter() - clock, time.process_time() - busy, (0.0,), 0.0, found, Traffic())
    begun = time.perf_counter()
    crew = Workers(n, ray).crew(game)
    try:
        wait_for_all(game, crew, n)
        start, listened, before = time.perf_counter() - begun, Listened(crew), cpu_of(crew)
        clock, busy = time.perf_counter(), time.process_time()
        found = function(SharedGame(game, listened), own, seed=1)
        seconds, here = time.perf_counter() - clock, time.process_time() - busy
        workers = tuple(after - b for after, b in zip(cpu_of(crew), before, strict=True))
    finally:
        crew.close()
    return Spent(seconds, here, workers, start, found, listened.traffic)


def wait_for_all(game: NeuronGame, crew: Crew, n: int) -> None:
    """Until every worker has its game and has answered."""
    one = Question("values", (torch.ones(1, game.n, dtype=torch.bool), None))
    for ticket in range(n):
        crew.submit(ticket, one)
    answered = 0
    while answered < n:
        answered += len(crew.news())


def same(one: Valuation, other: Valuation) -> bool:
    parts = all(torch.equal(getattr(one, x).nan_to_num(), getattr(other, x).nan_to_num()) for x in ("values", "stderr"))
    return parts and one.evaluations == other.evaluations and one.stopped == other.stopped


def report(method: str, kinds: list[int], turns: int, ray: str | None) -> dict[str, Any]:
    """One estimator: measured, predicted, and whether the bits agree."""
    settings = SETTINGS[method]
    few = valued(method, settings | FEW[method], 0, None)
    runs: dict[int, list[Spent]] = {n: [] for n in kinds}
    for _ in range(turns):
        for n in kinds:
            runs[n].append(valued(method, settings, n, ray))
    truth = runs[kinds[0]][0].found
    agree = all(same(run.found, truth) for some in runs.values() for run in some)
    rows = [row(n, runs[n], few) for n in kinds]
    base = next(r for r in rows if r["workers"] == min(kinds[1:]))
    for made in rows:
        made["times_faster_than_one"] = base["seconds"] / made["seconds"]
    return {"method": method, "settings": settings, "same_bits": agree, "evaluations": truth.evaluations, "runs": rows}


def row(n: int, runs: list[Spent], few: Spent) -> dict[str, Any]:
    """The median, beside E·c/n: evaluations times the processor time of one, shared by n."""
    evaluations, traffic = runs[0].found.evaluations, runs[0].traffic
    per_evaluation = few.cpu_here / few.found.evaluations
    median = statistics.median
    return {
        "workers": n,
        "seconds": median(r.seconds for r in runs),
        "seconds_all": [round(r.seconds, 2) for r in runs],
        "start_up": median(r.start for r in runs),
        "cpu_here": median(r.cpu_here for r in runs),
        "cpu_all_workers": median(sum(r.cpu_workers) for r in runs),
        "cpu_busiest_worker": median(max(r.cpu_workers) for r in runs),
        "ms_per_evaluation": 1000 * per_evaluation,
        "predicted_seconds": max(evaluations, traffic.evaluations) * per_evaluation / max(1, n),
        "unused_share": 1 - evaluations / traffic.evaluations if n else 0.0,
        "traffic": asdict(traffic),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--methods", nargs="+", default=list(SETTINGS))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--ray", help="Workers are actors: an address, or local.")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    for method in asked.methods:
        found.append(report(method, [0, *asked.workers], asked.turns, asked.ray))
        tell(found[-1])
    load, sent = os.getloadavg()[1], len(pickled(resnet_game()))
    print(f"the ResNet and its images, sent once to each worker: {sent / 1e6:.2f} MB; load of the machine: {load:.1f}")
    print(json.dumps({"game_bytes": sent, "load": load, "cores": os.cpu_count(), "ray": asked.ray, "found": found}))


def tell(one: dict[str, Any]) -> None:
    print(f"{one['method']}: {one['evaluations']:,.1f} evaluations, same bits: {one['same_bits']}")
    for r in one["runs"]:
        t = r["traffic"]
        print(
            f"  {r['workers'] or 'no'} workers: {r['seconds']:6.1f} s, {r['times_faster_than_one']:.2f} x one worker; "
            f"start-up {r['start_up']:.1f} s; processor: here {r['cpu_here']:.2f} s, busiest worker "
            f"{r['cpu_busiest_worker']:.2f} s, predicted {r['predicted_seconds']:.2f} s; {t['questions']} questions, "
            f"{abs(r['unused_share']):.1%} of the work unused; {t['out'] / 1e6:.2f} MB out (predicted "
            f"{t['predicted_out'] / 1e6:.2f}), {t['back'] / 1e6:.2f} MB back ({t['predicted_back'] / 1e6:.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
