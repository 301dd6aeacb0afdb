"""The page on faults names tests that exist, and every row names one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| fault |")]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_every_fault_has_a_test_that_exists(row):
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row.split("|")[-2])
    assert named, "a fault without a test"
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{file}::{name}"


def test_the_page_has_the_faults():
    assert len(ROWS) >= 25
