"""The top of the page says what the records say: who is best, by how much, and whether that could be chance."""

from __future__ import annotations

import pytest
from table_records import a_result, with_final

from snv.report.standing import standing
from snv.report.streams import find_streams, panels


def told(**finals):
    """Of methods with the final accuracies of their seeds, on two tasks each."""
    results = [
        a_result(method.replace("_", "+"), seed=seed, accuracy=with_final(acc, acc))
        for method, accs in finals.items()
        for seed, acc in (accs.items() if isinstance(accs, dict) else enumerate(accs))
    ]
    (stream,) = find_streams(results)
    return standing(panels(stream)["til"])


def test_the_best_is_named_with_its_lead_over_the_second():
    found = told(snv=[80.0], ewc=[70.5], sgd=[20.0])
    assert (found.best, found.acc, found.among) == ("snv", "80.00", "best of 3 methods that keep no image")
    assert found.lead == "9.50 points above ewc, the next method"


def test_a_lead_that_holds_in_every_seed_is_more_than_chance():
    found = told(snv=[80.0, 81.0, 82.0], ewc=[75.0, 76.1, 76.9])
    assert found.certainty == "clear"
    assert found.sure.startswith("More than chance: +5.00 over 3 common seeds, 95 % interval +4.7")


def test_a_lead_that_comes_and_goes_could_be_chance():
    found = told(snv=[80.0, 70.0, 82.0], ewc=[75.0, 76.0, 77.0])
    assert found.certainty == "open"
    assert found.sure.startswith("Could be chance: +1.33 over 3 common seeds, 95 % interval -")


@pytest.mark.parametrize(
    ("finals", "sentence"),
    [
        ({"snv": [80.0], "ewc": [70.0]}, "They have 1 seed in common, so how sure this is cannot be said; 3 allow"),
        ({"snv": [80.0, 81.0], "ewc": [70.0, 75.0]}, "They have 2 seeds in common"),
        ({"snv": {0: 80.0}, "ewc": {1: 70.0}}, "They have no seed in common"),
        ({"snv": [80.0]}, "Nothing to compare it with yet."),
    ],
)
def test_without_enough_common_seeds_nothing_is_claimed(finals, sentence):
    found = told(**finals)
    assert found.certainty == "untested"
    assert found.sure.startswith(sentence)


def test_who_keeps_images_or_has_all_at_hand_competes_apart():
    found = told(snv=[60.0], sgd=[10.0], icarl=[70.0], joint=[90.0])
    assert found.best == "snv"
    assert found.beside == (
        "Best of those that keep images: icarl, 70.00 %.",
        "Best of those with all images at hand: joint, 90.00 %.",
    )


def test_where_all_keep_images_the_best_of_them_is_named():
    found = told(icarl=[70.0], joint=[90.0])
    assert (found.best, found.among) == ("icarl", "alone among methods that keep images")


def test_the_lead_is_that_over_another_method_not_over_the_same_one_run_otherwise():
    results = [
        a_result("snv", accuracy=with_final(acc, acc), name=f"{acc}.json", capacity=c)
        for acc, c in ((80, 0.3), (79, 0.5), (60, 0.1))
    ]
    ewc = a_result("ewc", accuracy=with_final(70, 70))
    found = standing(panels(find_streams([*results, ewc])[0])["til"])
    assert (found.best, found.among) == ("snv", "best of 4 variants of 2 methods that keep no image")
    assert found.lead == "10.00 points above ewc, the next method"
    alone = standing(panels(find_streams(results)[0])["til"])
    assert (alone.among, alone.lead) == (
        "best of 3 variants of 1 method that keep no image",
        "1.00 points above snv (capacity=0.5), the next variant",
    )
