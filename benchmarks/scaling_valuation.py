"""One valuation, many workers: how long it takes, what moves between the processes, and what the cost model says.

    python benchmarks/scaling_valuation.py [--workers 1 2] [--turns 3] [--ray local]

A ResNet-18 of width 8 (600 filters) with random weights is valued on random images; its values mean nothing and cost
what any would. Every process has one thread. Kinds of runs take turns, and the median counts. The model is fitted to
an eighth of the draws in this process and predicts the rest; start-up is what it takes until the first answer. A busy
machine gives a worker less than a core, so processor seconds stand beside the clock's. Values must be the same bits in
every run. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import statistics
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from snv.networks import Specialist, build_network
from snv.shapley import ESTIMATORS, Valuation, Workers
from snv.shapley.processes import pickled
from snv.shapley.questions import Answer, Question
from snv.shapley.shared import Crew, SharedGame
from snv.valuation import NeuronGame

SETTINGS: dict[str, dict[str, Any]] = {
    "gradient": {"draws": 192, "minibatch": 32},
    "montecarlo": {"permutations": 16, "minibatch": 4, "chunk": 64},
    "hybrid": {"draws": 32, "pilot_coalitions": 8, "pilot_players": 32, "max_band": 64, "burn_in": 8, "rounds": 24}
    | {"fresh": 16, "minibatch": 8, "eps": 1e-9},
    "tmab": {"permutations": 24, "burn_in": 8, "minibatch": 4, "chunk": 64, "eps": 1.0},
}
FEW = {"draws": 24, "permutations": 2, "rounds": 8, "fresh": 2}  # about an eighth of the work


def make_game(images: int = 64) -> NeuronGame:
    network = build_network("resnet18", (3, 32, 32), 0, width=8)
    network.add_head(10)
    rng = torch.Generator().manual_seed(0)
    return NeuronGame(
        Specialist(network, 0).eval(), torch.randn(images, 3, 32, 32, generator=rng), torch.arange(images) % 10
    )


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
    cpu_workers: float  # start-up included
    start: float  # until the first answer
    found: Valuation
    traffic: Traffic


def cpu(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def valued(method: str, settings: dict[str, Any], n: int, ray: str | None) -> Spent:
    """With ``n`` workers, or by this process."""
    function, own = ESTIMATORS[method].function, ESTIMATORS[method].settings(**settings)
    game = make_game()
    if n == 0:
        clock, busy = time.perf_counter(), cpu(resource.RUSAGE_SELF)
        found = function(game, own, seed=1)
        return Spent(time.perf_counter() - clock, cpu(resource.RUSAGE_SELF) - busy, 0.0, 0.0, found, Traffic())
    children, begun = cpu(resource.RUSAGE_CHILDREN), time.perf_counter()
    crew = Workers(n, ray).crew(game)
    try:
        wait_for_all(game, crew, n)
        start, listened = time.perf_counter() - begun, Listened(crew)
        clock, busy = time.perf_counter(), cpu(resource.RUSAGE_SELF)
        found = function(SharedGame(game, listened), own, seed=1)
        seconds, here = time.perf_counter() - clock, cpu(resource.RUSAGE_SELF) - busy
    finally:
        crew.close()
    return Spent(seconds, here, cpu(resource.RUSAGE_CHILDREN) - children, start, found, listened.traffic)


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
    few = valued(method, settings | {name: FEW[name] for name in FEW if name in settings}, 0, None)
    runs: dict[int, list[Spent]] = {n: [] for n in kinds}
    for _ in range(turns):
        for n in kinds:
            runs[n].append(valued(method, settings, n, ray))
    truth = runs[kinds[0]][0].found
    agree = all(same(run.found, truth) for some in runs.values() for run in some)
    rows = [row(n, runs[n], few) for n in kinds]
    base = next((r["seconds"] for r in rows if r["workers"] == 1), rows[0]["seconds"])
    for made in rows:
        made["times_faster_than_one"] = base / made["seconds"]
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
        "cpu_workers": median(r.cpu_workers for r in runs),
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
    load, sent = os.getloadavg()[1], len(pickled(make_game()))
    print(f"the game, sent once to each worker: {sent / 1e6:.2f} MB; load of the machine: {load:.1f}")
    print(json.dumps({"game_bytes": sent, "load": load, "cores": os.cpu_count(), "ray": asked.ray, "found": found}))


def tell(one: dict[str, Any]) -> None:
    print(f"{one['method']}: {one['evaluations']:,.1f} evaluations, same bits: {one['same_bits']}")
    for r in one["runs"]:
        t = r["traffic"]
        print(
            f"  {r['workers'] or 'no'} workers: {r['seconds']:6.1f} s (predicted {r['predicted_seconds']:.1f}), "
            f"{r['times_faster_than_one']:.2f} x one worker; start-up {r['start_up']:.1f} s; processor here "
            f"{r['cpu_here']:.1f} s, workers {r['cpu_workers']:.1f} s; {t['questions']} questions, "
            f"{r['unused_share']:.1%} of the work unused; {t['out'] / 1e6:.2f} MB out ({t['predicted_out'] / 1e6:.2f}), "
            f"{t['back'] / 1e6:.2f} MB back ({t['predicted_back'] / 1e6:.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
