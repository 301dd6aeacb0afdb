"""Signals wait for a safe moment."""

from __future__ import annotations

import os
import signal

import pytest

from snv.runs.interrupts import Interrupts


def test_a_first_signal_is_remembered_a_second_stops_at_once_and_handlers_are_given_back():
    handler, interrupts = signal.getsignal(signal.SIGTERM), Interrupts()
    with interrupts.watched():
        assert interrupts.signum is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.signum == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is handler
