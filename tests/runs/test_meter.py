"""What a run says it has cost is what it has cost."""

from __future__ import annotations

import pytest
from torch.utils.flop_counter import FlopCounterMode

from snv.config import load_config
from snv.learners import LEARNERS
from snv.runs.exam import Exam
from snv.runs.run import run

CASES = [(method, scenario) for method, kind in LEARNERS.items() for scenario in kind.card.scenarios]
SMALL = ["data.tasks=3", "data.classes=6", "data.per_class=30", "train.epochs=2", "train.batch_size=32", "threads=1"]
NETWORKS = {
    "mlp": ["network.name=mlp", "network.hidden=[16,12]"],
    "convnet": ["network.name=convnet", "network.width=4"],
}


def small_run(out, method, scenario, *settings, **more):
    own = ["learner.width=4", "learner.teacher=3"] if method == "pec" else []
    return run(load_config(None, [*SMALL, *own, *settings, f"method={method}", f"scenario={scenario}"]), out, **more)


@pytest.fixture
def latency(monkeypatch: pytest.MonkeyPatch) -> FlopCounterMode:
    """Counts apart what measures how fast a finished run answers: no cost of the run."""
    counter, measure = FlopCounterMode(display=False), Exam.of_speed

    def counted_apart(self: Exam) -> None:
        with counter:
            measure(self)

    monkeypatch.setattr(Exam, "of_speed", counted_apart)
    return counter


def recorded_over_executed(latency: FlopCounterMode, out, *arguments) -> float:
    with FlopCounterMode(display=False) as counter:
        record = small_run(out, *arguments)
    executed = (counter.get_total_flops() - latency.get_total_flops()) / 2
    return sum(record.cost["macs"].values()) / executed


@pytest.mark.parametrize(
    ("method", "scenario", "network"),
    [*((*case, "mlp") for case in CASES), ("snv", "cil", "convnet")],
)
def test_recorded_MACs_are_the_executed_ones(method, scenario, network, latency, tmp_path):
    ratio = recorded_over_executed(latency, tmp_path, method, scenario, *NETWORKS[network])
    assert ratio == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("estimator", ["tmab", "truncated", "exact", "in-run", "fisher"])
def test_work_that_depends_on_the_data_is_counted_as_it_was_done(estimator, latency, tmp_path):
    few = ["data.tasks=2", "data.classes=4", "network.hidden=[6,4]", "train.epochs=6", "learner.draws=8"]
    settings = [*NETWORKS["mlp"], *few, f"learner.estimator={estimator}"]
    ratio = recorded_over_executed(latency, tmp_path, "snv", "til", *settings)
    assert ratio == pytest.approx(1, abs=0.01)


def test_a_buffer_that_is_still_filling_costs_what_it_replays(latency, tmp_path):
    settings = [*NETWORKS["mlp"], "learner.replay=200", "learner.buffer=300"]
    assert recorded_over_executed(latency, tmp_path, "der++", "cil", *settings) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    ("method", "phases"),
    [
        ("ewc", {"train", "evaluate", "importance"}),
        ("icarl", {"train", "evaluate", "memory"}),
        ("snv", {"train", "evaluate", "value", "consolidate", "certify", "statistics", "ask"}),
    ],
)
def test_work_beside_the_steps_has_phases_of_its_own(method, phases, tmp_path):
    record = small_run(tmp_path, method, "cil", *NETWORKS["mlp"])
    assert {phase for phase, macs in record.cost["macs"].items() if macs > 0} == phases
    assert phases | ({"cut"} if method == "snv" else set()) == set(record.cost["seconds"])  # cutting multiplies nothing


def test_importance_is_not_computed_under_the_operation_counter(monkeypatch, tmp_path):
    """It goes image by image, where the counter takes longer than the work."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    from snv.components import fisher

    modes, squared_gradients = [], fisher.squared_gradients

    def watched(*arguments):
        modes.append(_get_current_dispatch_mode())
        return squared_gradients(*arguments)

    monkeypatch.setattr(fisher, "squared_gradients", watched)
    small_run(tmp_path, "ewc", "til", *NETWORKS["mlp"])
    assert modes == [None] * 3


@pytest.mark.parametrize(
    ("method", "scenario", "long"),
    [
        ("sgd", "til", {"evaluate the untrained network", "task 2 of 3, evaluate"}),
        ("ewc", "til", {"task 2 of 3, importance"}),
        ("icarl", "cil", {"task 2 of 3, exemplars", "task 2 of 3, class means"}),
        ("snv", "cil", {"task 2 of 3, value: gradients", "task 2 of 3, statistics"}),
    ],
)
def test_whatever_takes_long_is_told(method, scenario, long, tmp_path):
    told: list[tuple[str, float, float]] = []
    small_run(tmp_path, method, scenario, *NETWORKS["mlp"], progress=lambda *what: told.append(what))
    assert long <= {what for what, _, _ in told}
    for what in long:
        done = [part / total for label, part, total in told if label == what]
        assert len(done) > 1
        assert done == sorted(done)
        assert 0 <= done[0] < done[-1] <= 1
