"""Data flows one way: a file imports from its own level or a lower one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "snv"
LEVELS = [
    {"errors", "seeding", "shapes", "files", "threads", "__version__"},
    {"data", "metrics", "store", "export"},
    {"networks"},
    {"neurons", "flow", "tracing"},
    {"valuation"},
    {"masks", "compact", "subnetwork", "folding", "inference", "planner"},
    {"training"},
    {"learners"},
    {"config"},
    {"protocol"},
    {"analysis"},
    {"report"},
    {"model", "classifier"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
FILES = sorted(SOURCE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """Parts of the package that a file imports, also inside functions."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        modules = []
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        parts |= {m.split(".")[1] for m in modules if m.startswith("snv.")}
    return parts


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_file_imports_only_from_its_own_level_or_lower(path):
    if path.name == "__init__.py" and path.parent == SOURCE:
        return  # the public names stand above everything
    for part in imported_parts(path):
        assert LEVEL[part] <= LEVEL[part_of(path)], f"{part_of(path)} must not know {part}"


def test_the_library_is_quiet_and_only_the_command_line_talks():
    for path in FILES:
        if part_of(path) != "cli":
            assert not re.search(r"\bprint\(", path.read_text(encoding="utf-8")), path


def test_no_file_of_the_product_unpickles_anything_but_through_the_restricted_reader():
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert "torch.load(" not in text, path
        assert "pickle.load" not in text, path
