"""ONNX files opened and run within limits: everything in one file, no loops, so much memory, so many minutes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from threading import Timer
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snv.errors import UserError

LARGEST = 2**31
"""Bytes of a file, which is as much as ONNX itself can hold."""
MEMORY = 8 * 2**30
"""Bytes for weights and all that lies between them; more is refused by the library that runs the file."""
SECONDS = 300.0
"""Of a run, after which it is ended between two layers."""
ENDLESS = {"Loop", "Scan", "SequenceMap"}
"""Layers that repeat others as often as a number in the file says."""
DEEPEST = 4
"""Graphs within graphs."""


def open_session(data: bytes, name: str, threads: int) -> Any:
    """A network ready to be run on the CPU; what is wrong with it is said under its name."""
    runtime = extra("onnxruntime")
    require_self_contained(data, name)
    _share_memory()
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4  # what is wrong is said below
    options.add_session_config_entry("session.use_env_allocators", "1")
    try:
        return runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of a library that has many kinds, none of them public
        raise UserError(
            f"{name} is not an ONNX file that can be run ({reason_of(error)}). Weights must be in the same file."
        ) from None


def run(session: Any, feeds: dict[str, NDArray[np.float32]], output: str | None = None) -> NDArray[Any]:
    """One output of the network, by default the first; a run without end is ended."""
    options = extra("onnxruntime").RunOptions()
    timer = Timer(SECONDS, lambda: setattr(options, "terminate", True))
    timer.daemon = True
    timer.start()
    try:
        found: NDArray[Any] = session.run(None if output is None else [output], feeds, options)[0]
        return found
    finally:
        timer.cancel()


def require_self_contained(data: bytes, name: str) -> None:
    """Refuse a file that reads other files, that repeats itself, or that is none."""
    onnx = extra("onnx")
    try:
        model = onnx.load_from_string(data)
    except Exception as error:  # as above
        raise UserError(
            f"{name} is not an ONNX file that can be run ({reason_of(error)}). Export the network as one."
        ) from None
    if len(model.functions):
        raise UserError(f"{name} defines functions of its own. Export it with functions inlined.")
    for graph in _graphs(model.graph, name):
        for node in graph.node:
            if node.op_type in ENDLESS:
                raise UserError(f"{name} has a layer {node.op_type}, which may never end. Export it without loops.")
        for tensor in _tensors(graph):
            if tensor.data_location == onnx.TensorProto.EXTERNAL or len(tensor.external_data):
                raise UserError(
                    f"{name} reads weights from another file ({_location(tensor)!r}), which may be any on this "
                    "computer. Weights must be in the same file: export it so."
                )


def _graphs(graph: Any, name: str, depth: int = 0) -> Iterator[Any]:
    """A graph and those inside its nodes."""
    if depth > DEEPEST:
        raise UserError(f"{name} has graphs within graphs, more than {DEEPEST} deep. Export it without conditions.")
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield from _graphs(inner, name, depth + 1)


def _tensors(graph: Any) -> Iterator[Any]:
    """Weights, and constants of nodes."""
    yield from graph.initializer
    sparse = [*graph.sparse_initializer]
    for node in graph.node:
        for attribute in node.attribute:
            yield from [*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors]
            sparse += [*([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else [])]
            sparse += attribute.sparse_tensors
    for one in sparse:
        yield from (one.values, one.indices)


def _location(tensor: Any) -> str:
    return next((entry.value[:80] for entry in tensor.external_data if entry.key == "location"), "")


@cache
def _share_memory() -> None:
    """All sessions of this process take their memory from one place, which gives out `MEMORY` bytes at most."""
    runtime = extra("onnxruntime")
    kind = runtime.OrtMemoryInfo("Cpu", runtime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, runtime.OrtMemType.DEFAULT)
    runtime.create_and_register_allocator(kind, runtime.OrtArenaCfg({"max_mem": MEMORY}))


def reason_of(error: Exception) -> str:
    """The first line, which says it."""
    return (str(error).strip().splitlines() or ["no reason given"])[0][:160]


def extra(name: str) -> Any:
    """A package that only ONNX needs."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UserError(
            f"ONNX needs the package {name}, which is missing. Install it: pip install 'snv[export]'"
        ) from None
