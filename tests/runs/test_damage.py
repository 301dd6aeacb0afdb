"""What was cut short or has a flipped bit is found by its checksum; a run goes on from the checkpoint before."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from snv.config import load_config
from snv.errors import UserError
from snv.files import load_state, read_json, write_sealed
from snv.neurons import NeuronTable
from snv.runs import load_record, read_results
from snv.runs.results import keep_result
from snv.runs.run import run
from snv.shapley import Valuation

SETTINGS = ["method=snv", "data.tasks=3", "data.classes=6", "train.epochs=2", "network.name=mlp", "network.hidden=[16]"]
SETTINGS += ["threads=1", 'learner.common="none"']


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A finished run."""
    out = tmp_path_factory.mktemp("whole") / "run"
    run(load_config(None, SETTINGS), out)
    return out


def bits(out: Path) -> dict[str, bytes]:
    files = [*(out / "checkpoints").glob("*"), out / "record.json", out / "log.jsonl", out / "neurons.npz"]
    return {file.name: file.read_bytes() for file in files}


def flipped(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << (place % 8)
    path.write_bytes(data)


def cut(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])


def places(path: Path, n: int) -> list[int]:
    """The first byte, the last, and some between them, drawn at random."""
    size, rng = path.stat().st_size, random.Random(path.name)
    return [0, size - 1, *(rng.randrange(size) for _ in range(n))]


@pytest.mark.parametrize("harm", [flipped, cut], ids=["a flipped bit", "cut short"])
def test_damage_anywhere_in_a_checkpoint_is_found(harm, whole, tmp_path):
    checkpoint = whole / "checkpoints" / "task-002.safetensors"
    for place in places(checkpoint, 60):
        shutil.copy(checkpoint, tmp_path / "a.safetensors")
        harm(tmp_path / "a.safetensors", place)
        with pytest.raises(UserError, match=r"a\.safetensors is damaged"):
            load_state(tmp_path / "a.safetensors")


def unfinished(whole: Path, out: Path) -> Path:
    """The run as it was when its last task was learned but not noted."""
    shutil.copytree(whole, out)
    stored = read_json(out / "record.json") | {"status": "unfinished"}
    write_sealed(out / "record.json", stored)
    return out


@pytest.mark.parametrize("harm", [flipped, cut], ids=["a flipped bit", "cut short"])
@pytest.mark.parametrize("newest", [1, 2], ids=["the newest", "the two newest"])
def test_a_run_goes_on_from_the_newest_checkpoint_that_is_whole(harm, newest, whole, tmp_path, caplog):
    out = unfinished(whole, tmp_path / "run")
    for path in sorted((out / "checkpoints").glob("task-*"))[-newest:]:
        harm(path, path.stat().st_size // 2)
    run(load_config(None, SETTINGS), out)
    assert bits(out) == bits(whole)
    assert caplog.text.count("The run goes on from an earlier checkpoint") == newest


def test_damage_within_a_task_costs_what_was_done_since_the_last_one(whole, tmp_path, caplog):
    out = tmp_path / "run"
    run(load_config(None, [*SETTINGS, "checkpoint_seconds=0"]), out, pause_after=5)
    now = out / "checkpoints" / "now.safetensors"
    flipped(now, now.stat().st_size - 9)
    run(load_config(None, SETTINGS), out)
    assert bits(out) == bits(whole)
    assert "now.safetensors is damaged" in caplog.text


def test_where_no_checkpoint_is_whole_nothing_is_begun_anew_unasked(whole, tmp_path):
    out = unfinished(whole, tmp_path / "run")
    for path in (out / "checkpoints").glob("task-*"):
        cut(path, 1000)
    with pytest.raises(UserError, match=r"task-003\.safetensors is damaged .* or remove it"):
        run(load_config(None, SETTINGS), out)


@pytest.mark.parametrize("name", ["record.json", "config.json", "costs.json", "environment.json"])
def test_a_changed_digit_in_what_people_read_is_found(name, whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    path = tmp_path / "run" / name
    text = path.read_text()
    start, end = text.index("{"), text.index('"checksum"')
    place = next(i for i in range(start, end) if text[i].isdigit())
    path.write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])
    with pytest.raises(UserError, match=rf"{name} was edited or damaged: its checksum"):
        load_record(tmp_path / "run") if name != "environment.json" else run(load_config(None, ["seed=1"]), path.parent)


def test_damage_anywhere_in_a_kept_record_or_a_table_of_neurons_is_found_or_changes_nothing(whole, tmp_path):
    keep_result(whole, tmp_path / "kept.json")
    stored = read_results([tmp_path / "kept.json"])[0].record.as_json()
    table = NeuronTable.load(tmp_path / "kept.npz")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    found = 0
    for name in ("kept.json", "kept.npz"):
        for place in places(tmp_path / name, 40):
            shutil.copy(tmp_path / name, damaged / name)
            flipped(damaged / name, place)
            try:
                if name == "kept.json":
                    assert read_results([damaged / name])[0].record.as_json() == stored
                else:
                    again = NeuronTable.load(damaged / name)
                    assert again.values.tobytes() == table.values.tobytes()
                    assert again.masks.tobytes() == table.masks.tobytes()
            except UserError:
                found += 1
    assert found > 70, "the others were in blanks, or in what a zip says of its members twice"


@pytest.mark.parametrize("harm", [flipped, cut], ids=["a flipped bit", "cut short"])
def test_damage_anywhere_in_a_file_of_values_is_found(harm, whole, tmp_path):
    from snv.runs.value import value_run

    value_run(whole, 1, draws=2).save(tmp_path / "values.safetensors")
    for place in places(tmp_path / "values.safetensors", 30):
        shutil.copy(tmp_path / "values.safetensors", tmp_path / "a.safetensors")
        harm(tmp_path / "a.safetensors", place)
        with pytest.raises(UserError, match=r"a\.safetensors is damaged"):
            Valuation.load(tmp_path / "a.safetensors")
