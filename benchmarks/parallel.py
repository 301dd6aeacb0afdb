"""One training, one process and two: the same steps and the same valuation, in turn, and what an exchange costs.

    python benchmarks/parallel.py [--turns 40]

Every process has one thread. The least of many turns counts, so that a busy machine matters little; where it does, two
processes suffer more than one, since each waits for the other. The JSON of the last line is what
`benchmarks/scaling_model.py --measured` checks its predictions with.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

NETWORKS = {"convnet 28 px": ("convnet", 28, 32), "ResNet-18/20 32 px": ("resnet18", 32, 20)}
"""Name, side of the images, width."""
BATCH, CLASSES = 64, 10


def made(name: str, side: int, width: int, batch: int = BATCH) -> tuple[Any, Any, Any]:
    """A learner, a task of made-up images, and a stage that is long enough."""
    import numpy as np
    import torch

    from snv.data import Preprocess, TaskStream, from_arrays
    from snv.learners import SGD
    from snv.networks import build_network
    from snv.training import Setting, Stage, TrainSettings

    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), 160)
    stream = TaskStream(from_arrays(rng.integers(0, 255, (len(labels), side, side, 3), dtype=np.uint8), labels), 1, 0)
    network = build_network(name, stream.source.shape, 0, width=width).to(memory_format=torch.channels_last)
    train = TrainSettings(epochs=100, batch_size=batch, precision="fp32", augment=False)
    learner = SGD(Setting(network, "til", train, Preprocess.of(stream.source), torch.device("cpu"), 0, 1))
    task = stream.task(0).without_test()
    learner.begin_task(task)
    return learner, task, Stage("train", train)


def steps_of(learner: Any, task: Any, stage: Any) -> Iterator[float]:
    """Seconds of one step after the other, as the loop makes them; whoever works along makes them too."""
    from snv import ranks
    from snv.training import Training
    from snv.training.parallel import divided

    training = Training(learner, task, stage)
    learner.set_training(True, stage)
    while True:
        for batch in training._batches():
            start = time.perf_counter()
            with divided(batch.part):
                learner.step(batch, training.optimizer)
            ranks.largest(0, 0)  # whether anybody was asked to stop
            yield time.perf_counter() - start


def valuation_of(learner: Any, task: Any) -> Callable[[], float]:
    """Seconds of a valuation of every neuron."""
    from snv.shapley import estimate
    from snv.valuation import NeuronGame

    labels = task.val.labels - task.block.start
    game = NeuronGame(learner.network, learner.setting.examples(task.val), labels)

    def seconds() -> float:
        start = time.perf_counter()
        estimate(game, "gradient", draws=24, minibatch=16)
        return time.perf_counter() - start

    return seconds


def exchange(numbers: int) -> float:
    """Seconds of adding up so many float32 numbers."""
    import torch

    from snv import ranks

    x = torch.zeros(numbers)
    start = time.perf_counter()
    ranks.add_up(x)
    return time.perf_counter() - start


def measure(rank: int, turns: int) -> dict[str, Any]:
    """All that is measured, turn by turn: by the first process alone while the other waits, then by both."""
    import torch

    from snv import ranks
    from snv.ranks import _alone

    torch.set_num_threads(1)
    found: dict[str, Any] = {}

    def least(pair: dict[str, Callable[[], float]], turns: int = turns) -> dict[str, float]:
        """Of "one" the first process alone, of "beside" both at once without a word, of others both together."""
        best = dict.fromkeys(pair, float("inf"))
        for _ in range(turns):
            for what, seconds in pair.items():
                ranks.largest(0)  # both begin here
                if what == "one" and rank > 0:
                    continue
                with _alone() if what in ("one", "beside") else nullcontext():
                    best[what] = min(best[what], seconds())
        return best

    with ranks.together():
        found["exchange"] = least({str(n): lambda n=n: exchange(n) for n in (1, 10**5, 10**6, 10**7)})  # type: ignore[misc]
        for title, (name, side, width) in NETWORKS.items():
            learner, task, stage = made(name, side, width)
            steps = {"one": steps_of(*made(name, side, width)), "two": steps_of(learner, task, stage)}
            steps["beside"] = steps_of(*made(name, side, width, BATCH // 2))
            best = least({what: partial(next, step) for what, step in steps.items()})
            value = valuation_of(learner, task)
            valued = least({"one": value, "two": value}, max(3, turns // 10))
            found[title] = {
                "parameters": sum(p.numel() for p in learner.network.parameters()),
                "norms": sum(isinstance(m, torch.nn.BatchNorm2d) for m in learner.network.modules()),
                "step": best,
                "value": valued,
                "both beside each other": best["one"] / best["beside"],
                "speed-up of a step": best["one"] / best["two"],
                "speed-up of a valuation": valued["one"] / valued["two"],
            }
    return found


def work(rank: int, port: int, turns: int, answers: Any) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    found = measure(rank, turns)
    if rank == 0:
        answers.put(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=40)
    turns = parser.parse_args().turns
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    processes = [context.Process(target=work, args=(rank, port, turns, answers)) for rank in range(2)]
    for process in processes:
        process.start()
    while answers.empty():
        if any(process.exitcode for process in processes):
            for process in processes:
                process.kill()
            raise SystemExit("A process ended before it had measured.")
        time.sleep(0.2)
    found = answers.get()
    found["load"] = os.getloadavg()[0]
    for title in NETWORKS:
        at = found[title]
        one, beside, two = (1000 * at["step"][what] for what in ("one", "beside", "two"))
        print(f"{title}: a step of {BATCH} images takes one process {one:.1f} ms; half of it, while another does")
        print(f"  the other half without a word, {beside:.1f} ms; two together {two:.1f} ms.")
        print(f"  A step is {at['speed-up of a step']:.2f} times as fast, a valuation", end=" ")
        print(f"{at['speed-up of a valuation']:.2f} times")
    for n, seconds in found["exchange"].items():
        print(f"adding up {int(n):,} numbers: {1000 * seconds:.2f} ms")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
