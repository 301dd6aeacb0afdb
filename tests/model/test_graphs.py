"""A model with a features file is one graph: the file's own network inside, batches of any size, the same answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from drawn import small_model
from onnx_files import Maps, write_onnx
from snv import Model, UserError
from snv.model.graphs import graph_of, plain


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    from drawn import BIRDS, make_pictures

    return make_pictures(tmp_path_factory.mktemp("graphs") / "birds", BIRDS, 8)


def with_file(pictures: Path, path: Path, **options: object) -> Model:
    model = small_model(features=write_onnx(path, **options))
    model.learn(pictures, epochs=1)
    return model


@pytest.mark.parametrize("averaged", [True, False], ids=["features", "maps"])
def test_the_graph_of_a_model_with_a_file_answers_as_the_model(pictures, tmp_path, averaged):
    model = with_file(pictures, tmp_path / "net.onnx", network=Maps(averaged=averaged), size=40)
    assert model.knowledge.spec["detail"] == 3 and model.knowledge.preprocess.shape == (3, 48, 48)
    graph = graph_of(model.deployable("birds"), model.knowledge.preprocess.shape)
    onnx.checker.check_model(graph, full_check=True)
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    for batch in (1, 5):
        pixels = torch.randint(256, (batch, 3, 48, 48), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
        (logits,) = session.run(["logits"], {"images": (pixels / 255).numpy()})
        np.testing.assert_allclose(logits, model.knowledge.logits(pixels, 0), atol=1e-3)


def test_a_file_that_takes_one_picture_at_a_time_serves_but_is_not_exported(pictures, tmp_path):
    model = with_file(pictures, tmp_path / "net.onnx", batch=1)
    assert len(model.predict([next(pictures.rglob("*.png"))] * 3)) == 3
    with pytest.raises(UserError, match="takes one picture at a time, so no file for batches"):
        graph_of(model.deployable("birds"), model.knowledge.preprocess.shape)


def test_a_plain_copy_predicts_and_leaves_the_original_alone():
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    network = network.to(memory_format=torch.channels_last).train()
    copied = plain(network)
    assert network.training and not copied.training
    assert copied[0].weight.is_contiguous()
    assert torch.equal(copied[0].weight, network[0].weight)
