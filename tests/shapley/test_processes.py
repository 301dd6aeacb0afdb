"""Real processes give the bits of this one, die without harm while one is left, and never outlive their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from crews import SOON, alone, assert_same, network_game

from snv.errors import UserError
from snv.shapley.budget import Budget
from snv.shapley.estimate import ESTIMATORS
from snv.shapley.known_games import saturating
from snv.shapley.processes import LocalCrew, pickled
from snv.shapley.questions import WorkerError
from snv.shapley.shared import SharedGame


def estimated(game, crew, method, progress=None, **call):
    function, own = ESTIMATORS[method].function, ESTIMATORS[method].settings
    return function(SharedGame(game, crew), own(**SOON[method]), seed=5, progress=progress, **call)


def is_there(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(true, seconds: float = 300.0) -> None:
    """Wait for something that will be so."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_every_estimator_finds_the_same_bits_with_four_two_and_one_workers_as_they_are_killed():
    found, crew = alone(network_game), LocalCrew(network_game(), 4)
    pids = crew.pids()

    def kill(n: int):
        """So many, once the valuation is under way."""
        left = crew.pids()[:n]
        return lambda *_: [os.kill(left.pop(), signal.SIGKILL) for _ in list(left)]

    try:
        for kills in (0, 2, 1):
            assert_same(estimated(network_game(), crew, "montecarlo", kill(kills)), found["montecarlo"])
            until(lambda: sum(map(is_there, pids)) == len(pids) - kills)  # noqa: B023
            pids = [pid for pid in pids if is_there(pid)]
            for method in ESTIMATORS:
                assert_same(estimated(network_game(), crew, method), found[method])
            assert crew.pids() == pids
        with pytest.raises(WorkerError, match=r"No worker is left: they ended with the codes -9, -9, -9, -9\."):
            estimated(network_game(), crew, "montecarlo", kill(1))
    finally:
        crew.close()
    assert crew.pids() == []
    assert not any(map(is_there, pids))


SCRIPT = """
import sys, time
sys.path.insert(0, sys.argv[1])
from crews import network_game
from snv.shapley.estimate import estimate

if __name__ == "__main__":
    def tell(*_):
        import multiprocessing
        print(*[child.pid for child in multiprocessing.active_children()], flush=True)
    estimate(network_game(), "montecarlo", permutations=10**6, chunk=9, workers=1, progress=tell)
"""


def test_no_worker_outlives_a_parent_that_was_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            worker = int(parent.stdout.readline())
            assert is_there(worker)
        finally:
            parent.kill()
    until(lambda: not is_there(worker))


def test_a_worker_that_cannot_make_the_game_says_why(tmp_path, monkeypatch):
    (tmp_path / "passing.py").write_text(
        "from snv.shapley.game import Game\nclass Passing(Game):\n    n = 2\n    def values(self, c, rows=None): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    from passing import Passing

    game = Passing()
    (tmp_path / "passing.py").unlink()
    crew = LocalCrew(game, 1)
    try:
        with pytest.raises(WorkerError, match=r"cannot make the game .*passing"):
            estimated(game, crew, "exact", budget=Budget())
    finally:
        crew.close()


def test_a_game_that_cannot_be_sent_is_refused_before_a_process_begins():
    with pytest.raises(UserError, match=r"cannot be sent to another process .* Define the model's class"):
        pickled(saturating())  # its payoff is a lambda
