"""What was run in several ways is told apart in few words, and has one name wherever it stands."""

from __future__ import annotations

from table_records import a_result

from snv.report.labels import apart, labels, usual
from snv.report.measures import SCENARIOS
from snv.report.variants import find_variants


def names_of(results) -> list[tuple[str, str]]:
    found = {scenario: find_variants(results, scenario) for scenario in SCENARIOS}
    told = labels(found)
    return [(s, told[id(v)]) for s in SCENARIOS for several in found[s].values() for v in several]


def test_the_default_needs_no_words_and_others_say_only_what_they_changed():
    results = [
        a_result("snv", name="0.json"),
        a_result("snv", name="1.json", capacity=0.5),
        a_result("snv", name="2.json", capacity=0.5, reuse="none"),
    ]
    assert [name for _, name in names_of(results)] == ["snv", "snv (capacity=0.5)", "snv (capacity=0.5, reuse=none)"]


def test_where_none_has_the_default_what_most_have_is_usual():
    settings = [{"learner.x": x} for x in (5, 7, 7)]
    assert apart(settings, {"learner.x": 0}) == ["x=5", "", ""]
    assert apart(settings, {"learner.x": 5}) == ["", "x=7", "x=7"]


def test_a_variant_has_the_same_name_in_both_scenarios():
    results = [
        a_result("ewc", "til", name="0.json", strength=5.0),
        a_result("ewc", "cil", name="1.json", strength=5.0),
        a_result("ewc", "cil", name="2.json"),
    ]
    assert names_of(results) == [("til", "ewc (strength=5.0)"), ("cil", "ewc (strength=5.0)"), ("cil", "ewc")]


def test_a_method_run_in_one_way_per_scenario_has_its_own_name():
    results = [a_result("ewc", "til", strength=5.0), a_result("ewc", "cil", strength=2.0)]
    assert names_of(results) == [("til", "ewc"), ("cil", "ewc")]


def test_settings_of_the_same_last_name_are_named_in_full():
    many = [{"data.size": 1, "learner.size": 1}, {"data.size": 2, "learner.size": 2}]
    assert apart(many, {}) == ["", "data.size=2, learner.size=2"]


def test_what_is_usual_is_what_the_method_does_today():
    assert usual("snv")["learner.common"] == "patches"
    assert usual("snv")["learner.norm"] == "per-task"  # retired
    assert usual("of mine") == {}
