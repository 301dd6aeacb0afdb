"""Networks as ONNX graphs: one of ours, or one of ours around a pretrained one."""

from __future__ import annotations

import copy
import io
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from snv.errors import UserError
from snv.model.joint import Joint, Prepared, Standardised, Whole
from snv.networks import OnnxSpace, extra


def plain(module: nn.Module) -> nn.Module:
    """A copy that predicts, on the CPU, with weights in the ordinary order of memory."""
    copied = copy.deepcopy(module).cpu().eval()
    for tensor in (*copied.parameters(), *copied.buffers()):
        tensor.data = tensor.data.contiguous()
    return copied


def graph_of(module: nn.Module, shape: tuple[int, int, int]) -> Any:
    """``module``, from ``images`` of this shape to ``logits``, for batches of any size."""
    example = torch.zeros(2, *shape)  # a batch of one would be taken for a constant
    match module:
        case Standardised(inner=Whole(joint=Joint() as joint, space=OnnxSpace() as space)):
            return _around(space, module, joint, example)
    return _traced(module, {"images": example}, ["logits"])


def _around(space: OnnxSpace, pixels: Standardised, joint: Joint, example: Tensor) -> Any:
    """Pictures are prepared for the pretrained network, run through it, and judged with what it says."""
    onnx = extra("onnx")
    prepare = Standardised(Prepared(space), pixels.mean.flatten().tolist(), pixels.std.flatten().tolist())
    before = _traced(prepare, {"images": example}, ["prepared", "standardised"])
    pretrained = _like(onnx.load_from_string(space.file.cpu().numpy().tobytes()), before)
    taken, given = pretrained.graph.input[0], pretrained.graph.output[0]
    if taken.type.tensor_type.shape.dim[0].dim_value == 1:
        raise UserError("The features file takes one picture at a time, so no file for batches can be made of it.")
    places = [1] * (len(given.type.tensor_type.shape.dim) - 2)
    features = torch.zeros(2, space.n_features, *places)
    after = _traced(_Scaled(joint, float(space.scale)), {"pictures": example, "features": features}, ["logits"])
    del pretrained.graph.output[1:]
    pretrained = onnx.compose.add_prefix(pretrained, "pretrained/")
    after = onnx.compose.add_prefix(after, "after/", rename_outputs=False)
    first = onnx.compose.merge_models(before, pretrained, io_map=[("prepared", f"pretrained/{taken.name}")])
    links = [("standardised", "after/pictures"), (f"pretrained/{given.name}", "after/features")]
    return onnx.compose.merge_models(first, after, io_map=links)


def _like(pretrained: Any, ours: Any) -> Any:
    """A graph in the same version of ONNX as another, so that both can be one."""
    onnx = extra("onnx")
    version = next(entry.version for entry in ours.opset_import if not entry.domain)
    theirs = {entry.domain: entry.version for entry in pretrained.opset_import}
    try:
        if theirs.get("") != version:
            pretrained = onnx.version_converter.convert_version(pretrained, version)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"The features file is of ONNX version {theirs.get('')} and cannot be turned into version {version} "
            f"({reason[:120]}). Export it in version {version}."
        ) from None
    pretrained.ir_version = ours.ir_version
    return pretrained


class _Scaled(nn.Module):
    """Features come as the file gives them."""

    def __init__(self, joint: Joint, scale: float) -> None:
        super().__init__()
        self.joint, self.scale = joint, scale

    def forward(self, pictures: Tensor, features: Tensor) -> Tensor:
        logits: Tensor = self.joint(pictures, features * self.scale)
        return logits


def _traced(module: nn.Module, inputs: dict[str, Tensor], outputs: list[str]) -> Any:
    """By PyTorch's older exporter, since the newer one needs onnxscript as well."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that there is a newer exporter
        warnings.filterwarnings("ignore", "Constant folding", UserWarning)  # that a constant is computed at run time
        torch.onnx.export(
            plain(module),
            tuple(inputs.values()),
            buffer,  # type: ignore[arg-type]  # what the older exporter takes besides paths
            dynamo=False,
            input_names=list(inputs),
            output_names=outputs,
            dynamic_axes={name: {0: "batch"} for name in (*inputs, *outputs)},
        )
    return extra("onnx").load_from_string(buffer.getvalue())
