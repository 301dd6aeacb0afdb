"""What a method uses of the network and keeps beside it, counted by hand for an MLP 64-24 and six classes in pairs."""

from __future__ import annotations

import dataclasses
import math

import pytest
from toy import learn, make, toy_stream

from snv.learners import LEARNERS, bytes_beyond_network
from snv.networks import build_network

T, PIXELS, HIDDEN, CLASSES = 3, 64, 24, 6
WEIGHTS = PIXELS * HIDDEN
BODY = WEIGHTS + HIDDEN
HEADS = CLASSES * (HIDDEN + 1)
IMAGES = 6 * 24  # of 30 of each class, training and validation
SPACE, FEATURES = 3 * 4 * (36 + 1), 3 * 8  # of SLDA with three filters of 6 x 6
COMMON, MANY = 32 * 4 * (36 + 1), 32 * 8  # of SNV with as many as images of 8 x 8 have by default
FOR_ALL = HIDDEN + 8 * HIDDEN  # B_t, and the sums of values that come from training

BY_HAND = {
    ("sgd", "til"): 0,
    ("joint", "cil"): IMAGES * PIXELS,
    ("ewc", "til"): 2 * 4 * BODY,
    ("ewc", "cil"): 2 * 4 * (BODY + HEADS),
    ("si", "cil"): 4 * (BODY + HEADS),
    ("lwf", "til"): 4 * (BODY + HEADS),
    ("nfl", "til"): 0,
    # the auto-encoder, and a row of V with v0, u and q for every class but the newest
    ("nfl+", "cil"): 4 * (2 * 8 * HIDDEN + 8 + HIDDEN) + 4 * (CLASSES - 2) * (8 + 3),
    ("icarl", "cil"): 12 * PIXELS + 4 * CLASSES * HIDDEN,
    ("der++", "cil"): 12 * (PIXELS + 8 + 4 * CLASSES),
    ("dytox", "cil"): 12 * PIXELS,  # tokens are parts of heads
    ("wsn", "til"): 4 * WEIGHTS + T * (WEIGHTS // 8 + 4 * HIDDEN),
    ("spacenet", "til"): WEIGHTS + 2 * (HIDDEN + 2),  # P; two masks of units, with the image and the classes
    ("nispa", "cil"): WEIGHTS + 2 * (HIDDEN + 2),
    # gates of the MLP and of the projector, of every task and the next; directions; the projector
    ("dcnet", "til"): 4 * (T + 1) * 2 * HIDDEN + 4 * CLASSES * 9 + 4 * (HIDDEN + 9) * (HIDDEN + 1),
    ("pec", "cil"): CLASSES * 4 * (9 * 2 + 3 * 2 + 5 * (2 * 16 + 1)),
    ("slda", "til"): SPACE + 4 * CLASSES * (FEATURES + 1),
    ("slda", "cil"): SPACE + 8 * (CLASSES * (FEATURES + 1) + FEATURES * (FEATURES + 1) // 2),
    ("snv-paper", "til"): HIDDEN + T * 9 * HIDDEN,  # B_t; per task a mask and the values
    # per task a mask, the values and four weights; heads in the common space
    ("snv", "til"): FOR_ALL + T * (9 * HIDDEN + 16) + COMMON + 4 * CLASSES * (MANY + 1),
    # besides, sums of every class, and half of all products
    ("snv", "cil"): FOR_ALL + T * (9 * HIDDEN + 16) + COMMON + 12 * CLASSES * (MANY + 1) + 4 * MANY * (MANY + 1),
}


def learned(name, scenario, built=None, **config):
    stream = toy_stream(T)
    learner = make(name, scenario, stream, epochs=2, **config)
    if built is not None:
        learner = type(learner)(dataclasses.replace(learner.setting, network=built), learner.config)
    for t in range(T):
        learn(learner, stream, t)
    return learner


@pytest.mark.parametrize(("name", "scenario"), BY_HAND, ids=lambda part: part)
def test_the_bytes_kept_beyond_the_network_equal_the_hand_count(name, scenario):
    own = {"pec": {"width": 2, "teacher": 3, "outputs": 5}, "icarl": {"buffer": 12}, "der++": {"buffer": 12}}
    own["dytox"] = {"buffer": 12}
    own["slda"], own["dcnet"] = {"filters": 3}, {"dimension": 9}
    own["spacenet"] = own["nispa"] = {"network": "adapted"}
    own["snv-paper"] = {"permutations": 2, "burn_in": 2}
    learner = learned(name, scenario, **own.get(name, {}))
    expected = BY_HAND[name, scenario]
    newest = toy_stream(T).upto(T - 1) if learner.card.sees == "all tasks" else toy_stream(T).task(T - 1)
    assert bytes_beyond_network(learner, newest) == expected


def test_every_method_is_counted():
    assert {name for name, _ in BY_HAND} == set(LEARNERS)


def convnet():
    return build_network("convnet", (1, 8, 8), 0, width=4)


def test_capacity_counts_the_norm_layers_of_every_task_of_SNV():
    learner = learned("snv", "til", convnet(), capacity=0.3)
    masks = [s.mask for s in learner.specialists.subnetworks]
    weights = 0
    for parts in zip(*(learner.specialists.reads(t) for t in range(T)), strict=True):
        union = parts[0].entries | parts[1].entries | parts[2].entries
        tensor = parts[0].owned.tensor
        weights += int(union.sum()) * math.prod(tensor.shape[2:])
    norms = sum(2 * int(mask.sum()) for mask in masks)
    dense = 4 * 9 + 4 * 36 + 8 * 36 + 8 * 72 + 2 * 24
    assert learner.capacity()["parameters"] == pytest.approx((weights + norms) / dense)
    assert norms > 2 * int((masks[0] | masks[1] | masks[2]).sum()), "neurons that tasks share have a norm for each"


def test_capacity_counts_the_norm_layers_of_every_task_of_WSN():
    learner = learned("wsn", "til", convnet(), capacity=0.3)
    weights = sum(int((~free).sum()) for free in learner.free.values())
    dense = 4 * 9 + 4 * 36 + 8 * 36 + 8 * 72 + 2 * 24
    assert learner.capacity()["parameters"] == pytest.approx((weights + T * 2 * 24) / dense)
