"""Fingerprints of a short run of every method and scenario: what a change of form must leave bit for bit as it was.

    python tools/fingerprints.py > before.json              one line of JSON per run
    python tools/fingerprints.py --against before.json      exit code 1, and what differs, if anything does

Of each run: accuracies, operations counted, weights at the end, certificates. Bits repeat on one kind of processor
with one version of PyTorch, so compare files of the same machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from snv.config import load_config
from snv.files import load_state
from snv.learners import LEARNERS
from snv.runs import run

SHORT = ("data.tasks=3", "data.classes=6", "data.per_class=40", "train.epochs=4", "network.width=4", "threads=1")


def digest(*parts: Any) -> str:
    """Of tensors bit by bit, and of plain values."""
    found = hashlib.blake2b(digest_size=8)
    for part in parts:
        if isinstance(part, torch.Tensor):
            found.update(f"{part.dtype} {tuple(part.shape)}".encode())
            found.update(part.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        else:
            found.update(json.dumps(part, sort_keys=True).encode())
    return found.hexdigest()


def fingerprints(method: str, scenario: str, out: Path) -> dict[str, str]:
    record = run(load_config(None, [*SHORT, f"method={method}", f"scenario={scenario}"]), out)
    learner = load_state(out / "checkpoints" / "task-003.safetensors")["learner"]
    network = learner["network"]
    named = [part for name in sorted(network) for part in (name, network[name])]
    issued = [[c["tensors"], c["logits"], c["evidence"]] for c in learner.get("certificates", [])]
    found = {"accuracies": digest(record.results()["accuracy"]), "operations": digest(record.cost["macs"])}
    return found | {"weights": digest(*named)} | ({"certificates": digest(issued)} if issued else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="a file printed earlier")
    parser.add_argument("--methods", nargs="*", help="only these")
    options = parser.parse_args()
    lines = options.against.read_text(encoding="utf-8").splitlines() if options.against else []
    before = {(line["method"], line["scenario"]): line for line in map(json.loads, lines)}
    different = 0
    for method, kind in LEARNERS.items():
        for scenario in kind.card.scenarios if options.methods is None or method in options.methods else ():
            with tempfile.TemporaryDirectory() as folder:
                now = {"method": method, "scenario": scenario} | fingerprints(method, scenario, Path(folder) / "run")
            print(json.dumps(now), flush=True)
            if old := before.get((method, scenario)):
                parts = [part for part in now if now[part] != old.get(part)]
                different += bool(parts)
                if parts:
                    sys.stderr.write(f"{method}, {scenario}: not the same: {', '.join(parts)}\n")
    raise SystemExit(1 if different else 0)


if __name__ == "__main__":
    main()
