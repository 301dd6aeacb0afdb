"""The page on more machines is true: its settings are read, and its options exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from snv.config import RunConfig, build
from snv.machine.devices import Resources

PAGE = (Path(__file__).parents[1] / "docs" / "scaling.md").read_text(encoding="utf-8")


def test_the_table_of_resources_is_read_as_the_page_says():
    (text,) = [block for block in re.findall(r"```toml\n(.+?)```", PAGE, flags=re.DOTALL) if "[resources]" in block]
    resources = build(RunConfig, tomllib.loads(text)).resources
    assert resources == Resources(cpus=2, gpus=0.25, memory="4GB")
    assert Resources() == Resources(cpus=1, gpus=0, memory=None)


def test_the_options_of_the_page_are_those_of_the_commands(cli):
    for command in ("bench", "tune"):
        told = cli(command, "--help").out
        used = [line for line in PAGE.splitlines() if line.startswith(f"snv {command} ")]
        options = {option for line in used for option in re.findall(r" (--[\w-]+)", line)}
        assert "--ray" in options
        assert all(option in told for option in options), options
