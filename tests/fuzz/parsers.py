"""Every reader of files that may be anybody's, with valid files to begin from."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import pickle
import random
import shutil
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from fuzz.mutate import VALUES, mutated, spoilt, spoilt_json, spoilt_toml

ROOT = Path(__file__).parents[2]
BEFORE = ROOT / "tests" / "before"
Spoil = Callable[[bytes, random.Random], bytes]
CONFIG = b"""method = "snv"
device = "cpu"
threads = 1
[data]
name = "digits"
tasks = 5
classes = 4
order = [1, 2, 3, 0]
size = 8
[network]
width = 8
[train]
epochs = 2
lr = 0.01
batch_size = 8
[learner]
capacity = 0.1
"""
STUDY = b"""title = "x"
seeds = [0, 1]
[groups.first]
streams = ["quick.toml"]
methods = ["sgd", "ewc"]
scenarios = ["til"]
tasks = [2, 5]
[groups.first.grid]
train.lr = [0.1, 0.2]
[groups.first.variants.a]
train.epochs = 3
"""


@dataclass(frozen=True)
class Parser:
    """What reads a file of that name; ``seeds`` are valid contents, which ``spoil`` makes invalid."""

    name: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], object]
    spoil: Spoil = mutated
    cases: int = 100  # of the run that is part of the tests


# ---- records


def _records() -> list[bytes]:
    small = sorted((ROOT / "results" / "small-digits").glob("*.json")) or sorted((ROOT / "results").glob("**/*.json"))
    some = [path for path in small if path.stat().st_size < 20_000][:2]
    details = [p for p in sorted((ROOT / "results").glob("**/*.json")) if b'"details"' in p.read_bytes()]
    return [path.read_bytes() for path in some + sorted(details, key=lambda p: p.stat().st_size)[:1]]


def _show_record(path: Path) -> None:
    """All that is ever printed of a record: tables of every format, the page, the terminal."""
    from snv.cli.output import say_classes, say_confusion, say_matrix, say_metrics
    from snv.cli.show import cost_lines, kept_lines, valuation_lines
    from snv.report.assembly import page
    from snv.report.formats import FORMATS
    from snv.report.named import runs
    from snv.report.runs_page import runs_page
    from snv.runs import read_results

    results = read_results([path])
    page(runs_page(results))
    for write in FORMATS.values():
        write(runs(results), Path())
    record = results[0].record
    with contextlib.redirect_stdout(io.StringIO()):
        say_matrix(record) if record.tasks_done else None
        say_metrics([record])
        if record.details is not None:
            say_classes(record)
            say_confusion(record)
    kept_lines(record), valuation_lines(record), cost_lines(record.cost)


def _run_file(name: str) -> Callable[[], list[bytes]]:
    return lambda: [(BEFORE / run / name).read_bytes() for run in ("run-cil", "run-til")]


def _read_run(name: str) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        from snv.runs import open_run, read_results
        from snv.runs.directory import load_log

        run = path.parent / "run"
        shutil.rmtree(run, ignore_errors=True)
        run.mkdir()
        for file in (BEFORE / "run-cil").iterdir():
            if file.is_file():
                (run / file.name).write_bytes(file.read_bytes())
        shutil.copyfile(path, run / name)
        results = read_results([run])
        results[0].environment(), results[0].neurons()
        if name == "log.jsonl":
            load_log(run)
        if name == "environment.json":
            open_run(run, None, lambda *_: None)
        return results

    return read


# ---- settings


def _configs() -> list[bytes]:
    return [
        (ROOT / "configs" / "quick.toml").read_bytes(),
        CONFIG,
    ]


def _read_config(path: Path) -> object:
    from snv.config import load_config

    return load_config(path).as_dict()


def _studies() -> list[bytes]:
    return [STUDY]


def _read_study(path: Path) -> object:
    from snv.study import expand, load_study

    for config in (ROOT / "configs").glob("*.toml"):
        if not (path.parent / config.name).exists():
            shutil.copyfile(config, path.parent / config.name)
    plan = expand(load_study(path))
    out = (path.parent / "out").resolve()
    for job in plan.jobs:
        assert (out / f"{job.place}.json").resolve().is_relative_to(out), f"{job.place} leads out of the folder"
    return plan


# ---- arrays and states


def _npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def _images_npz() -> list[bytes]:
    images = np.zeros((6, 4, 4, 3), np.uint8)
    return [_npz(images=images, labels=np.arange(6) % 2), _npz(images=images / 1.0, labels=np.array(["a", "b"] * 3))]


def _read_npz(path: Path) -> object:
    from snv.data import load_source

    return load_source(f"npz:{path}")


def _tables() -> list[bytes]:
    return [
        _npz(
            layers=np.array(["a", "b"]),
            sizes=np.array([2, 3]),
            values=np.ones((2, 5), np.float32),
            masks=np.ones((2, 5), bool),
        )
    ]


def _read_table(path: Path) -> object:
    from snv.neurons import NeuronTable
    from snv.report.packed import packed

    return packed(NeuronTable.load(path))


def _saved(state: Any) -> bytes:
    import tempfile

    from snv.files import save_state

    with tempfile.TemporaryDirectory() as folder:
        save_state(Path(folder) / "x.safetensors", state)
        return (Path(folder) / "x.safetensors").read_bytes()


def _states() -> list[bytes]:
    return [_saved({"a": [torch.ones(2, 3), {"b": None, 3: "x"}], "c": torch.zeros(0), "d": 1.5})]


def _read_state(path: Path) -> object:
    from snv.files import load_state

    return load_state(path)


def _spoil_state(data: bytes, rng: random.Random) -> bytes:
    """The same file with another tree in its header, with other tensors, or with other bytes."""
    from safetensors.torch import load, save

    if rng.random() < 0.3:
        return mutated(data, rng)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    tensors, tree = load(data), json.loads(header["__metadata__"]["state"])
    for name in rng.sample(sorted(tensors), min(len(tensors), rng.randrange(3))):
        tensors[name] = rng.choice(_other_tensors(tensors[name]))
    if rng.random() < 0.6:
        tree = spoilt(tree, rng)
    return save(tensors, metadata={"state": json.dumps(tree)})


def _other_tensors(x: torch.Tensor) -> list[torch.Tensor]:
    flat = x.flatten()
    return [
        flat[: len(flat) // 2].clone(),
        x[None].clone(),
        x.to(torch.int8),
        x.to(torch.bool),
        x.to(torch.bfloat16),
        torch.full_like(x, 1) * float("nan") if x.is_floating_point() else x + 1 if x.dtype != torch.bool else ~x,
        torch.zeros(0),
    ]


@cache
def _valuation() -> bytes:
    from snv.shapley import Valuation

    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    made = Valuation(
        "montecarlo",
        0,
        x,
        x,
        torch.ones(3, dtype=torch.int64),
        1,
        1.0,
        0.0,
        10.0,
        {"all": 1.0},
        "enough",
        halves=torch.stack([x, x]),
        names=("a", "b", "c"),
        layers=("l", "l", "m"),
    )
    return _saved({name: getattr(made, name) for name in made.__dataclass_fields__})


def _read_valuation(path: Path) -> object:
    from snv.shapley import Valuation

    found = Valuation.load(path)
    found.top_k(), found.interval(), found.account, found.split_half_overlap
    return found


# ---- data sets


def _pickled(**content: Any) -> bytes:
    return pickle.dumps({key.encode(): value for key, value in content.items()}, protocol=3)


def _cifar_files() -> dict[str, bytes]:
    parts = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    files = {p: _pickled(data=np.zeros((2, 3072), np.uint8), labels=[0, 1], batch_label=b"x") for p in parts}
    return files | {"batches.meta": _pickled(label_names=[b"cat", b"dog"], num_vis=3072)}


def _pickles() -> list[bytes]:
    other = pickle.dumps(
        {b"data": np.arange(12, dtype=np.int64).reshape(3, 4), "x": [(1, 2.5, None, True, 10**30), "é"]}, protocol=4
    )
    return [_cifar_files()["test_batch"], _cifar_files()["batches.meta"], other]


def _read_pickle(path: Path) -> object:
    from snv.data.plain_pickle import NotPlainError, read_plain
    from snv.errors import UserError

    try:
        return read_plain(path.read_bytes())
    except NotPlainError as error:
        raise UserError(f"It is damaged: {error}.") from None


def _spoil_pickle(data: bytes, rng: random.Random) -> bytes:
    """Often near its beginning, where the opcodes are."""
    return mutated(data[:300], rng) + data[300:] if rng.random() < 0.7 else mutated(data, rng)


def _tars() -> list[bytes]:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in _cifar_files().items():
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return [gzip.compress(out.getvalue(), 1)]


def _spoil_tar(data: bytes, rng: random.Random) -> bytes:
    packed = gzip.compress(mutated(gzip.decompress(data), rng), 1)
    return packed if rng.random() < 0.8 else mutated(packed, rng)


def _read_cifar(path: Path) -> object:
    from snv.data import load_source

    return load_source("cifar10", data_dir=path.parent, download=False)


def _idx() -> list[bytes]:
    return [bytes((0, 0, 8, 3)) + b"\0\0\0\2\0\0\0\4\0\0\0\4" + bytes(32), bytes((0, 0, 8, 1)) + b"\0\0\0\3" + bytes(3)]


def _read_idx(path: Path) -> object:
    from snv.data.mnist import read_idx

    return read_idx(path, 3 if path.read_bytes()[3:4] == b"\3" else 1)


def _spoil_idx(data: bytes, rng: random.Random) -> bytes:
    return mutated(data[:16], rng) + data[16:]


def _zips() -> list[bytes]:
    picture, out = _pictures()["JPEG"], io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for c in ("n01", "n02"):
            for i in range(2):
                archive.writestr(f"tiny/train/{c}/images/{c}_{i}.JPEG", picture)
        archive.writestr("tiny/val/images/v.JPEG", picture)
        archive.writestr("tiny/val/val_annotations.txt", "v.JPEG\tn01\t0\t0\t1\t1\n")
        archive.writestr("tiny/words.txt", "n01\tcat, puss\nn02\tdog\n")
    return [out.getvalue()]


def _spoil_zip(data: bytes, rng: random.Random) -> bytes:
    """Often its directory, which is at the end."""
    return data[:-700] + mutated(data[-700:], rng) if rng.random() < 0.6 else mutated(data, rng)


def _read_zip(path: Path) -> object:
    from snv.data import load_source

    return load_source("tiny-imagenet", data_dir=path.parent, size=8, download=False)


# ---- pictures, networks


@cache
def _pictures() -> dict[str, bytes]:
    rng, made = np.random.default_rng(0), {}
    image = Image.fromarray(rng.integers(0, 255, (12, 9, 3), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6
    options: dict[str, dict[str, Any]] = {
        "PNG": {},
        "JPEG": {"exif": exif, "progressive": True},
        "GIF": {},
        "BMP": {},
        "WEBP": {},
        "TIFF": {"compression": "tiff_lzw"},
        "PPM": {},
        "AVIF": {},
    }
    for kind, how in options.items():
        out = io.BytesIO()
        with contextlib.suppress(OSError, KeyError, ValueError):
            image.save(out, kind, **how)
            made[kind] = out.getvalue()
    return made


def _read_picture(path: Path) -> object:
    from snv.data import decode

    return decode(path, path, 8)


@cache
def _onnx() -> tuple[bytes, ...]:
    from onnx import TensorProto, helper

    rng = np.random.default_rng(0)
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 3, 3, 3], rng.standard_normal(108).astype("f4"))
    taken = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 3, 12, 12])
    given = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", 4, 1, 1])
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["c"], ["y"]),
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [taken], [given], [weights]), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 8
    return (model.SerializeToString(),)


def _read_onnx(path: Path) -> object:
    from snv.networks import read_pretrained

    return read_pretrained(path)


# ---- models


@cache
def _model() -> Path:
    return BEFORE / "digits.snv"


def _manifests() -> list[bytes]:
    return [(_model() / "model.json").read_bytes()]


def _spoil_manifest(data: bytes, rng: random.Random) -> bytes:
    """Signed anew, as somebody would who means it; or with other bytes."""
    from snv.model.manifest import _with_checksum

    if rng.random() < 0.2:
        return mutated(data, rng)
    fields = json.loads(data)
    del fields["checksum"]
    part = rng.choice(("content", "content", "files"))
    fields[part] = spoilt(fields[part], rng)
    if rng.random() < 0.1:
        fields["format"] = rng.choice(VALUES)
    try:
        return _with_checksum(fields)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return json.dumps(fields).encode("utf-8", "replace")


def _copied(path: Path) -> Path:
    model = path.parent / "model.snv"
    if not model.exists():
        shutil.copytree(_model(), model)
    return model


def _read_manifest(path: Path) -> object:
    from snv import Model

    model = _copied(path)
    shutil.copyfile(path, model / "model.json")
    return _ask(Model.open(model), model)


def _ask(model: Any, path: Path) -> object:
    """Everything that is ever asked of a model that opens."""
    from snv.report.assembly import page
    from snv.report.model_page import model_page

    model.status(), model.audit(), model.plan()
    page(model_page(path))
    channels, size, _ = model.knowledge.preprocess.shape
    return model.predict(np.zeros((2, size, size, channels), np.uint8)) if model.tasks else None


def _model_states() -> list[bytes]:
    return [path.read_bytes() for path in sorted(_model().glob("*.safetensors"))[:2]]


def _read_model_state(path: Path) -> object:
    """A state in place of the one it was made of, and a manifest that vouches for it."""
    from snv import Model
    from snv.model.manifest import _with_checksum, digest

    data, model = path.read_bytes(), path.parent / "signed.snv"
    shutil.rmtree(model, ignore_errors=True)
    shutil.copytree(_model(), model)
    fields = json.loads((model / "model.json").read_bytes())
    del fields["checksum"]
    name = min(fields["files"], key=lambda name: (b'"head' in data[:5000]) != name.startswith("task"))
    entry = fields["files"][name]
    (model / entry["file"]).unlink()
    entry |= {"file": f"x-{digest(data)[:16]}.safetensors", "bytes": len(data), "blake2b": digest(data)}
    (model / entry["file"]).write_bytes(data)
    (model / "model.json").write_bytes(_with_checksum(fields))
    return _ask(Model.open(model), model)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Warnings of readers about files are no errors here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _json(name: str) -> Parser:
    return Parser(name, _run_file(name), _read_run(name), spoilt_json, 30)


PARSERS = {
    "record": Parser("record.json", _records, _show_record, spoilt_json, 10),
    "run config": _json("config.json"),
    "run record": _json("record.json"),
    "run costs": _json("costs.json"),
    "run environment": _json("environment.json"),
    "run log": Parser("log.jsonl", _run_file("log.jsonl"), _read_run("log.jsonl")),
    "config": Parser("config.toml", _configs, _read_config, spoilt_toml, 150),
    "study": Parser("study.toml", _studies, _read_study, spoilt_toml, 60),
    "images.npz": Parser("images.npz", _images_npz, _read_npz),
    "neurons.npz": Parser("neurons.npz", _tables, _read_table),
    "state": Parser("x.safetensors", _states, _read_state, _spoil_state, 200),
    "values": Parser("values.safetensors", lambda: [_valuation()], _read_valuation, _spoil_state),
    "pickle": Parser("test_batch", _pickles, _read_pickle, _spoil_pickle, 500),
    "cifar": Parser("cifar-10-python.tar.gz", _tars, _read_cifar, _spoil_tar, 30),
    "idx": Parser("images-idx", _idx, _read_idx, _spoil_idx, 300),
    "zip": Parser("tiny-imagenet-200.zip", _zips, _read_zip, _spoil_zip, 30),
    "picture": Parser("picture", lambda: list(_pictures().values()), _read_picture, cases=300),
    "onnx": Parser("net.onnx", lambda: list(_onnx()), _read_onnx, cases=100),
    "manifest": Parser("model.json", _manifests, _read_manifest, _spoil_manifest, 12),
    "model state": Parser("state.safetensors", _model_states, _read_model_state, _spoil_state, 8),
}
