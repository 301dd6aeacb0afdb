"""`snv doctor`: is everything here that a run needs, and how fast is this machine?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(
    data_dir: Annotated[Path | None, typer.Option(help="Where the data files are.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Versions, hardware, gradients, data found, disk space, speed; exit code 1 if something is missing or wrong."""
    from snv.cli.output import as_lines, say, say_json

    facts, problems = examine(data_dir)
    if as_json:
        say_json(facts | {"problems": problems})
    else:
        say(as_lines({key: _text(value) for key, value in facts.items()}))
        say("\n" + ("\n".join(f"problem: {p}" for p in problems) or "Everything a run needs is here."))
    if problems:
        raise typer.Exit(1)


def examine(data_dir: Path | None) -> tuple[dict[str, Any], list[str]]:
    """Facts about this machine, and what stands in the way of a run."""
    import shutil

    import torch

    from snv.data import cache_dir
    from snv.machine import resolve_device, resolve_precision
    from snv.runs import describe

    cache = cache_dir()
    device = resolve_device("auto")
    facts = describe()
    del facts["command"]
    sound, problems = gradients()
    facts |= {
        "device": str(device),
        "threads": torch.get_num_threads(),
        "waiting threads": waiting_threads(),
        "precision": resolve_precision("auto", device),
        "gradients": sound,
        "training speed": f"{training_speed(device):,.0f} images/s (ResNet-18 width 16, 32 px, batch 64)",
        "cache folder": str(cache),
        "free disk GiB": round(shutil.disk_usage(_existing(cache)).free / 2**30, 1),
        "data found": found_data(data_dir),
    }
    if facts["free disk GiB"] < 1:
        problems.append(f"less than 1 GiB is free at {cache}; set SNV_CACHE to another folder.")
    return facts, problems


def gradients() -> tuple[str, list[str]]:
    """Whether this processor differentiates right, and a sentence for every kind of layer with which it does not."""
    from snv.networks import soundness

    differences = soundness.examined()
    if wrong := soundness.problems(differences):
        return "wrong", wrong
    if differences[soundness.AROUND] < soundness.TOLERANCE:
        return "right", []
    return (
        "right (PyTorch's own are wrong here for 1x1 convolutions with a stride and few channels; snv avoids them)",
        [],
    )


def waiting_threads() -> str:
    """How threads wait for each other, and what to do where nobody decided it before PyTorch was loaded."""
    from snv.threads import ROUNDS, VARIABLE, waiting_settings

    settings = waiting_settings()
    if not settings:
        return (
            f"no setting, and PyTorch is loaded already; for a busy machine set {VARIABLE}={ROUNDS['busy']} before "
            "Python starts"
        )
    words = ", ".join(f"{name}={value}" for name, value in settings.items())
    if settings.get(VARIABLE) in ROUNDS.values():
        return f"{words} (the default of snv's commands; for Python of your own set it before Python starts)"
    return f"{words} (your setting)"


def found_data(data_dir: Path | None) -> list[str]:
    """Data sets whose files are in place."""
    from snv.data import SOURCES, load_source
    from snv.errors import UserError

    names = []
    for name in SOURCES:
        if ":" in name:
            continue
        try:
            load_source(name, data_dir=data_dir, download=False)
            names.append(name)
        except UserError:
            continue
    return names


def training_speed(device: Any, seconds: float = 1.0) -> float:
    """Images per second of plain training steps."""
    import time

    import torch
    import torch.nn.functional as F

    from snv.networks import build_network

    network = build_network("resnet18", (3, 32, 32), seed=0, width=16).to(device)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    network.add_head(10)
    optimizer = torch.optim.Adam(network.parameters())
    images = torch.rand(64, 3, 32, 32, device=device).contiguous(memory_format=torch.channels_last)
    labels = torch.arange(64, device=device) % 10
    steps, start = -1, time.perf_counter()
    while steps < 1 or time.perf_counter() - start < seconds:
        optimizer.zero_grad()
        F.cross_entropy(network(images), labels).backward()
        optimizer.step()
        steps += 1
        if steps == 0:  # the first step warms up
            start = time.perf_counter()
    return 64 * steps / (time.perf_counter() - start)


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
