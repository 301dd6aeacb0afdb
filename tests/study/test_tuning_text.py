"""A ledger as people read it, and the file of what was chosen."""

from __future__ import annotations

import dataclasses
import tomllib

from searched import small
from test_tuning import ended, given_up, ledger_of

from snv.study.space import Space
from snv.study.tuning_text import as_page, as_toml


def test_the_page_has_a_row_for_every_trial_and_names_what_was_not_searched():
    page = as_page(ledger_of(ended(0, 0.1, 80), ended(1, 0.2, 90.126), given_up(2, 0.3, 40)))
    assert "| 1 | train.lr=0.2 **chosen** | 90.13 | 2 | finished |" in page
    assert "| 0 | train.lr=0.1 (as before) | 80.00 | 2 | finished |" in page
    assert "| 2 | train.lr=0.3 | 40.00 | 1 | given up after 1 |" in page
    assert "| learner.strength | 10.0 | idle |" in page
    assert "2 to the end, 1 given up" in page
    assert "no test image was in memory" in page


def test_the_file_holds_what_was_chosen_and_says_where_it_comes_from():
    text = as_toml(ledger_of(ended(0, 0.1, 80), ended(1, 0.2, 90)))
    assert tomllib.loads(text) == {"ewc": {"til": {"train": {"lr": 0.2}}}}
    assert "90.00 % are right; 80.00 % with the settings before" in text
    assert "# learner.strength stays at 10.0: idle." in text


def test_names_of_methods_that_toml_would_misread_are_quoted():
    tuning = ledger_of(ended(0, 0.1, 80))
    tuning = dataclasses.replace(tuning, config=small("method=der++"), space=Space(tuning.space.values))
    assert tomllib.loads(as_toml(tuning)) == {"der++": {"til": {"train": {"lr": 0.1}}}}
