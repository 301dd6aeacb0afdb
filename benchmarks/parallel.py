"""One training, one process and two: the same steps and the same valuation, in turn, and what an exchange costs.

    python benchmarks/parallel.py [--turns 40]

Every process has one thread, and the least of many turns counts. On a busy machine the clock says little, since each of
two processes waits for the other; the time of the processor still says how much work each has. The JSON of the last
line is what `benchmarks/scaling_model.py --measured` checks its predictions with.
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
NUMBERS = (1, 10**5, 10**6, 10**7)
Times = dict[str, float]


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


def steps_of(learner: Any, task: Any, stage: Any) -> Iterator[None]:
    """One step after the other, as the loop makes them; whoever works along makes them too."""
    from snv.machine import ranks
    from snv.training import Training
    from snv.training.parallel import divided

    training = Training(learner, task, stage)
    learner.set_training(True, stage)
    while True:
        for batch in training._batches():
            if batch.size < stage.settings.batch_size:
                continue  # the last one of an epoch
            with divided(batch.part):
                learner.step(batch, training.optimizer)
            ranks.largest(0, 0)  # whether anybody was asked to stop
            yield


def valuation_of(learner: Any, task: Any) -> Callable[[], object]:
    """A valuation of every neuron."""
    from snv.shapley import estimate
    from snv.valuation import NeuronGame

    labels = task.val.labels - task.block.start
    game = NeuronGame(learner.network, learner.setting.examples(task.val), labels)
    return partial(estimate, game, "gradient", draws=24, minibatch=16)


def exchange(numbers: int) -> Callable[[], object]:
    """Adding up so many float32 numbers."""
    import torch

    from snv.machine import ranks

    return partial(ranks.add_up, torch.zeros(numbers))


def least(works: dict[str, Callable[[], object]], turns: int) -> dict[str, Times]:
    """Seconds by the clock and of this processor, the least of each in so many turns.

    Of "one" the first process alone, of "beside" both at once without a word, of others both together.
    """
    from snv.machine import ranks

    best = {what: {"clock": float("inf"), "processor": float("inf")} for what in works}
    for _ in range(turns):
        for what, do in works.items():
            ranks.largest(0)  # both begin here
            if what == "one" and not ranks.first():
                continue
            with ranks._alone() if what in ("one", "beside") else nullcontext():
                began = {"clock": time.perf_counter(), "processor": time.process_time()}
                do()
                ended = {"clock": time.perf_counter(), "processor": time.process_time()}
            best[what] = {clock: min(best[what][clock], ended[clock] - began[clock]) for clock in began}
    return best


def measure(turns: int) -> dict[str, Any]:
    """All that is measured, in turn."""
    import torch

    from snv.machine import ranks

    torch.set_num_threads(1)
    with ranks.together():
        found: dict[str, Any] = {"exchange": least({str(n): exchange(n) for n in NUMBERS}, 4 * turns)}
        for title, (name, side, width) in NETWORKS.items():
            learner, task, stage = made(name, side, width)
            steps = {"one": steps_of(*made(name, side, width)), "two": steps_of(learner, task, stage)}
            steps["beside"] = steps_of(*made(name, side, width, BATCH // 2))
            value = valuation_of(learner, task)
            found[title] = {
                "parameters": sum(p.numel() for p in learner.network.parameters()),
                "norms": sum(isinstance(m, torch.nn.BatchNorm2d) for m in learner.network.modules()),
                "step": least({what: partial(next, step) for what, step in steps.items()}, turns),
                "valuation": least({"one": value, "two": value}, max(3, turns // 8)),
            }
    return found


def faster(times: dict[str, Times]) -> str:
    """How many times less two take than one."""
    by_clock, work = (times["one"][clock] / times["two"][clock] for clock in ("clock", "processor"))
    return f"{by_clock:.2f} times as fast; each does 1/{work:.2f} of the work"


def work(rank: int, port: int, turns: int, answers: Any) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    found = measure(turns)
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
        one, beside, two = (at["step"][what] for what in ("one", "beside", "two"))
        for clock in ("clock", "processor"):
            print(
                f"{title}, ms of the {clock}: a step of {BATCH} images takes one process {1000 * one[clock]:.1f};",
                end=" ",
            )
            print(f"half of it, while another does the other half without a word, {1000 * beside[clock]:.1f};", end=" ")
            print(f"each of two together {1000 * two[clock]:.1f}")
        print(f"  two make a step {faster(at['step'])}")
        print(f"  two make a valuation {faster(at['valuation'])}")
    for n, times in found["exchange"].items():
        print(f"adding up {int(n):,} numbers: {1000 * times['clock']:.2f} ms")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
