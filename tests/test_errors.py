"""An error says what was wrong, what was found and what to do."""

from __future__ import annotations

import signal

from snv.errors import Interrupted, unknown


def test_an_unknown_name_is_answered_with_the_nearest_and_the_whole_list():
    assert str(unknown("method", "swg", ["sgd", "ewc"])) == (
        "There is no method called 'swg'. Did you mean 'sgd'? Known: sgd, ewc."
    )


def test_nothing_is_suggested_where_nothing_is_near():
    assert str(unknown("method", "zzzzzz", ["sgd"])) == "There is no method called 'zzzzzz'. Known: sgd."


def test_an_interruption_says_by_which_signal_and_where_everything_is():
    stop = Interrupted(signal.SIGTERM, "runs/mine")
    assert (stop.signum, str(stop)) == (signal.SIGTERM, "runs/mine")
