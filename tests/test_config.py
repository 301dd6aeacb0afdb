"""A config says what it wants in TOML or key=value; a mistake is answered with one sentence."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from snv.config import RunConfig, build, changed, load_config
from snv.errors import UserError
from snv.machine.devices import Resources

EXAMPLE = """
method = "joint"
scenario = "cil"
seed = 3
[data]
name = "digits"
tasks = [4, 3, 3]
[train]
lr = 0.01
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_file_and_overrides_make_one_config(tmp_path):
    config = load_config(write(tmp_path / "a.toml", EXAMPLE), ["train.lr=0.1", "data.size=8", "data.name=folder:/x"])
    assert (config.method, config.scenario, config.seed) == ("joint", "cil", 3)
    assert config.data.tasks == (4, 3, 3)
    assert (config.train.lr, config.data.size, config.data.name) == (0.1, 8, "folder:/x")


def test_a_config_written_out_and_read_again_is_the_same():
    config = load_config(None, ["method=sgd", "learner.ce_scope=new", "data.tasks=[2, 3]"])
    assert build(RunConfig, config.as_dict()).as_dict() == config.as_dict()


@pytest.mark.parametrize(
    ("override", "answer"),
    [
        ("train.lrr=1", r"no setting in \[train\] called 'lrr'\. Did you mean 'lr'\?"),
        ("metod=sgd", r"no setting called 'metod'\. Did you mean 'method'\?"),
        ("learner.ce_scop=new", r"no setting in \[learner\] called 'ce_scop'\. Did you mean 'ce_scope'\?"),
        ("method=sdg", r"no method called 'sdg'\. Did you mean 'sgd'\?"),
        ("scenario=dil", r"scenario: input should be 'til' or 'cil'; got 'dil'"),
        ("train.lr=fast", r"train\.lr: .* got 'fast'"),
        ("train.lr=-1", r"train\.lr, the learning rate, is a positive number; got -1"),
        ("data.tasks=many", r"data\.tasks: .* got 'many'"),
        ("train=5", r"train is a table of settings"),
        ("seed.x=5", r"seed: .*|single value"),
        ("nonsense", r"A setting looks like train\.lr=0\.01; got 'nonsense'"),
    ],
)
def test_a_mistake_is_named_with_the_nearest_right_thing(override, answer):
    with pytest.raises(UserError, match=answer):
        load_config(None, [override])


def test_a_file_that_is_not_TOML_is_named(tmp_path):
    with pytest.raises(UserError, match=r"bad\.toml is not a readable TOML file"):
        load_config(write(tmp_path / "bad.toml", "a = = 1"))
    with pytest.raises(UserError, match=r"no config file .*missing\.toml"):
        load_config(tmp_path / "missing.toml")


def test_a_method_that_cannot_do_a_scenario_says_which_it_can(monkeypatch):
    from snv.learners import SGD

    monkeypatch.setattr(SGD, "card", dataclasses.replace(SGD.card, scenarios=("til",)))
    with pytest.raises(UserError, match=r"sgd cannot do CIL: it works only in TIL\. Use --scenario til"):
        load_config(None, ["method=sgd", "scenario=cil"])


def test_a_file_can_be_based_on_another(tmp_path):
    (tmp_path / "base.toml").write_text('method = "snv"\n[data]\nname = "digits"\ntasks = 4\n[train]\nepochs = 3\n')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "own.toml").write_text('base = "../base.toml"\n[data]\ntasks = 2\n[learner]\ncapacity = 0.3\n')
    config = load_config(tmp_path / "sub" / "own.toml", ["train.epochs=7"])
    assert (config.method, config.data.name, config.data.tasks, config.train.epochs) == ("snv", "digits", 2, 7)
    assert config.learner["capacity"] == 0.3


def test_a_file_based_on_itself_or_on_nothing_is_refused(tmp_path):
    (tmp_path / "a.toml").write_text('base = "b.toml"\n')
    (tmp_path / "b.toml").write_text('base = "a.toml"\n')
    with pytest.raises(UserError, match="based on itself"):
        load_config(tmp_path / "a.toml")
    (tmp_path / "c.toml").write_text('base = "missing.toml"\n')
    with pytest.raises(UserError, match=r"no config file .*missing\.toml"):
        load_config(tmp_path / "c.toml")


CONFIGS = Path(__file__).parents[1] / "configs"
STUDIES = [path for path in sorted(CONFIGS.rglob("*.toml")) if "\n[groups." in path.read_text(encoding="utf-8")]
RUNS = [path for path in sorted(CONFIGS.rglob("*.toml")) if path not in STUDIES and path.parent.name != "tuned"]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: str(path.relative_to(CONFIGS)))
def test_every_config_of_a_run_is_valid(path):
    load_config(path)


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: str(path.relative_to(CONFIGS)))
def test_a_study_is_no_run_and_says_what_takes_it(path):
    with pytest.raises(UserError, match="Use snv bench"):
        load_config(path)


