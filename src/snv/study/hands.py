"""Runs done here, one after the other, or handed to workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from snv.errors import Interrupted
from snv.runs import Interrupts, Progress
from snv.study.workers import News, Work, Workers, carry_out

LOOK = 0.2
"""Seconds between two looks whether a signal arrived."""

CHANCES = 2
"""Processes that may die under a run before that counts as its end."""


def do_all(works: Sequence[Work], workers: Workers | None, ended: Callable[[News], None], progress: Progress) -> None:
    """Every job to its end, in this process if there are no ``workers``; ``ended`` hears of each as it comes."""
    if workers is None:
        for n, work in enumerate(works):
            ended(carry_out(work, lambda news, n=n: progress(news.text, n + news.share, len(works))))  # type: ignore[misc]
    else:
        _hand_out(deque(works), workers, ended, progress)


def _hand_out(queue: deque[Work], workers: Workers, ended: Callable[[News], None], progress: Progress) -> None:
    busy: dict[str, Work] = {}
    lost: list[str] = []
    total, interrupts = len(queue), Interrupts()
    with interrupts.watched():
        while queue or busy:
            while queue and workers.room() > 0:
                work = queue.popleft()
                busy[work.key] = work
                workers.submit(work)
            for news in workers.news(LOOK):
                if news.kind == "told":
                    continue
                work = busy.pop(news.key)
                if news.kind == "lost" and lost.count(news.key) + 1 < CHANCES:
                    lost.append(news.key)
                    queue.appendleft(work)
                else:
                    ended(news)
            progress("side by side", total - len(queue) - len(busy), total)
            if interrupts.signum is not None:
                workers.stop()
                raise Interrupted(interrupts.signum, "")
