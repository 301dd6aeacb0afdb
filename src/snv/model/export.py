"""A network as a file that runs without snv, for batches of any size: ONNX, or an exported program of PyTorch.

What a model exports is compared with the model before anybody may use it.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from snv.errors import UserError
from snv.files import write_atomic
from snv.model.graphs import graph_of, plain
from snv.networks import OnnxSpace, extra
from snv.shapes import Images

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
        KINDS[kind][0](module, shape, path)
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}). Choose another place for it.") from None
    pictures = torch.rand(N_CHECKED, *shape, generator=torch.Generator().manual_seed(0))
    apart = check_export(path, reference, pictures)
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


def export_onnx(module: nn.Module, shape: tuple[int, int, int], path: Path) -> None:
    """Write ``module``, from images (b, c, h, w) of ``shape`` to logits, as an ONNX file."""
    _require_suffix(path, ONNX)
    onnx = extra("onnx")
    graph = graph_of(module, shape)

    def write(temporary: Path) -> None:
        onnx.checker.check_model(graph, full_check=True)
        temporary.write_bytes(graph.SerializeToString())

    write_atomic(path, write)


def export_program(module: nn.Module, shape: tuple[int, int, int], path: Path) -> None:
    """Write ``module``, from images (b, c, h, w) of ``shape`` to logits, as a program for `torch.export.load`."""
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


KINDS = {"onnx": (export_onnx, ONNX), "torch-export": (export_program, PROGRAM)}
"""How each format is written, and how its files are called."""


@torch.no_grad()
def check_export(path: Path, module: nn.Module, images: Images) -> float:
    """Largest absolute difference between the logits of the file at ``path`` and of ``module``, both on the CPU.

    A ``.pt2`` file is loaded by PyTorch, which unpickles parts of it: check only files you have made.
    """
    if not path.is_file():
        raise UserError(f"There is no exported file at {path}. Export the network first.")
    images = images.cpu()
    match path.suffix:
        case ".onnx":
            answers = _run_onnx(path, images)
        case ".pt2":
            answers = torch.export.load(path).module()(images)
        case _:
            raise UserError(f"An exported file ends in {ONNX} or {PROGRAM}; got {path.name}.")
    return float((answers - plain(module)(images)).abs().max())


def _run_onnx(path: Path, images: Images) -> torch.Tensor:
    runtime = extra("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(["logits"], {"images": images.numpy()})[0])


def _require_suffix(path: Path, suffix: str) -> None:
    if path.suffix != suffix:
        raise UserError(f"The file to export to ends in {suffix}; got {path.name}. Call it {path.stem}{suffix}.")
