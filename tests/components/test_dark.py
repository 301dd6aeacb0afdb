"""Which stored logits count, and what they pull."""

from __future__ import annotations

import pytest
import torch

from snv.components.dark import in_columns, label_loss, logit_loss, passed, stored_columns, two_draws
from snv.components.replay import Reservoir
from snv.networks import build_network
from snv.seeding import generator

BLOCKS = [range(2), range(2, 4), range(4, 7)]


def test_logits_stored_before_a_class_existed_say_nothing_about_it():
    logits = torch.randn(3, 7, requires_grad=True)
    labels = torch.tensor([0, 3, 6])
    valid = stored_columns(labels, BLOCKS, False)
    assert valid.sum(1).tolist() == [2, 4, 7]
    logit_loss(logits, torch.zeros(3, 7), valid).backward()
    assert torch.equal(logits.grad != 0, valid)
    torch.testing.assert_close(logits.grad[valid], 2 * logits.detach()[valid] / 13)


def test_in_TIL_an_image_answers_to_its_own_head_only():
    labels = torch.tensor([1, 2, 5])
    own = stored_columns(labels, BLOCKS, True)
    assert [row.nonzero().flatten().tolist() for row in own] == [[0, 1], [2, 3], [4, 5, 6]]
    logits = torch.randn(3, 7, requires_grad=True)
    label_loss(logits, labels, own).backward()
    assert torch.equal(logits.grad != 0, own)


def a_reservoir() -> Reservoir:
    reservoir = Reservoir(40)
    labels = torch.arange(40) % 7
    pixels = torch.arange(40, dtype=torch.uint8).view(40, 1, 1, 1)
    reservoir.offer(generator(0, "offer"), pixels=pixels, labels=labels, logits=torch.randn(40, 7))
    return reservoir


def test_two_draws_are_drawn_by_themselves_and_made_ready_together():
    reservoir, asked = a_reservoir(), []
    draws = two_draws(reservoir, 8, lambda purpose: generator(0, purpose))
    assert len(draws) == 8 and not torch.equal(draws.dark["labels"], draws.plain["labels"])

    def ready(pixels):
        asked.append(len(pixels))
        return pixels.float()

    dark, plain = draws.images(ready)
    assert asked == [16]
    assert torch.equal(dark, draws.dark["pixels"].float()) and torch.equal(plain, draws.plain["pixels"].float())


@pytest.mark.parametrize("own_head", [False, True])
def test_the_first_draw_costs_by_its_logits_and_the_second_by_its_labels(own_head):
    draws = two_draws(a_reservoir(), 8, lambda purpose: generator(0, purpose))
    z = torch.randn(2, 8, 7).unbind()
    matched, repeated = draws.losses(z, BLOCKS, own_head)
    y_dark, y_plain = draws.dark["labels"], draws.plain["labels"]
    assert torch.equal(matched, logit_loss(z[0], draws.dark["logits"], stored_columns(y_dark, BLOCKS, own_head)))
    among = stored_columns(y_plain, BLOCKS, True) if own_head else None
    assert torch.equal(repeated, label_loss(z[1], y_plain, among))


@pytest.mark.parametrize(("reservoir", "n"), [(Reservoir(5), 4), (a_reservoir(), 0)])
def test_where_nothing_is_drawn_nothing_is_made_ready_and_nothing_costs(reservoir, n):
    draws = two_draws(reservoir, n, lambda purpose: generator(0, purpose))
    assert len(draws) == 0 and len(draws.images(lambda _: pytest.fail("asked"))) == 0
    assert draws.losses([], BLOCKS, False) == (0, 0)


@pytest.mark.parametrize("own_head", [False, True])
def test_one_pass_gives_the_logits_of_several_and_new_images_may_answer_by_the_newest_head_alone(own_head):
    network = build_network("mlp", (1, 8, 8), 0, hidden=[5])
    for k in (2, 3):
        network.add_head(k)
    batches = [torch.randn(n, 1, 8, 8) for n in (4, 2, 3)]
    several, one = (passed(network, batches, together, own_head) for together in (False, True))
    assert [tuple(z.shape) for z in several] == [(4, 3 if own_head else 5), (2, 5), (3, 5)]
    for z, expected in zip(one, several, strict=True):
        torch.testing.assert_close(z, expected)


def test_logits_of_the_newest_classes_are_stored_at_their_places():
    assert in_columns(torch.ones(1, 2), 5).tolist() == [[0, 0, 0, 1, 1]]
    assert in_columns(torch.ones(1, 5), 5).tolist() == [[1] * 5]
