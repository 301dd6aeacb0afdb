"""Runs stand side by side if they learned the same tasks in the same network."""

from __future__ import annotations

from table_records import a_result, with_final

from snv.report.streams import find_streams, panels


def test_runs_of_other_data_or_other_numbers_of_tasks_are_streams_of_their_own():
    results = [
        a_result("sgd", data={"name": "digits"}),
        a_result("ewc", data={"name": "digits"}, seed=4),
        a_result("sgd", data={"name": "mnist"}),
        a_result("sgd", accuracy=with_final(1, 2, 3), data={"name": "digits", "tasks": 3}),
    ]
    streams = find_streams(results)
    assert [(stream.title, len(stream.results)) for stream in streams] == [
        ("digits, 2 tasks", 2),
        ("mnist, 2 tasks", 1),
        ("digits, 3 tasks", 1),
    ]


def test_streams_that_would_be_called_the_same_say_what_sets_them_apart():
    one, other = find_streams([a_result("sgd", data={"size": size}, name=f"{size}.json") for size in (32, 64)])
    assert {one.title, other.title} == {"cifar100, 2 tasks", "cifar100, 2 tasks (size=64)"}


def test_variants_are_sorted_by_what_they_keep_and_then_by_accuracy():
    finals = {"joint": (99, 99), "icarl": (80, 80), "sgd": (10, 20), "snv": (70, 70), "of mine": (100, 100)}
    (stream,) = find_streams([a_result(method, accuracy=with_final(*final)) for method, final in finals.items()])
    assert [entry.method for entry in panels(stream)["til"]] == ["snv", "sgd", "icarl", "joint", "of mine"]
    assert panels(stream)["til"][-1].group == "not in this catalogue"


def test_variants_of_one_method_are_told_apart_by_their_settings():
    (stream,) = find_streams([a_result("ewc", name=f"{x}.json", strength=x) for x in (1.0, 2.0)])
    assert {entry.label for entry in panels(stream)["til"]} == {"ewc", "ewc (strength=2.0)"}


def test_a_run_in_cil_stands_in_til_too_if_its_method_learns_alike_and_it_is_said():
    (stream,) = find_streams([a_result("snv", "cil", known=with_final(90, 95))])
    found = panels(stream)
    assert [found[scenario][0].borrowed for scenario in ("til", "cil")] == [True, False]
    assert found["til"][0].variant.metric("ACC").value == 92.5


def test_only_streams_of_the_papers_own_data_have_its_column():
    def column(**data):
        (stream,) = find_streams([a_result(accuracy=with_final(*range(10)), data=data)])
        return stream.paper_column

    assert column() == "cifar-100/10"
    assert column(classes=30) == ""
    assert column(name="digits") == ""
