"""Tokens against one pass per token, written out; what a task adds, and that no token feels another."""

from __future__ import annotations

import copy

import pytest
import torch

from snv.networks import TokenNetwork, divergence_head, frozen_copy, n_parameters
from snv.networks.encoder import PatchEncoder
from snv.networks.tokens import TaskAttention
from snv.seeding import generator


def network(*sizes: int) -> TokenNetwork:
    made = TokenNetwork(PatchEncoder((1, 8, 8), 4, 16, 1, 4, generator(0)), 16, 4, seed=0)
    for k in sizes:
        made.add_head(k)
    return made


IMAGES = torch.randn(5, 1, 8, 8, generator=generator(7))


@torch.no_grad()
def test_task_attention_equals_a_pass_per_token_over_itself_and_the_patches():
    block = TaskAttention(16, 4, generator(0))
    tokens, patches = torch.randn(3, 16, generator=generator(1)), torch.randn(2, 6, 16, generator=generator(2))
    together = block(tokens, patches)
    for b in range(2):
        for i in range(3):
            rows = block.norm(torch.cat([tokens[i : i + 1], patches[b]]))  # [θ_i; patches]
            query = block.query(rows[:1])
            keys, values = block.key_value(rows).split(16, dim=1)
            mixed = []
            for h in range(4):
                part = slice(4 * h, 4 * h + 4)
                weights = (query[0, part] @ keys[:, part].T / 2).softmax(0)
                mixed.append(weights @ values[:, part])
            c = tokens[i] + block.out(torch.cat(mixed))
            e = c + block.mlp(block.second_norm(c))
            torch.testing.assert_close(together[b, i], e, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_token_moves_its_own_logits_and_no_bit_of_others():
    made = network(2, 3, 2)
    before = made(IMAGES)
    made.heads[1].token.add_(torch.randn(16, generator=generator(3)))
    after = made(IMAGES)
    assert torch.equal(before[:, :2], after[:, :2])
    assert torch.equal(before[:, 5:], after[:, 5:])
    assert not torch.isclose(before[:, 2:5], after[:, 2:5]).any()


@pytest.mark.parametrize("k", [2, 7])
def test_a_task_adds_its_token_a_norm_and_a_linear_head(k):
    made = network(2)
    before = n_parameters(made)
    made.add_head(k)
    assert n_parameters(made) - before == 16 + 2 * 16 + 16 * k + k
    assert made.head_sizes == [2, k]


@torch.no_grad()
def test_one_tasks_logits_are_its_columns_of_all():
    made = network(2, 3)
    torch.testing.assert_close(made(IMAGES, 1), made(IMAGES)[:, 2:])


def test_tokens_start_small_and_each_in_its_own_way():
    made = network(2, 2)
    first, second = (head.token for head in made.heads)
    assert not torch.equal(first, second)
    assert max(first.abs().max(), second.abs().max()) <= 0.04
    assert torch.equal(made.fresh_head(2, 2).token, second)


@torch.no_grad()
def test_a_frozen_copy_with_fewer_heads_answers_as_the_first_tasks_do():
    made = network(2, 3)
    twin = frozen_copy(made, 1)
    assert torch.equal(twin(IMAGES), made(IMAGES, 0))
    assert torch.equal(copy.deepcopy(made)(IMAGES), made(IMAGES))


def test_without_a_task_there_are_no_logits():
    with pytest.raises(ValueError, match="no head yet"):
        network()(IMAGES)


def test_the_divergence_head_has_one_output_for_all_that_is_old():
    d = divergence_head(16, range(4, 7), seed=0)
    assert d(torch.randn(5, 16)).shape == (5, 4)
    assert n_parameters(d) == 2 * 16 + 16 * 4 + 4
