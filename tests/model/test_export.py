"""A subnetwork in a file answers like the module it was made from, for batches of any size."""

from __future__ import annotations

import contextlib
import json
import pickle
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from test_cutting import CASES, cut

from drawn import FISH, pairs, small_model
from hostile import Touch
from snv.errors import UserError
from snv.model.export import check_export, export_checked, export_onnx, export_program

EXPORTERS = {".onnx": export_onnx, ".pt2": export_program}


@pytest.fixture(scope="module", params=["convnet", "resnet"])
def exported(request, tmp_path_factory):
    """A small network and its two files."""
    *_, small, _ = cut(request.param)
    shape = CASES[request.param][1]
    directory = tmp_path_factory.mktemp("exported")
    for suffix, export in EXPORTERS.items():
        export(small, shape, directory / f"small{suffix}")
    return small, shape, directory


@pytest.mark.parametrize("suffix", EXPORTERS)
@pytest.mark.parametrize("batch", [1, 7, 100])
def test_the_file_answers_like_the_module(exported, suffix, batch):
    small, shape, directory = exported
    images = torch.randn(batch, *shape, generator=torch.Generator().manual_seed(batch))
    file = directory / f"small{suffix}"
    if suffix == ".onnx":
        assert check_export(file, small, images) < 1e-4
    else:  # our own file, which the product never loads
        assert (torch.export.load(file).module()(images) - small(images)).abs().max() < 1e-4


def test_a_file_of_another_network_is_told_apart(exported):
    _, shape, directory = exported
    other = cut("resnet" if shape[0] == 3 else "convnet", seed=1)[4]
    assert check_export(directory / "small.onnx", other, torch.randn(5, *shape)) > 1e-2


def test_a_program_is_never_loaded_whatever_is_in_it(exported, tmp_path, monkeypatch):
    """PyTorch unpickles weights that the file says are pickled, and evaluates sizes as Python."""
    small, shape, directory = exported
    with zipfile.ZipFile(directory / "small.pt2") as good:
        files = {name: good.read(name) for name in good.namelist()}
    listed = next(name for name in files if name.endswith("model_weights_config.json"))
    config = json.loads(files[listed])
    first = next(iter(config["config"].values()))
    first["use_pickle"] = True
    files[listed] = json.dumps(config).encode()
    files[f"{listed.rpartition('/')[0]}/{first['path_name']}"] = pickle.dumps(Touch(tmp_path / "touched"))
    with zipfile.ZipFile(tmp_path / "evil.pt2", "w") as evil:
        for name, data in files.items():
            evil.writestr(name, data)
    with pytest.raises(UserError, match=r"evil\.pt2 is a program of PyTorch, .* can run anything"):
        check_export(tmp_path / "evil.pt2", small, torch.zeros(1, *shape))
    assert not (tmp_path / "touched").exists()
    with contextlib.suppress(Exception):
        torch.export.load(tmp_path / "evil.pt2")
    assert (tmp_path / "touched").exists(), "the attack is one: whoever loads the file runs it"


@pytest.mark.parametrize("suffix", EXPORTERS)
def test_the_file_says_nothing_about_the_computer_it_was_made_on(exported, suffix):
    _, _, directory = exported
    assert b"compact.py" not in (directory / f"small{suffix}").read_bytes()


@pytest.mark.parametrize("export", EXPORTERS.values(), ids=EXPORTERS)
def test_exporting_changes_nothing_about_the_module(export, tmp_path):
    *_, small, _ = cut("convnet")
    small.train()
    weight = next(p for p in small.parameters() if p.ndim == 4)
    before = {name: tensor.clone() for name, tensor in small.state_dict().items()}, weight.stride()
    export(small, CASES["convnet"][1], tmp_path / f"small{'.onnx' if export is export_onnx else '.pt2'}")
    assert small.training
    assert weight.stride() == before[1]
    assert all(torch.equal(tensor, before[0][name]) for name, tensor in small.state_dict().items())


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_without_the_extra_the_error_says_how_to_install_it(exported, package, tmp_path, monkeypatch):
    small, shape, directory = exported
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"package {package}, .*pip install 'snv\[export\]'"):
        if package == "onnx":
            export_onnx(small, shape, tmp_path / "small.onnx")
        else:
            check_export(directory / "small.onnx", small, torch.zeros(1, *shape))
    assert not list(tmp_path.iterdir())


def test_a_wrong_name_and_a_missing_file_are_refused(exported, tmp_path):
    small, shape, _ = exported
    with pytest.raises(UserError, match=r"ends in \.onnx; got small\.pb\. Call it small\.onnx"):
        export_onnx(small, shape, tmp_path / "small.pb")
    with pytest.raises(UserError, match=r"no exported file"):
        check_export(tmp_path / "small.onnx", small, torch.zeros(1, *shape))
    (tmp_path / "small.pb").write_bytes(b"")
    with pytest.raises(UserError, match=r"ends in \.onnx; got small\.pb"):
        check_export(tmp_path / "small.pb", small, torch.zeros(1, *shape))


@pytest.mark.parametrize(("kind", "suffix"), [("onnx", ".onnx"), ("torch-export", ".pt2")])
def test_a_model_exports_a_task_in_one_line_and_has_checked_it(kind, suffix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = small_model()
    model.learn(pairs(FISH), epochs=1)
    exported = model.export("task1", format=kind)
    assert (exported.file, exported.classes, exported.shape) == (Path(f"task1{suffix}"), FISH, (3, 16, 16))
    assert exported.bytes == exported.file.stat().st_size
    pictures = torch.rand(100, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    whole = model.deployable("task1", fold=False)
    if kind == "onnx":
        assert exported.max_abs_error == check_export(exported.file, whole, pictures)
    else:
        with torch.no_grad():
            loaded = torch.export.load(exported.file).module()(pictures)
            assert exported.max_abs_error == (loaded - whole(pictures)).abs().max()
    with pytest.raises(UserError, match="onnx or torch-export; got 'pdf'"):
        model.export("task1", format="pdf")
    with pytest.raises(UserError, match="no task called 'task2'"):
        model.export("task2", format=kind)


def test_a_file_that_answers_differently_from_the_model_is_refused(tmp_path):
    (*_, small, _), (*_, other, _) = cut("convnet"), cut("convnet", seed=1)
    with pytest.raises(UserError, match=r"differently from the model, more than 1e-04\. Do not use it"):
        export_checked(small, other, CASES["convnet"][1], tmp_path / "small.pt2", "torch-export")
