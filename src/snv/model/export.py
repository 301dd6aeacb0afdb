"""A network as a file that runs without snv, for batches of any size: ONNX, or an exported program of PyTorch.

What a model exports is compared with the model before anybody may use it.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias, cast

import torch
from torch import nn

from snv.errors import UserError
from snv.files import read_bytes, write_atomic
from snv.model.graphs import graph_of, plain
from snv.networks import LARGEST, OnnxSpace, extra, open_session, reason_of, run
from snv.shapes import Images, Logits

Answers: TypeAlias = Callable[[Images], Logits]
"""What a file, or a program, says of images."""
ONNX, PROGRAM = ".onnx", ".pt2"
TOLERANCE = 1e-4
"""How far the logits of a file may lie from those of the model, as a share of the largest or of 1."""
N_CHECKED = 100
"""Random pictures that a file is checked with."""


@dataclass(frozen=True)
class Exported:
    """A task as a file, checked."""

    file: Path
    bytes: int
    max_abs_error: float  # of its logits, on random pictures
    classes: tuple[str, ...]  # in the order of the logits
    shape: tuple[int, int, int]  # of a picture: channels, height, width


def export_checked(
    module: nn.Module, reference: nn.Module, shape: tuple[int, int, int], path: Path, kind: str
) -> float:
    """Write ``module`` as a file of `KINDS` that answers like ``reference``; the largest difference found."""
    try:
        answers = KINDS[kind][0](module, shape, path)
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}). Choose another place for it.") from None
    pictures = torch.rand(N_CHECKED, *shape, generator=torch.Generator().manual_seed(0))
    apart = _apart(answers(pictures), reference, pictures)
    with torch.no_grad():
        most = TOLERANCE * max(1.0, float(plain(reference)(pictures[:10]).abs().max()))
    if not apart <= most:
        raise UserError(
            f"{path} answers up to {apart:.1e} differently from the model, more than {most:.0e}. Do not use it."
        )
    return apart


def suffix_of(kind: str) -> str:
    """How the name of such a file ends."""
    if kind not in KINDS:
        raise UserError(f"The format to export to is {' or '.join(KINDS)}; got {kind!r}.")
    return KINDS[kind][1]


def export_onnx(module: nn.Module, shape: tuple[int, int, int], path: Path) -> Answers:
    """Write ``module``, from images (b, c, h, w) of ``shape`` to logits, as an ONNX file; what that answers."""
    _require_suffix(path, ONNX)
    onnx = extra("onnx")
    graph = graph_of(module, shape)

    def write(temporary: Path) -> None:
        onnx.checker.check_model(graph, full_check=True)
        temporary.write_bytes(graph.SerializeToString())

    write_atomic(path, write)
    return partial(_run_onnx, path)


def export_program(module: nn.Module, shape: tuple[int, int, int], path: Path) -> Answers:
    """Write ``module``, from images (b, c, h, w) of ``shape`` to logits, as a program for `torch.export.load`.

    What the program answers is asked before it is written: loading such a file unpickles, and evaluates, parts of it.
    """
    _require_suffix(path, PROGRAM)
    if any(isinstance(part, OnnxSpace) for part in module.modules()):
        raise UserError("A model with a features file, which is ONNX, is exported to onnx. Leave out the format.")
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(plain(module), (torch.zeros(2, *shape),), dynamic_shapes=({0: batch},))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # where the code lies on this computer is nobody's business
    buffer = io.BytesIO()  # PyTorch wants a path that ends in .pt2, and a temporary file does not
    torch.export.save(program, buffer)

    def write(temporary: Path) -> None:
        temporary.write_bytes(buffer.getvalue())

    write_atomic(path, write)
    if path.read_bytes() != buffer.getvalue():
        raise UserError(f"{path} does not hold what was written to it. Check the disk.")
    return cast(Answers, program.module())


KINDS = {"onnx": (export_onnx, ONNX), "torch-export": (export_program, PROGRAM)}
"""How each format is written, and how its files are called."""


def check_export(path: Path, module: nn.Module, images: Images) -> float:
    """Largest absolute difference between the logits of the ONNX file at ``path`` and of ``module``, on the CPU."""
    if path.suffix == PROGRAM:
        raise UserError(
            f"{path} is a program of PyTorch, and loading it can run anything its maker wrote, so snv does not. "
            f"`export` has compared it before it was written; to compare a file, export {path.stem}{ONNX}."
        )
    if path.suffix != ONNX:
        raise UserError(f"A file to compare with ends in {ONNX}; got {path.name}.")
    if not path.is_file():
        raise UserError(f"There is no exported file at {path}. Export the network first.")
    return _apart(_run_onnx(path, images), module, images)


@torch.no_grad()
def _apart(answers: Logits, module: nn.Module, images: Images) -> float:
    """How far answers lie from those of ``module`` at most."""
    expected = plain(module)(images.cpu())
    if answers.shape != expected.shape:
        raise UserError(f"The file gives {tuple(answers.shape)} for {tuple(expected.shape)}: it is of another network.")
    return float((answers - expected).abs().max())


def _run_onnx(path: Path, images: Images) -> Logits:
    session = open_session(read_bytes(path, LARGEST), str(path), torch.get_num_threads())
    try:
        return torch.from_numpy(run(session, {"images": images.cpu().numpy()}, "logits"))
    except Exception as error:  # of a library that has many kinds, none of them public
        raise UserError(f"{path} cannot be run ({reason_of(error)}). Export the network again.") from None


def _require_suffix(path: Path, suffix: str) -> None:
    if path.suffix != suffix:
        raise UserError(f"The file to export to ends in {suffix}; got {path.name}. Call it {path.stem}{suffix}.")
