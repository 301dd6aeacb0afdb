"""Settings chosen on the first task alone against the defaults: on its validation images, on test images of streams.

    python benchmarks/tuning.py [--data digits cifar100] [--methods snv wsn ewc] [--seeds 0 1] [--data-dir FOLDER]

`snv tune` searches each method's own grid on the first task of a stream of seed 100, which no result is reported on;
then streams of other seeds are learned in TIL, with the defaults and with what was chosen. Digits come as two tasks of
five and for three epochs, so that there is something to choose; CIFAR-100 in small: sixteen classes, 100 images each,
six epochs. The last line is JSON: by data and method, percent right before and after (``validation`` of the first task;
``test``: ACC seed by seed), what was chosen, and what the search took.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from snv.config import RunConfig, changed, load_config
from snv.runs import run
from snv.study import as_words, tune

STREAMS = {
    "digits": ["data.tasks=2", "network.width=16", "train.epochs=3"],
    "cifar100": [
        *("data.name=cifar100", "data.tasks=4", "data.classes=16", "data.per_class=100"),
        *("network.width=16", "network.stem=3x3/2", "train.epochs=6", "train.batch_size=32"),
    ],
}
TUNED_ON = 100
"""The seed whose first task is searched."""


def config_of(data: str, method: str, data_dir: Path | None) -> RunConfig:
    """A method as it is by default, on a stream."""
    where = [f"data.dir={data_dir}"] if data_dir and data != "digits" else []
    return load_config(None, [*STREAMS[data], *where, f"method={method}", "threads=1", "keep=last"])


def measured(config: RunConfig, seeds: list[int], folder: Path) -> dict[str, Any]:
    """What a search on the first task finds, and what that is worth on other streams."""
    tuning = tune(changed(config, {"seed": TUNED_ON}), folder / "tuned")
    before = [acc(config, seed, folder / f"before-{seed}") for seed in seeds]
    stays = tuning.best.number == 0
    after = before if stays else [acc(changed(config, tuning.chosen), s, folder / f"after-{s}") for s in seeds]
    states = [trial.state for trial in tuning.trials]
    return {
        "validation": [tuning.trials[0].score, tuning.best.score],
        "test": [before, after],
        "chosen": tuning.chosen,
        "left_out": list(tuning.space.left_out),
        "trials": {state: states.count(state) for state in dict.fromkeys(states)},
        "search_seconds": tuning.spent["seconds"],
    }


def acc(config: RunConfig, seed: int, folder: Path) -> float:
    """ACC of a whole stream, on test images."""
    return float(run(changed(config, {"seed": seed}), folder).metrics["ACC"] or 0)


def row(data: str, method: str, found: dict[str, Any]) -> str:
    before, after = (statistics.mean(values) for values in found["test"])
    shown = f"{found['validation'][0]:.1f} → {found['validation'][1]:.1f} | {before:.2f} → {after:.2f}"
    trials = ", ".join(f"{n} {state}" for state, n in found["trials"].items())
    return f"| {data} | {method} | {as_words(found['chosen'])} | {shown} | {trials} | {found['search_seconds']:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=list(STREAMS), default=list(STREAMS))
    parser.add_argument("--methods", nargs="+", default=["snv", "wsn", "ewc"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    print("| data | method | chosen on task 1 | validation, task 1 | ACC, test | trials | seconds of the search |")
    print("|---|---|---|---|---|---|---|")
    found: dict[str, dict[str, Any]] = {data: {} for data in options.data}
    for data in options.data:
        for method in options.methods:
            with tempfile.TemporaryDirectory() as folder:
                one = measured(config_of(data, method, options.data_dir), options.seeds, Path(folder))
            found[data][method] = one
            print(row(data, method, one), flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
