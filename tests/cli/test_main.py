"""The command line as a whole."""

from __future__ import annotations

import pytest

from snv.cli.main import app

DOCUMENTS = {"figure", "report", "table"}
"""Commands that write a document, in formats of its own."""

COMMANDS = {command.name: command.callback for command in app.registered_commands}


def test_help_is_there_for_every_command(cli):
    for command in ([], ["run"], ["show"], ["list"], ["doctor"], ["demo"]):
        assert cli(*command, "--help").code == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_speaks_to_machines(name):
    assert name in DOCUMENTS or "as_json" in COMMANDS[name].__annotations__


def test_torchrun_may_start_no_other_command_than_run(cli, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    refused = cli("list", "methods")
    assert refused.code == 2
    assert "torchrun started 2 processes, and of all commands only snv run can share its work" in refused.err
