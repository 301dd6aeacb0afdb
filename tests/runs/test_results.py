from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from snv.config import load_config
from snv.errors import UserError
from snv.files import load_state, read_json
from snv.runs import NeuronTable, Record, keep_result, read_results, run


def a_record(seed: int) -> Record:
    config = {"method": "sgd", "scenario": "cil", "seed": seed, "data": {"name": "digits"}}
    record = Record.blank(config, 2)
    record.accuracy[:] = [[90, 0], [10.5, 80]]
    record.known[:] = [[95, np.nan], [70, 85]]
    record.tasks_done, record.status, record.cost = 2, "finished", {"seconds": {"train": 1.5}}
    return record


def test_a_record_kept_as_a_file_is_the_record(tmp_path):
    before = a_record(3)
    (tmp_path / "sgd-seed3.json").write_text(json.dumps(before.as_json()))
    (result,) = read_results([tmp_path / "sgd-seed3.json"])
    assert result.record.as_json() == before.as_json()
    assert (result.method, result.scenario, result.seed) == ("sgd", "cil", 3)


def test_a_folder_gives_its_records_in_order_and_nothing_else(tmp_path):
    for seed in (2, 1):
        (tmp_path / f"seed{seed}.json").write_text(json.dumps(a_record(seed).as_json()))
    (tmp_path / "other.json").write_text("[1, 2]")
    (tmp_path / "broken.json").write_text("{")
    assert [result.seed for result in read_results([tmp_path])] == [1, 2]


def test_what_is_no_record_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "other.json").write_text("[1, 2]")
    with pytest.raises(UserError, match="no record in"):
        read_results([tmp_path])
    with pytest.raises(UserError, match="is not the record of a run"):
        read_results([tmp_path / "other.json"])


QUICK = ["data.tasks=2", "data.classes=4", "train.epochs=2", "network.name=mlp", "network.hidden=[12]", "threads=1"]


@pytest.mark.parametrize("method", ["snv", "snv-paper"])
def test_a_run_keeps_what_its_neurons_were_worth_and_whose_they_are(method, tmp_path):
    settings = ["learner.capacity=0.5", *(["learner.permutations=2", "learner.burn_in=2"] if "-" in method else [])]
    run(load_config(None, [*QUICK, f"method={method}", *settings]), tmp_path / "run")
    table = read_results([tmp_path / "run"])[0].neurons()
    learner = load_state(tmp_path / "run" / "checkpoints" / "task-002.safetensors")["learner"]
    masks = learner["masks"] if "masks" in learner else [found["mask"] for found in learner["subnetworks"]]
    np.testing.assert_array_equal(table.masks, np.stack(masks))
    np.testing.assert_array_equal(table.values, np.stack(learner["values"]).astype(np.float32))
    assert sum(table.sizes) == 12 and table.masks.any(1).all()


def test_a_table_of_neurons_beside_a_kept_record_is_its_own(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(a_record(1).as_json()))
    (tmp_path / "b.json").write_text(json.dumps(a_record(2).as_json()))
    table = NeuronTable(("fc",), (3,), np.ones((2, 3), np.float32), np.eye(2, 3, dtype=bool))
    table.save(tmp_path / "b.npz")
    first, second = read_results([tmp_path])
    assert first.neurons() is None
    np.testing.assert_array_equal(second.neurons().masks, table.masks)


def test_a_method_that_values_no_neurons_keeps_no_table(tmp_path):
    run(load_config(None, [*QUICK, "method=sgd"]), tmp_path)
    assert read_results([tmp_path])[0].neurons() is None


def test_a_run_of_before_tables_gets_one_when_it_goes_on(tmp_path):
    config = load_config(None, [*QUICK, "method=snv"])
    run(config, tmp_path / "run")
    expected = (tmp_path / "run" / "neurons.npz").read_bytes()
    before = tmp_path / "before"
    shutil.copytree(tmp_path / "run", before)
    (before / "neurons.npz").unlink()
    stored = read_json(before / "record.json")
    (before / "record.json").write_text(json.dumps(stored | {"status": "unfinished"}))
    run(config, before)
    assert (before / "neurons.npz").read_bytes() == expected


def test_the_environment_of_a_run_is_read_where_it_was_kept(tmp_path):
    before = a_record(3)
    (tmp_path / "sgd-seed3.json").write_text(json.dumps(before.as_json()))
    (kept,) = read_results([tmp_path / "sgd-seed3.json"])
    assert kept.environment() is None
    run(load_config(None, ["data.tasks=2", "train.epochs=1", "data.per_class=20"]), tmp_path / "run")
    (made,) = read_results([tmp_path / "run"])
    assert made.environment()["cores"] >= 1


def test_a_run_is_kept_as_a_file_with_its_neurons_beside_it(tmp_path):
    run(load_config(None, [*QUICK, "method=snv"]), tmp_path / "run")
    keep_result(tmp_path / "run", tmp_path / "kept" / "snv-seed0.json")
    directory, file = read_results([tmp_path / "run", tmp_path / "kept"])
    assert file.record.as_json() == directory.record.as_json()
    np.testing.assert_array_equal(file.neurons().values, directory.neurons().values)
    with pytest.raises(UserError, match=r"is kept as a JSON file; got .*snv\.txt"):
        keep_result(tmp_path / "run", tmp_path / "snv.txt")
