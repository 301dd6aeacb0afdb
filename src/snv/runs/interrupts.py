"""Ctrl-C and SIGTERM that wait for a moment at which everything can be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Remembers that a signal arrived; whoever works looks at ``signum`` where it is safe to stop."""

    signum: int | None = None

    def _arrived(self, signum: int, _frame: FrameType | None) -> None:
        if self.signum is not None:  # asked twice: stop at once
            raise KeyboardInterrupt
        self.signum = signum

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Take over SIGINT and SIGTERM while the block runs (only a main thread can)."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {s: signal.signal(s, self._arrived) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for s, handler in handlers.items():
                signal.signal(s, handler)
