from __future__ import annotations

import re
from pathlib import Path

import pytest

from snv.errors import UserError
from snv.learners import LEARNERS
from snv.report.paper import CAPACITIES, PRINTED_AS, Printed, contradictions, paper, paper_value, row_name

ROOT = Path(__file__).parents[2]


def test_a_number_is_read_with_its_deviation_if_it_has_one():
    assert paper_value("cil", "SNV", "cifar-100/10") == Printed(54.7, 0.42)
    assert paper_value("til", "WSN c=0.5", "tiny-imagenet/20", "BWT") == Printed(0.0)
    assert paper_value("imagenet-1k", "DyTox", "TIL/50") == Printed(42.8, 4.2)
    assert paper_value("cost", "SNV", "imagenet-1k", "minutes") == Printed(47 * 60)


def test_where_the_paper_has_a_dash_there_is_nothing():
    assert paper_value("imagenet-1k", "WSN", "CIL/10") is None
    assert paper_value("imagenet-1k", "PEC", "TIL/10") is None
    assert paper_value("til", "PEC", "cifar-100/10") is None


def test_rows_of_all_methods_are_found_by_our_names():
    assert PRINTED_AS.keys() <= LEARNERS.keys()
    for method in PRINTED_AS:
        assert paper_value("imagenet-1k", PRINTED_AS[method], "CIL/10") or method == "wsn"
        if method not in ("nfl", "pec"):
            assert all(paper_value("til", row_name(method, "til", c), "cifar-100/20") for c in CAPACITIES)
    with pytest.raises(UserError, match="sgd"):
        row_name("sgd", "til", 0.1)


def test_every_sequence_is_complete_and_in_range():
    for table, columns in (("imagenet-1k", 6), ("til", 4), ("cil", 4)):
        for method, cells in paper()[table].items():
            assert len(cells) in (columns, 3), method
            for cell in cells.values():
                (acc, deviation), bwt, ps = cell["ACC"], cell["BWT"], cell["PS"]
                assert 0 < acc < 100
                assert 0 < deviation < 10
                assert -100 < bwt <= 0
                assert 0 < ps < 1


def test_the_paper_contradicts_itself_where_two_tables_print_one_number():
    assert "SNV, imagenet-1k: ACC 41.30, in the table of costs 39.42" in contradictions()
    assert not any("NFL+" in found for found in contradictions())


def test_the_map_of_the_paper_lists_its_contradictions():
    page = (ROOT / "docs" / "paper_map.md").read_text(encoding="utf-8")
    listed = page.split("## Where the paper contradicts itself")[1].split("## ")[0]
    assert [line[2:] for line in listed.splitlines() if line.startswith("- ")] == contradictions()


PAIR = re.compile(r"(\d+\.\d+) ± (\d+\.\d+)")
CARDS = sorted({kind.card.page: name for name, kind in LEARNERS.items() if kind.card.page}.items())


def pairs_of(method: str) -> set[tuple[float, ...]]:
    """Every ACC with its deviation that is known of a method: of the paper, and of its authors' later re-run."""
    name = PRINTED_AS.get(method, "none")
    tables = [paper()[table] for table in ("imagenet-1k", "til", "cil")]
    rows = [row for table in tables for m, row in table.items() if m.split(" c=")[0] == name]
    rerun = [paper()["rerun"]["results"].get(m, {}) for m in (method, "sgd", "joint")]
    return {tuple(cell["ACC"]) for row in (*rows, *rerun) for cell in row.values()}


@pytest.mark.parametrize(("page", "method"), CARDS)
def test_cards_print_the_papers_numbers_as_they_are(page, method):
    text = (ROOT / "docs" / "methods" / f"{page}.md").read_text(encoding="utf-8")
    section = text.partition("## What the paper prints\n")[2].split("\n## ")[0]
    printed = {(float(mean), float(deviation)) for mean, deviation in PAIR.findall(section)}
    assert printed <= pairs_of(method)
    assert len(printed) > 2 or not section