def test_none_on_a_command_line_is_a_word_where_a_setting_has_that_word_and_nothing_elsewhere():
    config = load_config(
        None, ["method=snv", "learner.reuse=none", "learner.common=none", "learner.draws=none", "data.size=none"]
    )
    own = config.learner_config()
    assert (own.reuse, own.common, own.draws, config.data.size) == ("none", "none", None, None)
    assert build(RunConfig, config.as_dict()).learner_config() == own
    with pytest.raises(UserError, match=r"learner.size: input should be 'remaining' or .*; got None"):
        load_config(None, ["method=snv", "learner.size=none"])


# ---- presets


def test_a_preset_stands_above_the_file_and_below_the_overrides(tmp_path):
    file = write(tmp_path / "a.toml", EXAMPLE.replace('"joint"', '"ewc"') + "[learner]\nstrength = 1\nimages = 9\n")
    config = load_config(file, preset="paper/imagenet-1k")
    assert (config.train.lr, config.learner) == (0.001, {"strength": 25, "images": 9, "decay": 1})
    assert load_config(file, ["learner.strength=7"], "paper/imagenet-1k").learner["strength"] == 7


def test_a_preset_is_that_of_the_method_asked_for():
    assert load_config(None, ["method=wsn"], "paper/cifar100").train.lr == 0.001
    assert load_config(None, ["method=nispa"], "paper/cifar100").train.lr == 0.01


@pytest.mark.parametrize(
    ("method", "preset", "says"),
    [
        ("ewc", "paper/cifar10", "Did you mean 'paper/cifar100'.*paper/tiny-imagenet"),
        ("slda", "paper/cifar100", "no settings of slda; it has some of ewc, si"),
        ("nobody", "paper/cifar100", "no method called 'nobody'"),
        ("ewc", "missing.toml", "no config file missing.toml"),
    ],
)
def test_a_preset_that_does_not_exist_is_answered_with_those_that_do(method, preset, says):
    with pytest.raises(UserError, match=says):
        load_config(None, [f"method={method}"], preset)


def test_a_file_of_methods_own_settings_is_a_preset_too(tmp_path):
    text = "[wsn.train]\nlr = 0.5\n[wsn.til.learner]\ncapacity = 0.7\n[ewc.cil.learner]\nstrength = 3\n"
    file = str(write(tmp_path / "own.toml", text))
    config = load_config(None, ["method=wsn"], file)
    assert (config.train.lr, config.learner) == (0.5, {"capacity": 0.7})
    assert load_config(None, ["method=ewc", "scenario=cil"], file).learner == {"strength": 3}
    assert load_config(None, ["method=ewc"], file).learner == {}
    with pytest.raises(UserError, match="no settings of sgd; it has some of wsn, ewc"):
        load_config(None, [], file)
    with pytest.raises(UserError, match="Did you mean 'wsn'"):
        load_config(None, [], str(write(tmp_path / "typo.toml", "[wns.train]\nlr = 1\n")))


def test_settings_are_changed_by_their_dotted_names():
    config = changed(load_config(None, ["method=ewc"]), {"train.lr": 0.5, "learner.strength": 2})
    assert (config.train.lr, config.learner["strength"]) == (0.5, 2)
    with pytest.raises(UserError, match="Did you mean 'strength'"):
        changed(config, {"learner.strenght": 2})


def test_what_a_run_takes_of_a_machine_is_read_and_kept_by_no_record():
    config = load_config(None, ["resources.cpus=2", "resources.memory=2GB"])
    assert (config.resources.cpus, config.resources.bytes) == (2, 2_000_000_000)
    assert "resources" not in config.as_dict()
    assert config.as_dict() == load_config(None).as_dict()
    assert changed(config, {"train.lr": 0.5, "resources.gpus": 1}).resources == Resources(2, 1, "2GB")
    with pytest.raises(UserError, match="Did you mean 'gpus'"):
        load_config(None, ["resources.gpu=1"])


def test_a_config_that_names_a_file_of_code_does_not_have_it_executed_until_the_user_names_it(tmp_path):
    trap = tmp_path / "trap.py"
    trap.write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'executed')!r}).touch()")
    for text in (f'method = "{trap}:Trap"', 'base = "base.toml"\nseed = 1'):
        write(tmp_path / "base.toml", f'method = "{trap}:Trap"')
        with pytest.raises(UserError, match=r"names the method .*trap\.py:Trap, a file that would be executed"):
            load_config(write(tmp_path / "run.toml", text))
    with pytest.raises(UserError, match="would be executed"):
        load_config(preset=str(write(tmp_path / "own.toml", f'["{trap}:Trap".train]\nlr = 1')))
    assert not (tmp_path / "executed").exists()
    with pytest.raises(UserError, match="holds no method"):
        load_config(tmp_path / "base.toml", [f"method={trap}:Trap"])
    assert (tmp_path / "executed").exists(), "the attack is one"


@pytest.mark.parametrize(
    "setting",
    [
        *("threads=1000000000", "threads=0", "data.workers=100000", "data.workers=-1", "network.width=1000000000"),
        *("network.hidden=[10000000000]", "train.lr=nan", "train.lr=inf", "seed=nan", "data.tasks=[[1]]", "learner=1"),
        *("train.epochs=1e400", "data.size=-1", "scenario=../til", "device=[1]", "checkpoint_seconds='x'"),
    ],
)
def test_a_setting_that_no_computer_can_follow_is_refused(setting):
    with pytest.raises(UserError):
        load_config(None, [setting])
