"""A model directory in use: export, start-up, memory and size on disk.

    python benchmarks/model.py --model pets.snv --task birds --pictures pictures/new

The last line is JSON: ``onnx_speedup_batch1`` (the dense network with the task's head over the task cut out, both
through onnxruntime, one thread, taking turns, medians), ``onnx_max_abs_error`` (logits, 100 pictures),
``startup_seconds`` (`snv predict` of one picture in a fresh process, best of 3), ``memory_growth_mb`` (peak memory of
predicting 5,000 pictures less that of 500, on Linux) and ``bytes_over_dense`` (the directory, less 150 kB per task,
over the dense network).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import nn

from snv.model import Model, Standardised, decoded, export_onnx, picture_files

PER_TASK = 150_000
MEASURED = """
import re
from pathlib import Path
import sys
from snv.cli.main import main
try:
    main()
finally:  # of this program alone: what getrusage tells includes the process it was started from
    sys.stderr.write(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


class Dense(nn.Module):
    """The whole network with one task's head."""

    def __init__(self, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.body, self.head = body, head

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(images))


def session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def seconds_in_turns(sessions: dict[str, onnxruntime.InferenceSession], image: np.ndarray, turns: int) -> dict:
    """Median seconds of each for one picture; they alternate, so that both have the same neighbours."""
    times: dict[str, list[float]] = {name: [] for name in sessions}
    for turn in range(turns + 20):  # the first turns warm up
        for name, one in sessions.items():
            start = time.perf_counter()
            one.run(["logits"], {"images": image})
            if turn >= 20:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def onnx(model: Model, task: str, images: torch.Tensor, turns: int) -> dict[str, float]:
    """How much faster the task's own file is, and how close to the model it answers."""
    small, preprocess = model.deployable(task), model.knowledge.preprocess
    t = [info.name for info in model.tasks].index(task)
    dense = Dense(model.specialists.body, model.specialists.network.head(t))
    whole = Standardised(dense, preprocess.mean, preprocess.std).eval()
    with tempfile.TemporaryDirectory() as folder:
        sessions = {}
        for name, module in (("dense", whole), ("compact", small)):
            export_onnx(module, preprocess.shape, Path(folder) / f"{name}.onnx")
            sessions[name] = session(Path(folder) / f"{name}.onnx")
    answers = torch.from_numpy(sessions["compact"].run(["logits"], {"images": images.numpy()})[0])
    with torch.inference_mode():
        error = float((answers - small(images)).abs().max())
    median = seconds_in_turns(sessions, images[:1].numpy(), turns)
    print(", ".join(f"{name} {1e3 * took:.2f} ms" for name, took in median.items()), "per picture")
    return {"onnx_speedup_batch1": median["dense"] / median["compact"], "onnx_max_abs_error": error}


def predicted(model: Path, files: list[Path]) -> tuple[float, float]:
    """Seconds and peak memory in MB of `snv predict` on these files, in a process of its own."""
    listed = "".join(f"{file}\n" for file in files)
    command = [sys.executable, "-c", MEASURED, "predict", "-", "--model", str(model)]
    start = time.perf_counter()
    told = subprocess.run(command, input=listed, check=True, text=True, capture_output=True)
    if told.stdout.count("\n") != len(files):
        raise SystemExit(f"snv predict answered {len(told.stdout.splitlines())} of {len(files)} pictures")
    return time.perf_counter() - start, int(told.stderr.split()[-1]) / 2**10


def startup_seconds(model: Path, file: Path) -> float:
    """`snv predict` of one picture in a fresh process, the best of three."""
    command = [sys.executable, "-m", "snv.cli.main", "predict", str(file), "--model", str(model)]
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times)


def bytes_over_dense(path: Path, model: Model) -> float:
    stored = sum(file.stat().st_size for file in path.iterdir())
    dense = sum(x.numel() * x.element_size() for x in model.specialists.body.state_dict().values())
    return (stored - PER_TASK * len(model.tasks)) / dense


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--task", required=True)
    parser.add_argument("--pictures", type=Path, required=True, help="a folder; its files are repeated to get enough")
    parser.add_argument("--turns", type=int, default=300)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = Model.open(options.model)
    files = list(picture_files([options.pictures]))
    size = model.knowledge.preprocess.shape[1]
    images = torch.stack([pixels for _, pixels in decoded(islice(cycle(files), 100), size)]).float() / 255
    result = onnx(model, options.task, images, options.turns)
    result["startup_seconds"] = startup_seconds(options.model, files[0])
    peaks = {}
    for n in (500, 5000):
        took, peaks[n] = predicted(options.model, list(islice(cycle(files), n)))
        print(f"{n} pictures in {took:.1f} s, {peaks[n]:.0f} MB at most")
    result["memory_growth_mb"] = peaks[5000] - peaks[500]
    result["bytes_over_dense"] = bytes_over_dense(options.model, model)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
