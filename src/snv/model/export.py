"""A network as a file that runs without snv, for batches of any size: ONNX, or an exported program of PyTorch.

What a model exports is compared with the model before anybody may use it.
"""

from __future__ import annotations

import copy
import importlib
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from snv.errors import UserError
from snv.files import write_atomic
from snv.shapes import Images

ONNX, PROGRAM = ".onnx", ".pt2"
TOLERANCE = 1e-4
"""How far the logits of a file may lie from those of the model."""
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


class Standardised(nn.Module):
    """Pixels in [0, 1] are standardised, then classified."""

    def __init__(self, inner: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.inner = inner
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.inner((images - self.mean) / self.std)
        return logits


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
    if not apart <= TOLERANCE:
        raise UserError(
            f"{path} answers up to {apart:.1e} differently from the model, more than {TOLERANCE:.0e}. Do not use it."
        )
    return apart


def suffix_of(kind: str) -> str:
    """How the name of such a file ends."""
    if kind not in KINDS:
        raise UserError(f"The format to export to is {' or '.join(KINDS)}; got {kind!r}.")
    return KINDS[kind][1]


def export_onnx(module: nn.Module, shape: tuple[int, int, int], path: Path) -> None:
    """Write ``module``, from images (b, c, h, w) of ``shape`` to logits, as an ONNX file.

    Note: this is PyTorch's older exporter, since the newer one needs onnxscript as well.
    """
    _require_suffix(path, ONNX)
    onnx = _extra("onnx")

    def write(temporary: Path) -> None:
        torch.onnx.export(
            _plain(module),
            (_example(shape),),
            temporary,
            dynamo=False,
            input_names=["images"],
            output_names=["logits"],
            dynamic_axes={"images": {0: "batch"}, "logits": {0: "batch"}},
        )
        onnx.checker.check_model(onnx.load(temporary, format="protobuf"), full_check=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that there is a newer exporter
        warnings.filterwarnings("ignore", "Constant folding", UserWarning)  # that a constant is computed at run time
        write_atomic(path, write)


def export_program(module: nn.Module, shape: tuple[int, int, int], path: Path) -> None:
    """Write ``module``, from images (b, c, h, w) of ``shape`` to logits, as a program for `torch.export.load`."""
    _require_suffix(path, PROGRAM)
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(_plain(module), (_example(shape),), dynamic_shapes=({0: batch},))
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
    return float((answers - _plain(module)(images)).abs().max())


def _run_onnx(path: Path, images: Images) -> torch.Tensor:
    runtime = _extra("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(["logits"], {"images": images.numpy()})[0])


def _plain(module: nn.Module) -> nn.Module:
    """A copy that predicts, on the CPU, with weights in the ordinary order of memory."""
    plain = copy.deepcopy(module).cpu().eval()
    for tensor in (*plain.parameters(), *plain.buffers()):
        tensor.data = tensor.data.contiguous()
    return plain


def _example(shape: tuple[int, int, int]) -> Images:
    return torch.zeros(2, *shape)  # a batch of one would be taken for a constant


def _require_suffix(path: Path, suffix: str) -> None:
    if path.suffix != suffix:
        raise UserError(f"The file to export to ends in {suffix}; got {path.name}. Call it {path.stem}{suffix}.")


def _extra(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UserError(
            f"ONNX needs the package {name}, which is missing. Install it: pip install 'snv[export]'"
        ) from None
