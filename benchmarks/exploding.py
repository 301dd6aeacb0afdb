"""How far training losses rise above where a stage began, with rates and strengths that are good and far too high.

    python benchmarks/exploding.py [--networks mlp,convnet,resnet] [--methods sgd,ewc]

Runs of three tasks of digits, four epochs each. A line per run: the largest factor that `snv.training.faults` compares
with `EXPLODED`, the accuracy, and what was warned of; the last line is JSON with all of it.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
from itertools import product
from pathlib import Path

import snv
from snv.errors import DivergedError
from snv.training import faults, loop

NETWORKS = {
    "mlp": ["network.name=mlp", "network.hidden=[64,64]"],
    "convnet": ["network.name=convnet", "network.width=8"],
    "resnet": ["network.name=resnet18", "network.width=8"],
}
METHODS = {
    "sgd": ["method=sgd"],
    "ewc": ["method=ewc", "learner.strength=100"],
    "ewc, far too strong": ["method=ewc", "learner.strength=10000"],
    "si": ["method=si", "learner.strength=10"],
    "lwf": ["method=lwf"],
    "nfl": ["method=nfl"],
    "der++": ["method=der++"],
    "snv": ["method=snv"],
}
RATES = [("adam", 0.1), ("adam", 0.01), ("sgd", 0.1), ("sgd", 1.0)]
STREAM = ["data.tasks=3", "data.classes=6", "data.per_class=60", "train.epochs=4", "train.batch_size=16", "threads=1"]


def largest_factor(settings: list[str]) -> dict[str, object]:
    """Of all looks at the loss in one run."""
    seen = [0.0]

    def check(mean: float, last: float, first: float) -> None:
        seen.append(min(mean, last) / max(1.0, first))
        faults.check_loss(mean, last, first)

    loop.check_loss = check
    config = snv.load_config(None, [*STREAM, *settings])
    try:
        with tempfile.TemporaryDirectory() as folder:
            record = snv.run(config, Path(folder))
    except DivergedError as error:
        return {"factor": str(max(seen)), "stopped": str(error)}
    return {"factor": max(seen), "ACC": record.metrics["ACC"], "warnings": [fault["kind"] for fault in record.warnings]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--methods", default=None, help="default: all")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    chosen = [name for name in METHODS if options.methods is None or name.split(",")[0] in options.methods.split(",")]
    found = {}
    for network, method, (optimizer, lr) in product(options.networks.split(","), chosen, RATES):
        name = f"{network}, {method}, {optimizer} {lr}"
        rate = [f"train.optimizer={optimizer}", f"train.lr={lr}"]
        found[name] = largest_factor([*NETWORKS[network], *METHODS[method], *rate])
        print(name, found[name], flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
