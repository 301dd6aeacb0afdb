"""A model with a pretrained network from a file does all that a model does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from drawn import BIRDS, FISH, contents, small_model
from onnx_files import write_onnx
from snv import Model, SNVClassifier, UserError
from snv.model.store import Store
from snv.networks import read_pretrained
from taught import QUERIES, QUICK, all_unchanged, answers, images_and_labels, same


@pytest.fixture
def file(tmp_path) -> Path:
    return write_onnx(tmp_path / "net.onnx", size=24)


@pytest.fixture
def model(file, pictures, tmp_path) -> Model:
    model = small_model(tmp_path / "pets.snv", features=file)
    for name in ("birds", "fish"):
        model.learn(pictures / name, epochs=QUICK)
    return model


def test_saved_and_opened_it_answers_the_same_without_the_file(model, file):
    file.unlink()
    again = Model.open(model.path)
    assert same(again.knowledge.states(), model.knowledge.states())
    for task in (None, "birds", "fish"):
        assert answers(again, task) == answers(model, task)
    assert all_unchanged(again)


def proved(model: Model) -> bool:
    """Of any task, as far as it can be computed at all."""
    try:
        return any(verdict.known for verdict in model.verify())
    except UserError:
        return False


def test_the_proof_includes_the_file_and_how_pictures_are_prepared_for_it(model):
    space = model.specialists.common.space
    for name in ("file", "side", "factor", "shift", "scale"):
        kept = getattr(space, name).clone()
        changed = kept.view(-1)
        changed[-1] += 1
        space.register_buffer(name, changed.view(kept.shape))
        assert not proved(model), name
        changed[-1] -= 1
        space.register_buffer(name, kept)
    assert all_unchanged(model)


def test_forgetting_leaves_the_other_task_as_it_was(model):
    before = answers(model, "birds")
    model.forget("fish")
    assert answers(Model.open(model.path), "birds") == before
    assert {name for best in answers(model, None) for _, name, _ in best} == set(BIRDS)


def test_a_picture_is_read_as_finely_as_the_file_sees_it_and_shrunk_for_the_network(model):
    assert model.knowledge.spec["detail"] == 2
    assert model.knowledge.preprocess.shape == (3, 32, 32)
    assert model.specialists.shape == (3, 16, 16)


def test_export_holds_everything_and_torch_programs_are_refused(model, tmp_path):
    exported = model.export("fish", tmp_path / "fish.onnx")
    assert exported.shape == (3, 32, 32) and (tmp_path / "fish.onnx").exists()
    with pytest.raises(UserError, match=r"exported to onnx\. Leave out the format"):
        model.export("fish", tmp_path / "fish.pt2", "torch-export")


def test_audit_says_what_the_file_is(model):
    (role,) = [tensor.role for tensor in model.audit() if tensor.tensor == "space.file"]
    assert role == "the pretrained network, as it was given"


def test_a_size_in_the_spec_that_is_not_the_files_changes_nothing(model):
    store, before = Store(model.path), answers(model, None)
    stored = store.read()
    stored.content["spec"]["features"]["size"] = 30
    with store.writing():
        store.write(stored.content, stored.states)
    assert answers(Model.open(model.path), None) == before


def test_the_classifier_takes_a_file(file):
    images, labels = images_and_labels(FISH, 12)
    for features in (str(file), read_pretrained(file)):
        classifier = SNVClassifier(width=8, epochs=1, features=features)
        assert classifier.get_params()["features"] is features
        classifier.fit(images, labels)
        assert classifier.predict_proba(images).shape == (36, 3)
        assert np.isfinite(classifier.predict_proba(images)).all()


def test_grey_pictures_can_have_a_file(file):
    model = small_model(features=file, channels=1)
    pixels = torch.randint(256, (20, 1, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    pixels[10:] //= 4
    model.learn((pixels, torch.arange(20) // 10), "light", epochs=1)
    assert model.probabilities(pixels).shape == (20, 2)


# ---- on the command line


def test_learn_takes_a_file_with_size_mean_and_deviation(cli, pictures, tmp_path):
    free = write_onnx(tmp_path / "free.onnx", size=None)
    ways = ["--features-size", 20, "--features-mean", 0.5, 0.5, 0.5, "--features-std", 0.5, 0.5, 0.5]
    small = ["--size", 16, "--width", 4, "--epochs", 1]
    told = cli("learn", pictures / "birds", "--model", tmp_path / "a.snv", "--features", free, *ways, *small)
    assert told.code == 0, told.err
    assert "5 features of pictures of 20 × 20 pixels" in told.out
    kept = Model.open(tmp_path / "a.snv").knowledge.spec["features"]
    assert kept == {"size": 20, "mean": [0.5] * 3, "std": [0.5] * 3, "n_features": 5}
    assert cli("verify", "--model", tmp_path / "a.snv").code == 0
    told = cli("predict", pictures / "birds", "--model", tmp_path / "a.snv", "--json")
    assert {json.loads(line)["best"][0]["class"] for line in told.out.splitlines()} <= set(BIRDS)


def test_mistakes_get_one_sentence_and_make_nothing(cli, file, pictures, tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"not a network")
    target = tmp_path / "a.snv"
    for arguments, told in [
        (["--features", tmp_path / "bad.onnx"], "is not an ONNX file that can be run"),
        (["--features", tmp_path / "none.onnx"], "cannot be read"),
        (["--features", file, "--features-size", 32], "takes images of 24 × 24 pixels, not 32"),
        (["--features-size", 32], "--features-size belongs to a features file. Give that too"),
    ]:
        said = cli("learn", pictures / "birds", "--model", target, *arguments)
        assert said.code == 2 and told in said.err.replace("\n", " "), said.err
        assert not target.exists()


def test_an_existing_model_keeps_its_features(cli, model, file, pictures):
    before = contents(model.path)
    said = cli("learn", pictures / "trees", "--model", model.path, "--features", file)
    assert said.code == 2 and "--features is chosen when a model is made" in said.err.replace("\n", " ")
    assert contents(model.path) == before


def test_pictures_in_memory_are_answered(model):
    assert len(answers(model, None)) == len(QUERIES)
