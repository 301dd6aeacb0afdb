"""The page on reports is true: its Python runs and its commands do."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")


def prepared(taught, tmp_path, monkeypatch) -> None:
    (tmp_path / "results").symlink_to(ROOT / "results")
    (tmp_path / "pets.snv").symlink_to(taught)
    monkeypatch.chdir(tmp_path)


def test_its_python_writes_both_pages(taught, tmp_path, monkeypatch):
    prepared(taught, tmp_path, monkeypatch)
    (code,) = re.findall(r"```python\n(.+?)```", PAGE, flags=re.DOTALL)
    exec(code, {})
    assert '"kind":"model"' in Path("report/index.html").read_text(encoding="utf-8")


def test_its_commands_run(taught, tmp_path, monkeypatch, cli):
    prepared(taught, tmp_path, monkeypatch)
    for command in re.findall(r"^\$ snv (.+)$", PAGE, flags=re.MULTILINE):
        told = cli(*shlex.split(command, comments=True))
        assert told.code == 0, told.err
