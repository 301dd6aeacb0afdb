"""The map of the paper is true: what it names exists, and it agrees with the docstrings about every equation."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from snv.learners import LEARNERS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "snv"
MAP = (ROOT / "docs" / "paper_map.md").read_text(encoding="utf-8")
SECTIONS = dict(part.split("\n", 1) for part in MAP.split("\n## ")[1:])
EQUATIONS = range(1, 15)
EQUATION = re.compile(r"(?<!their )\bEqs?\. (\d+)(?:( and )(\d+)| ?(?:–|to) ?(\d+))?")
PATH = re.compile(r"`([\w./+-]+(?:\.(?:py|md|toml|json|png)|/))`")
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def rows(section: str) -> list[list[str]]:
    """The cells of every row of a section's table, without its head."""
    lines = [line for line in SECTIONS[section].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def equations_in(text: str) -> set[int]:
    """The numbers of `Eq. 1`, `Eqs. 8 and 9`, `Eqs. 2–5` and `Eqs. 2 to 5`; another paper's are `their Eq. 3`."""
    found = set()
    for first, _, other, last in EQUATION.findall(text):
        found |= {int(first), int(other or first), *range(int(first), int(last or first) + 1)}
    return found


def docstrings(path: Path) -> str:
    """Every docstring of a file."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds)]
    return "\n".join(ast.get_docstring(node) or "" for node in nodes)


def places(name: str) -> list[Path]:
    """Where a path of the map may be: in the repository or, if it is a file of the package, below its source."""
    return [ROOT / name, SOURCE / name]


IN_THE_CODE = {
    (number, str(path.relative_to(SOURCE)))
    for path in SOURCE.rglob("*.py")
    for number in equations_in(docstrings(path))
}
IN_THE_MAP = {
    (number, file)
    for paper, files, *_ in rows("Equations, algorithm, protocol")
    for number in equations_in(paper)
    for file in PATH.findall(files)
}


def test_numbers_of_equations_are_read_as_people_write_them():
    text = "Eq. 1, Eqs. 3–5, (Eqs. 8 and 9), Eqs. 11 to 12, their Eq. 2, Eq. 14."
    assert equations_in(text) == {1, 3, 4, 5, 8, 9, 11, 12, 14}


@pytest.mark.parametrize("name", sorted(set(PATH.findall(MAP))))
def test_every_path_of_the_map_exists(name):
    assert any(place.exists() for place in places(name)), f"docs/paper_map.md names {name}, which is not there"


@pytest.mark.parametrize(("file", "name"), sorted(set(TEST.findall(MAP))))
def test_every_test_of_the_map_exists(file, name):
    assert (ROOT / file).exists(), f"docs/paper_map.md names {file}, which is not there"
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert not name or name in defined, f"docs/paper_map.md names {name}, which is not in {file}"


@pytest.mark.parametrize(("page", "heading"), re.findall(r"\]\(([\w./]+)#([\w-]+)\)", MAP))
def test_every_heading_the_map_links_to_exists(page, heading):
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert heading in [title.lower().replace(" ", "-") for title in headings]


def test_a_row_that_names_a_file_names_a_test():
    for paper, files, tests in rows("Equations, algorithm, protocol"):
        assert bool(PATH.findall(files)) == bool(TEST.findall(tests)), paper


@pytest.mark.parametrize("number", EQUATIONS)
def test_every_equation_has_a_row_with_a_file_whose_docstring_names_it(number):
    named = {file for n, file in IN_THE_MAP if n == number}
    mentioning = {file for n, file in IN_THE_CODE if n == number}
    assert named & mentioning, f"Eq. {number}: the map names {sorted(named)}, docstrings of {sorted(mentioning)} do"


@pytest.mark.parametrize(("number", "file"), sorted(IN_THE_CODE))
def test_every_equation_of_a_docstring_is_in_the_map_with_that_file(number, file):
    assert (number, file) in IN_THE_MAP, f"a docstring of {file} names Eq. {number}, its row in the map does not"


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
def test_every_method_is_in_the_map(learner):
    file = f"learners/{learner.__module__.rpartition('.')[2]}.py"
    assert file in PATH.findall(SECTIONS["Equations, algorithm, protocol"])


def test_all_tables_and_figures_of_the_paper_are_listed_with_their_state():
    listed = rows("Tables and figures")
    assert [sum(name.startswith(kind) for name, *_ in listed) for kind in ("Table:", "Figure:")] == [8, 9]
    states = ("done: ", "not made yet", "not yet run at the paper's size; small version: ")
    assert [name for name, _, state in listed if not state.startswith(states)] == []
