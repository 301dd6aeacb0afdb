"""Work is done here or handed out, and it makes no difference; who dies gets a second chance."""

from __future__ import annotations

import signal

import pytest
from here import Here
from searched import small

from snv.errors import Interrupted
from snv.study.hands import CHANCES, do_all
from snv.study.workers import News, Work


class Mortal(Here):
    """Workers of which the process that does ``victim`` dies, so many times."""

    def __init__(self, victim: str, deaths: int) -> None:
        super().__init__()
        self.victim, self.deaths = victim, deaths

    def outcome(self, work: Work) -> News:
        if work.key == self.victim and self.deaths:
            self.deaths -= 1
            return News(work.key, "lost", "it died")
        return News(work.key, "done")


def works(folder, n: int = 3) -> list[Work]:
    return [Work(str(i), small("method=sgd", f"train.epochs={i + 1}"), folder / str(i)) for i in range(n)]


def ends_of(workers, folder) -> list[News]:
    ends: list[News] = []
    do_all(works(folder), workers, ends.append, lambda *_: None)
    return ends


def test_every_job_ends_once_whoever_does_it(tmp_path):
    here, handed_out = ends_of(None, tmp_path / "a"), ends_of(Here(), tmp_path / "b")
    assert [news.key for news in here] == [news.key for news in handed_out] == ["0", "1", "2"]
    assert {news.kind for news in [*here, *handed_out]} == {"done"}
    for name in "012":
        logs = [(tmp_path / side / name / "log.jsonl").read_bytes() for side in "ab"]
        assert logs[0] == logs[1]


def test_a_job_whose_process_died_is_handed_out_again_once(tmp_path):
    assert [news.kind for news in ends_of(Mortal("1", 1), tmp_path)] == ["done", "done", "done"]
    assert [(news.key, news.kind) for news in ends_of(Mortal("1", CHANCES), tmp_path)][1] == ("1", "lost")


def test_a_signal_stops_the_workers(tmp_path):
    class Interrupting(Mortal):
        def outcome(self, work: Work) -> News:
            signal.raise_signal(signal.SIGINT)
            return super().outcome(work)

    workers = Interrupting("none", 0)
    with pytest.raises(Interrupted):
        ends_of(workers, tmp_path)
    assert workers.stopped
    assert workers.taken == ["0"]
