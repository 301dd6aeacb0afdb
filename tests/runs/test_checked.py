"""Records with parts of the wrong kind or size are refused in a sentence."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from snv.errors import UserError
from snv.runs import read_results
from snv.runs.checked import fitting, require_environment

RESULTS = Path(__file__).parents[2] / "results"
FILE = RESULTS / "small-cifar" / "snv-cil-seed0.json"
RECORD: dict[str, Any] = json.loads(FILE.read_text())


def read(record: Any, folder: Path) -> object:
    (folder / "record.json").write_text(json.dumps(record))
    return read_results([folder / "record.json"])


def test_every_record_that_is_kept_is_read():
    assert len(read_results([RESULTS])) > 100


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("accuracy",), [[1.0]]),
        (("accuracy", 0, 0), 101),
        (("accuracy", 0, 0), float("nan")),
        (("accuracy", 0, 0), "90"),
        (("accuracy", 0), [1.0] * 3),
        (("untrained",), []),
        (("untrained",), [0.0] * 5000),
        (("tasks_done",), 99),
        (("tasks_done",), True),
        (("bytes_kept",), [-1]),
        (("capacity",), {"neurons": 0.5}),
        (("cost", "seconds"), {"train": 1e300}),
        (("cost", "seconds"), [1]),
        (("cost", "parameters"), 10**40),
        (("config", "seed"), 10**40),
        (("config", "method"), {"sgd": 1}),
        (("config", "scenario"), "../til"),
        (("config", "data"), "cifar100"),
        (("config", "learner"), 1),
        (("details",), {"classes": [["a"]], "confusion": ["99999:1"], "top5": [None]}),
        (("details",), {"classes": [["a"] * 20_000], "confusion": [""] * 20_000, "top5": [None]}),
        (("details",), {"classes": [["a"]], "confusion": ["0:-5"], "top5": [None]}),
    ],
)
def test_a_record_with_a_part_of_the_wrong_kind_or_size_is_refused(place, value, tmp_path):
    record = copy.deepcopy(RECORD)
    holder = record
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    with pytest.raises(UserError, match=r"record\.json is no record of a run \(.*\)\. It was edited or damaged"):
        read(record, tmp_path)


@pytest.mark.parametrize("threads", [0, -1, 10**9, "4", None])
def test_an_environment_with_threads_that_no_machine_has_is_refused(threads):
    good = {"data": "x", "device": "cpu", "precision": "fp32", "threads": 2}
    require_environment(good, Path("run"))
    with pytest.raises(UserError, match=r"environment\.threads"):
        require_environment(good | {"threads": threads}, Path("run"))


def test_what_does_not_fit_is_said_in_a_sentence_with_its_cause():
    words = r"x holds a checkpoint that does not fit its run \(size mismatch\)"
    with pytest.raises(UserError, match=words) as caught, fitting(Path("x")):
        raise RuntimeError("size mismatch\nand more")
    assert isinstance(caught.value.__cause__, RuntimeError)
