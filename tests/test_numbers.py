"""Every figure of the committed records is recomputed from their raw accuracy matrices, in plain Python."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[1] / "results"
FILES = [path for path in sorted(RESULTS.glob("**/*.json")) if "accuracy" in json.loads(path.read_text())]


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def figures(matrix, untrained, t):
    """ACC, AvgAcc, BWT, forgetting, FWT and PS of t tasks, as the README has them; None where an entry is missing."""
    a, tasks, found = matrix, range(t), {}

    def put(name, number):
        try:
            found[name] = number()
        except (TypeError, ZeroDivisionError):  # an accuracy is None, or there is one task only
            found[name] = None

    put("ACC", lambda: mean(a[t - 1][j] for j in tasks))
    put("AvgAcc", lambda: mean(mean(a[i][j] for j in range(i + 1)) for i in tasks))
    put("BWT", lambda: mean(a[t - 1][j] - a[j][j] for j in range(t - 1)))
    put("forgetting", lambda: mean(max(a[i][j] for i in range(j, t)) - a[t - 1][j] for j in range(t - 1)))
    put("FWT", lambda: mean(a[j - 1][j] - untrained[j] for j in range(1, t)))

    def plasticity_and_stability():
        p = mean((a[j][j] - a[j - 1][j]) / (100 - a[j - 1][j]) for j in range(1, t))
        s = 1 + mean(a[t - 1][j] - a[j][j] for j in range(t - 1)) / 100
        return 2 * p * s / (p + s) if p > 0 and s > 0 else 0.0

    put("PS", plasticity_and_stability)
    return found


def close(one, other):
    return one is other is None or (None not in (one, other) and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_metrics_of_a_record_follow_from_its_matrix(path):
    record = json.loads(path.read_text())
    for name, number in figures(record["accuracy"], record["untrained"], record["tasks_done"]).items():
        assert close(record["metrics"][name], number), name


def groups():
    """Records that differ in nothing but the seed, by folder and name."""
    found = {}
    for path in FILES:
        found.setdefault(f"{path.parent.name}/{path.stem.rpartition('-seed')[0]}", []).append(path)
    return found


GROUPS = groups()


@pytest.mark.parametrize("paths", GROUPS.values(), ids=GROUPS)
def test_means_and_deviations_of_the_table_of_runs_follow_from_the_matrices(paths):
    from snv.report import table
    from snv.runs import read_results

    made = table("runs", read_results(paths))
    records = [json.loads(path.read_text()) for path in paths]
    for name in ("ACC", "BWT", "forgetting"):
        check(made.column(name)[0], [figures(r["accuracy"], r["untrained"], r["tasks_done"])[name] for r in records])


def check(cell, values):
    """A cell is the mean of some numbers and their deviation (n − 1)."""
    if None in values:
        assert cell.value is None
        return
    assert close(cell.value, mean(values))
    n = len(values)
    deviation = (sum((x - mean(values)) ** 2 for x in values) / (n - 1)) ** 0.5 if n > 1 else None
    assert close(cell.deviation, deviation)


@pytest.mark.parametrize("folder", ["small-cifar", "small-tiny", "mini"])
def test_the_cells_of_a_stream_follow_from_the_matrices_in_both_scenarios(folder):
    from snv.report import table
    from snv.runs import read_results

    if not (RESULTS / folder).exists():
        pytest.skip(f"results/{folder} has no records yet")
    results = read_results([RESULTS / folder])
    made = table("small", results)
    n_checked = 0
    for row in made.rows:
        told = dict(zip([column.title for column in made.columns], row.cells, strict=True))
        for scenario in ("til", "cil"):
            seeds = told[f"seeds, {scenario.upper()}"]
            records = [json.loads(path.read_text()) for path in seeds.runs]
            matrices = [r["accuracy"] if r["scenario"] == scenario else r["known"] for r in records]
            for name in ("ACC", "BWT"):
                numbers = [
                    figures(matrix, record["untrained"], record["tasks_done"])[name]
                    for matrix, record in zip(matrices, records, strict=True)
                ]
                if numbers:
                    check(told[f"{name}, {scenario.upper()}"], numbers)
                    n_checked += 1
    assert n_checked >= 2 * len({(result.method, result.scenario) for result in results})
