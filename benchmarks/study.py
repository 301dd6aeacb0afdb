"""Many runs, their records kept as small JSON files, one table: what `results/` is made with.

    python benchmarks/study.py configs/mini-?il.toml --methods sgd snv --seeds 0 1 2 \\
        --tuned benchmarks/mini-tuned.toml --out results/mini
    python benchmarks/study.py configs/ablations/score-*.toml --seeds 0 1 --set data.tasks=3 --out results/bakeoff
    python benchmarks/study.py --out results/mini          (only the table)
    python benchmarks/study.py --out results/bakeoff --against counted-reuse     (and paired differences)

``--tuned`` is a file of each method's own settings: [METHOD.SCENARIO.train] and [METHOD.SCENARIO.learner], such as were
chosen on other seeds. A run that is finished is not repeated, one that was cut is continued; two of these can work on
separate lists at once.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tomllib
from collections import defaultdict
from pathlib import Path

from snv.config import load_config
from snv.errors import UserError
from snv.files import write_json, write_text
from snv.learners import LEARNERS
from snv.runs import run

STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}
"""The 97.5 % quantile of Student's t by degrees of freedom."""


def runs(options: argparse.Namespace):
    """(name, config) of everything asked for that the method can do."""
    tuned = tomllib.loads(options.tuned.read_text(encoding="utf-8")) if options.tuned else {}
    for seed, path, method in itertools.product(options.seeds, options.configs, options.methods or [None]):
        chosen = [f"method={method}"] if method else []
        try:
            plain = load_config(path, chosen)
            own = tuned.get(plain.method, {}).get(plain.scenario, {})
            found = [f"{table}.{name}={value}" for table, settings in own.items() for name, value in settings.items()]
            last = ["learner.when=last"] if plain.method == "joint" else []
            config = load_config(path, [*chosen, *found, *last, *options.set, f"seed={seed}"])
        except UserError as error:
            print(f"skipped {path.stem} {method}: {error}")
            continue
        label = f"{config.method}-{config.scenario}" if options.methods else path.stem
        yield f"{label}{options.tag}-seed{seed}", config


def learn(options: argparse.Namespace) -> None:
    for name, config in runs(options):
        kept = options.out / f"{name}.json"
        if kept.exists():
            continue
        record = run(config, options.runs / options.out.name / name)
        write_json(kept, record.as_json())
        metrics, seconds = record.metrics, sum(record.cost["seconds"].values())
        told = ", ".join(f"{key} {_spread([metrics[key]])}" for key in ("ACC", "BWT"))
        print(f"{name}: {told}, {seconds:.0f} s", flush=True)


def table(out: Path) -> str:
    """One row per kind of run: mean ± standard deviation over seeds."""
    groups = defaultdict(list)
    for path in sorted(out.glob("*-seed*.json")):
        groups[path.stem.rpartition("-seed")[0]].append(json.loads(path.read_text()))
    lines = ["| run | ACC | BWT | forgetting | CAP | seconds | seeds |", "|---|---|---|---|---|---|---|"]
    for name, records in groups.items():
        cells = [_spread([record["metrics"][key] for record in records]) for key in ("ACC", "BWT", "forgetting", "CAP")]
        seconds = statistics.mean(sum(record["cost"]["seconds"].values()) for record in records)
        lines.append(f"| {name} | {' | '.join(cells)} | {seconds:.0f} | {len(records)} |")
    return "\n".join(lines) + "\n"


def paired(out: Path, reference: str) -> str:
    """Differences from the runs named ``reference`` with the same tag, seed by seed: their mean and 95 % interval."""
    accuracies = defaultdict(dict)
    for path in sorted(out.glob("*-seed*.json")):
        name, _, seed = path.stem.rpartition("-seed")
        accuracies[name][seed] = json.loads(path.read_text())["metrics"]["ACC"]
    tags = [name.removeprefix(reference) for name in accuracies if name.startswith(reference)]
    lines = [f"| run | ACC − ACC of {reference}, paired | seeds |", "|---|---|---|"]
    for tag, (name, found) in itertools.product(tags, accuracies.items()):
        seeds = sorted(found.keys() & accuracies[reference + tag].keys())
        if name.endswith(tag) and name != reference + tag and seeds:
            lines.append(
                f"| {name} | {interval([found[s] - accuracies[reference + tag][s] for s in seeds])} | {len(seeds)} |"
            )
    return "\n".join(lines) + "\n"


def interval(differences: list[float]) -> str:
    """Mean and 95 % interval of Student's t."""
    mean, n = statistics.mean(differences), len(differences)
    if n < 2:
        return f"{mean:+.2f}"
    half = STUDENT[min(n - 1, max(STUDENT))] * statistics.stdev(differences) / n**0.5
    return f"{mean:+.2f} ({mean - half:+.2f} … {mean + half:+.2f})"


def _spread(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    mean = f"{statistics.mean(known):.2f}"
    return mean if len(known) == 1 else f"{mean} ± {statistics.stdev(known):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", type=Path)
    parser.add_argument("--methods", nargs="+", choices=list(LEARNERS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--set", nargs="+", default=[], help="overrides such as train.epochs=3")
    parser.add_argument("--tuned", type=Path, help="a file of each method's own settings")
    parser.add_argument("--tag", default="", help="added to the names of the runs")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the run directories are")
    parser.add_argument("--out", type=Path, required=True, help="where records and table go")
    parser.add_argument("--against", help="the run whose records others are compared with, seed by seed")
    options = parser.parse_args()
    learn(options)
    made = table(options.out) + (f"\n{paired(options.out, options.against)}" if options.against else "")
    write_text(options.out / "table.md", made)
    print(made)


if __name__ == "__main__":
    main()
