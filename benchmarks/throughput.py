"""The training loop beside a bare PyTorch loop: images per second, same network, same machine, same minute.

The bare loop has its images as normalised float tensors in memory, shuffles, steps and validates, and does nothing
else: no augmentation, no logging, no early stopping, no record. Both take turns, epoch by epoch, so that a noisy
machine is noisy for both. The last line is JSON; ``ratio`` is ours over theirs.

    python benchmarks/throughput.py [--width 16] [--images 2048] [--rounds 11]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F

from snv.data import Preprocess, TaskStream, from_arrays
from snv.learners import SGD
from snv.networks import build_network
from snv.training import EVALUATION_BATCH, Setting, Stage, Training, TrainSettings

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def network(width: int) -> torch.nn.Module:
    made = build_network("resnet18", (3, 32, 32), seed=0, width=width).to(DEVICE)
    return made.to(memory_format=torch.channels_last)


def bare_epoch(net, optimizer, train, val) -> None:
    """What one would write by hand."""
    images, labels = train
    net.train()
    for index in torch.randperm(len(labels)).split(64):
        optimizer.zero_grad()
        F.cross_entropy(net(images[index], 0), labels[index]).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        for x, y in zip(val[0].split(EVALUATION_BATCH), val[1].split(EVALUATION_BATCH), strict=True):
            logits = net(x, 0)
            F.cross_entropy(logits, y).item()
            (logits.argmax(1) == y).sum().item()


class OurEpochs:
    """The product's own loop, one epoch at a time."""

    def __init__(self, width: int, stream: TaskStream) -> None:
        settings = TrainSettings(epochs=10**6, patience=10**6, precision="fp32")
        preprocess = Preprocess.of(stream.source)
        setting = Setting(network(width), "til", settings, preprocess, DEVICE, 0, 1)
        self.learner = SGD(setting)
        self.task = stream.task(0).without_test()
        self.learner.begin_task(self.task)
        self.training = Training(self.learner, self.task, Stage("train", settings))

    def epoch(self) -> None:
        self.training.train_one_epoch()


def stream_of(n: int) -> TaskStream:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (n, 32, 32, 3), dtype=np.uint8)
    return TaskStream(from_arrays(images, np.arange(n) % 10), 1, 0)


def prepared(split, preprocess) -> tuple[torch.Tensor, torch.Tensor]:
    pixels, labels = next(iter(split.batches([torch.arange(len(split))])))
    return preprocess(pixels, DEVICE, None, channels_last=True), labels.to(DEVICE)


def timed(epoch) -> float:
    start = time.perf_counter()
    epoch()
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--images", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    stream = stream_of(options.images)
    ours = OurEpochs(options.width, stream)
    bare = network(options.width)
    bare.add_head(10)
    optimizer = torch.optim.Adam(bare.parameters(), lr=1e-3)
    preprocess = Preprocess.of(stream.source)
    train, val = (prepared(split, preprocess) for split in (ours.task.train, ours.task.val))
    n = len(ours.task.train)
    seconds: dict[str, list[float]] = {"ours": [], "bare": []}
    kinds = {"ours": ours.epoch, "bare": lambda: bare_epoch(bare, optimizer, train, val)}
    for turn in range(options.rounds + 1):  # the first turn warms up
        for name in ("ours", "bare") if turn % 2 else ("bare", "ours"):
            took = timed(kinds[name])
            if turn:
                seconds[name].append(took)
        last = ", ".join(f"{name} {n / times[-1]:.0f} images/s" for name, times in seconds.items() if times)
        print(f"turn {turn}: {last or 'warm-up'}", flush=True)
    speed = {name: n / statistics.median(times) for name, times in seconds.items()}
    ratio = statistics.median(b / a for a, b in zip(seconds["ours"], seconds["bare"], strict=True))
    print(f"\nResNet-18 width {options.width}, 32 px, batch 64, {torch.get_num_threads()} threads, {DEVICE}")
    print(f"ours {speed['ours']:.0f} images/s (with augmentation), bare {speed['bare']:.0f} images/s")
    told = {"ours_images_per_s": speed["ours"], "bare_images_per_s": speed["bare"], "ratio": ratio}
    print(json.dumps(told | {"width": options.width, "rounds": options.rounds, "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
