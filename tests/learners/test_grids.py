"""Cards say what the paper searched and chose; what they call idle on the first task changes no answer there."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from toy import learn, make, toy_stream

from snv.config import load_config
from snv.learners import LEARNERS
from snv.learners.grids import paper_presets

ELSEWHERE = {("snv", "learner.floor"), ("snv", "learner.confidence")}
"""Settings of one estimator only, which a toy does not wait for."""


def answers_after_the_first_task(name: str, settings: dict[str, object]) -> torch.Tensor:
    own = {key.removeprefix("learner."): value for key, value in settings.items() if key.startswith("learner.")}
    of_training = {key.removeprefix("train."): value for key, value in settings.items() if key.startswith("train.")}
    stream = toy_stream(2)
    learner = make(name, LEARNERS[name].card.scenarios[0], stream, 3, **own)
    train = dataclasses.replace(learner.setting.train, **of_training)
    learner.setting = dataclasses.replace(learner.setting, train=train)
    learn(learner, stream, 0)
    learner.network.eval()
    images, _ = next(learner.setting.prepared(stream.task(0).val))
    with torch.no_grad():
        return learner.logits(images, stream.blocks[0])


@pytest.mark.parametrize("name", [name for name, kind in LEARNERS.items() if len(kind.card.space) > 1])
def test_settings_change_answers_on_the_first_task_unless_the_card_says_otherwise(name):
    card = LEARNERS[name].card
    space = {key: values for key, values in card.space.items() if key != "train.lr" and (name, key) not in ELSEWHERE}
    still = {key for key in space if key in card.idle_first}
    base = answers_after_the_first_task(name, {key: values[0] for key, values in space.items()})
    for changed in [still, *({key} for key in space if key not in still)]:
        if not changed:
            continue
        asked = {key: values[-1] if key in changed else values[0] for key, values in space.items()}
        answers = answers_after_the_first_task(name, asked)
        if changed & set(card.idle):  # but for the last digits: Adam adds a constant to what it divides by
            assert (answers - base).abs().max() < 0.01 * base.abs().max(), changed
        else:
            assert torch.equal(answers, base) == (changed == still), changed


@pytest.mark.parametrize("name", LEARNERS)
def test_a_card_names_only_settings_of_its_grid(name):
    card = LEARNERS[name].card
    assert {*card.idle_first, *card.idle} <= set(card.space)
    assert not set(card.idle_first) & set(card.idle)
    for setting, values in card.space.items():
        assert len(set(values)) == len(values) > 1, setting


PRESETS = [(name, preset) for name, kind in LEARNERS.items() for preset in kind.card.presets]


@pytest.mark.parametrize(("name", "preset"), PRESETS, ids=[f"{name}-{preset}" for name, preset in PRESETS])
def test_what_the_paper_chose_is_what_it_searched_and_can_be_run(name, preset):
    card = LEARNERS[name].card
    for setting, value in card.presets[preset].items():
        assert value in card.space.get(setting, [value]), setting
    scenario = card.scenarios[0]
    config = load_config(None, [f"method={name}", f"scenario={scenario}"], preset=preset)
    assert config.train.lr == card.presets[preset]["train.lr"]


def test_the_paper_chose_for_every_method_it_searched():
    assert [name for name, kind in LEARNERS.items() if not kind.card.presets] == ["sgd", "joint", "nfl", "slda"]


def test_on_imagenet_the_learning_rate_is_a_tenth_and_what_differs_stands_above():
    made = paper_presets(0.01, {"learner.strength": 10}, imagenet={"learner.strength": 25})
    assert made["paper/cifar100"] == made["paper/tiny-imagenet"] == {"train.lr": 0.01, "learner.strength": 10}
    assert made["paper/imagenet-1k"] == {"train.lr": 0.001, "learner.strength": 25}
