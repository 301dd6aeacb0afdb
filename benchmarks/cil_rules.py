"""All rules of class-incremental inference on the same trained networks: which specialist to believe.

    python benchmarks/cil_rules.py RUN [RUN …]         (finished CIL runs of snv)

Images are those of the test split, seen once after everything was chosen. The last line is JSON: percent right by rule,
one number per run.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path

import torch

from snv.runs import RunDirectory, open_run
from snv.subnetworks import RULES, evidence_of


def right(path: Path) -> dict[str, float]:
    """Percent of test images of all tasks that each rule answers right."""
    run = open_run(path, None, lambda *_: None)
    learner = run.learner
    learner.load_state_dict(RunDirectory(path).newest()["learner"])
    learner.network.eval()
    found, n = dict.fromkeys(RULES, 0), 0
    for t in range(len(run.stream)):
        for images, labels in learner.setting.prepared(run.stream.test(t)):
            with torch.inference_mode():
                evidence = evidence_of(learner.specialists, images)
                for name in RULES:
                    found[name] += int((RULES[name](evidence).argmax(1) == labels).sum())
            n += len(labels)
    return {name: 100 * count / n for name, count in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    by_rule: dict[str, list[float]] = defaultdict(list)
    for path in parser.parse_args().runs:
        for name, percent in right(path).items():
            by_rule[name].append(percent)
    print("| rule | ACC |\n|---|---|")
    for name, values in sorted(by_rule.items(), key=lambda item: -statistics.mean(item[1])):
        print(f"| `{name}` | {statistics.mean(values):.2f} |")
    print(json.dumps(by_rule))


if __name__ == "__main__":
    main()
