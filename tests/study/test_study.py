"""A study says what it means, and what it cannot mean is refused with the nearest that it can."""

from __future__ import annotations

import pytest
from here import study_in, written

from snv.errors import UserError
from snv.study import expand, load_study


def refusal(folder, text: str) -> str:
    with pytest.raises(UserError) as refused:
        load_study(written(folder, text))
    return str(refused.value)


def test_a_study_is_named_after_its_file_and_knows_its_groups(tmp_path):
    study = study_in(
        tmp_path, 'title = "two"\n[groups.a]\nstreams = ["stream.toml"]\n[groups.b]\nstreams = ["x.toml"]\n'
    )
    assert (study.name, study.title, list(study.groups), study.seeds) == ("study", "two", ["a", "b"], (0,))


def test_an_unknown_key_is_answered_with_the_nearest_one(tmp_path):
    assert "Did you mean 'seeds'" in refusal(tmp_path, "seedz = [1]\n[groups.a]\nstreams = ['x.toml']\n")
    assert "Did you mean 'methods'" in refusal(tmp_path, "[groups.a]\nstreams = ['x.toml']\nmethod = ['sgd']\n")


def test_an_unknown_method_is_answered_with_the_nearest_one(tmp_path):
    assert "Did you mean 'ewc'" in refusal(tmp_path, "[groups.a]\nstreams = ['x.toml']\nmethods = ['ewcc']\n")
    assert "Did you mean 'dytox'" in refusal(tmp_path, "[groups.a]\nstreams = ['x.toml']\n[own.dytoxx]\n")
    assert "Did you mean 'snv-til'" in refusal(tmp_path, "[groups.a]\nstreams = ['x.toml']\nwithout = ['snv-tli']\n")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("title = 'none'\n", "has no group"),
        ("groups = 3\n", "groups are tables"),
        ("[groups.a]\nmethods = ['sgd']\n", "streams"),
        ("[groups.a]\nstreams = ['x.toml']\nscenarios = ['dil']\n", "scenarios"),
        ("[groups.a]\nstreams = ['x.toml']\ngrid.train.lr = 0.1\n", "lists the values"),
        ("[groups.a]\nstreams = ['x.toml']\n[own]\nsgd = 3\n", "own.sgd is a table"),
        ("[groups.a\n", "not a readable TOML file"),
    ],
)
def test_what_makes_no_study_is_refused(tmp_path, text, told):
    assert told in refusal(tmp_path, text)


def test_a_study_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match=r"There is no file .*nowhere\.toml"):
        load_study(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("name", ["../../evil", "/tmp/evil", "a/b", ".hidden", "", "x" * 300, "a\\u0000b"])
def test_names_that_would_lead_out_of_the_folder_are_refused(name, tmp_path):
    stream = 'streams = ["stream.toml"]'
    assert "part of a file's name" in refusal(tmp_path, f'[groups."{name}"]\n{stream}\n')
    assert "part of a file's name" in refusal(
        tmp_path, f'[groups.a]\n{stream}\n[groups.a.variants."{name}"]\ntrain.lr = 1\n'
    )


def test_a_study_that_names_a_file_of_code_does_not_have_it_executed_until_the_user_names_it(tmp_path):
    trap = tmp_path / "trap.py"
    trap.write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'executed')!r}).touch()")
    group = f'[groups.a]\nstreams = ["stream.toml"]\nmethods = ["{trap}:Trap"]\n'
    assert "would be executed" in refusal(tmp_path, group)
    (tmp_path / "stream.toml").write_text(f'method = "{trap}:Trap"')
    study = tmp_path / "other.toml"
    study.write_text('[groups.a]\nstreams = ["stream.toml"]\n')
    with pytest.raises(UserError, match="would be executed"):
        expand(load_study(study))
    assert not (tmp_path / "executed").exists()
    with pytest.raises(UserError, match="holds no method"):
        load_study(written(tmp_path, group), [f"{trap}:Trap"])


def test_a_few_lines_that_stand_for_more_runs_than_anybody_can_count_are_refused(tmp_path):
    values = list(range(1000))
    text = f'[groups.a]\nstreams = ["stream.toml"]\n[groups.a.grid]\ntrain.epochs = {values}\nseed = {values}\n'
    with pytest.raises(UserError, match="a group has 100,000 at most"):
        expand(load_study(written(tmp_path, text)))


@pytest.mark.parametrize("pattern", ["../**/*.toml", "/etc/*.toml"])
def test_a_pattern_of_streams_stays_in_the_folder(pattern, tmp_path):
    with pytest.raises(UserError, match="stays in the study's folder"):
        expand(load_study(written(tmp_path, f'[groups.a]\nstreams = ["{pattern}"]\n')))
