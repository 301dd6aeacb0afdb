"""The command line as a whole."""

from __future__ import annotations


def test_help_is_there_for_every_command(cli):
    for command in ([], ["run"], ["show"], ["list"], ["doctor"], ["demo"]):
        assert cli(*command, "--help").code == 0
