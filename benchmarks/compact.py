"""A task's subnetwork cut out of the paper's ResNet-18, beside the network it came from.

    python benchmarks/compact.py [--capacity 0.1] [--width 64] [--rounds 7]

Both take turns. The last line is JSON: ``parameter_share``, ``max_abs_error`` (logits, against the masked network),
``speedup_batch64`` and ``cil10_over_dense`` (ten subnetworks one after the other over one dense forward pass).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch

from snv.networks import build_network
from snv.neurons import find_neurons
from snv.subnetworks import compact, masked, select, subnetwork_of

SHAPE = (3, 32, 32)


def statistics_like_trained(body: torch.nn.Module) -> None:
    """Norm layers as training leaves them: no entry special."""
    rng = torch.Generator().manual_seed(1)
    for module in body.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            with torch.no_grad():
                module.weight.copy_(0.5 + torch.rand(len(module.weight), generator=rng))
                module.bias.copy_(0.3 * torch.randn(len(module.bias), generator=rng))
    body.train()
    with torch.no_grad():
        for _ in range(4):
            body(torch.randn(32, *SHAPE, generator=rng))
    body.eval()


@torch.inference_mode()
def seconds(call, images: torch.Tensor) -> float:
    start = time.perf_counter()
    call(images)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--capacity", type=float, default=0.1)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    network = build_network("resnet18", SHAPE, seed=0, width=options.width).to(memory_format=torch.channels_last)
    head = network.add_head(10)
    body = network.body
    statistics_like_trained(body)
    images = torch.randn(64, *SHAPE).contiguous(memory_format=torch.channels_last)
    neurons = find_neurons(body, images[:2], include=["*"])
    small, error = [], 0.0
    for task in range(10):
        values = torch.rand(neurons.n, generator=torch.Generator().manual_seed(task), dtype=torch.float64)
        mask = select(values, neurons.layer_index, int(options.capacity * neurons.n))
        kept = subnetwork_of(body, neurons, mask)
        small.append(compact(body, head, neurons, kept, SHAPE)[0].eval())
        with torch.inference_mode(), masked(body, neurons, kept):
            error = max(error, float((head(body(images)) - small[-1](images)).abs().max()))
    kinds = {
        "dense": lambda x: head(body(x)),
        "compact": small[0],
        "ten": lambda x: [cut(x) for cut in small],
    }
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for turn in range(options.rounds + 1):  # the first turn warms up
        for name, call in kinds.items():
            took = seconds(call, images)
            if turn:
                times[name].append(took)
    median = {name: statistics.median(found) for name, found in times.items()}
    shares = [
        sum(p.numel() for p in cut.parameters()) / sum(p.numel() for p in [*body.parameters(), *head.parameters()])
        for cut in small
    ]
    print(
        f"ResNet-18 width {options.width}, c = {options.capacity}, 32 px, batch 64, {torch.get_num_threads()} threads: "
        + ", ".join(f"{name} {64 / took:.0f} images/s" for name, took in median.items())
    )
    result = {
        "parameter_share": max(shares),
        "max_abs_error": error,
        "speedup_batch64": median["dense"] / median["compact"],
        "cil10_over_dense": median["ten"] / median["dense"],
        "capacity": options.capacity,
        "width": options.width,
        "threads": torch.get_num_threads(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
