"""ONNX files read nothing but themselves, end, and take no more memory than they may."""

from __future__ import annotations

import numpy as np
import pytest

from snv.errors import UserError
from snv.networks import onnx_session
from snv.networks.onnx_session import open_session, run

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
X, Y = (helper.make_tensor_value_info(name, FLOAT, [4]) for name in "xy")


def file_of(*nodes, weights=(), functions=()) -> bytes:
    graph = helper.make_graph(list(nodes), "g", [X], [Y], list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], functions=list(functions))
    model.ir_version = 8
    return model.SerializeToString()


ADD = helper.make_node("Add", ["x", "w"], ["y"])
INPUT = {"x": np.zeros(4, np.float32)}


def elsewhere(location: str) -> TensorProto:
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", location
    return tensor


def test_an_honest_file_is_run():
    weights = helper.make_tensor("w", FLOAT, [4], [1.0, 2.0, 3.0, 4.0])
    session = open_session(file_of(ADD, weights=[weights]), "net.onnx", 1)
    assert run(session, INPUT).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname", "secret.bin"])
def test_weights_in_another_file_are_not_read(location, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    with pytest.raises(UserError, match=r"net\.onnx reads weights from another file"):
        open_session(file_of(ADD, weights=[elsewhere(location)]), "net.onnx", 1)
    constant = helper.make_node("Constant", [], ["w"], value=elsewhere(location))
    with pytest.raises(UserError, match="reads weights from another file"):
        open_session(file_of(constant, ADD), "net.onnx", 1)


def test_loops_and_functions_are_refused_also_inside_a_condition():
    body = helper.make_graph([helper.make_node("Identity", ["c"], ["d"])], "b", [], [])
    loop = helper.make_node("Loop", ["n", "c"], ["y"], body=body)
    inside = helper.make_graph([loop], "then", [], [Y])
    condition = helper.make_node("If", ["c"], ["y"], then_branch=inside, else_branch=inside)
    for node in (loop, condition):
        with pytest.raises(UserError, match="a layer Loop, which may never end"):
            open_session(file_of(node), "net.onnx", 1)
    twice = helper.make_function("own", "F", ["x"], ["y"], [ADD], [helper.make_opsetid("", 17)])
    with pytest.raises(UserError, match="functions of its own"):
        open_session(file_of(ADD, functions=[twice]), "net.onnx", 1)


def test_a_layer_of_absurd_shape_is_refused_instead_of_filling_memory():
    shape = helper.make_tensor("s", INT64, [2], [10**6, 10**5])
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["z"]),
        helper.make_node("ReduceSum", ["z"], ["w"], keepdims=0),
        ADD,
    ]
    with pytest.raises(Exception, match=r"[Mm]emory|alloc|size"):  # as the library says it
        run(open_session(file_of(*nodes, weights=[shape]), "net.onnx", 1), INPUT)


def test_a_run_without_end_is_ended(monkeypatch):
    monkeypatch.setattr(onnx_session, "SECONDS", 0.05)
    weights = [helper.make_tensor("s", INT64, [2], [300, 300])]
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["z"]), helper.make_node("ReduceSum", ["x"], ["r"], keepdims=0)]
    nodes += [helper.make_node("Add", ["z", "r"], ["a0"])]
    nodes += [helper.make_node("MatMul", [f"a{i}", f"a{i}"], [f"a{i + 1}"]) for i in range(300)]
    nodes += [helper.make_node("ReduceSum", ["a300"], ["w"], keepdims=0), ADD]
    session = open_session(file_of(*nodes, weights=weights), "net.onnx", 1)
    with pytest.raises(Exception, match="terminate"):
        run(session, INPUT)
