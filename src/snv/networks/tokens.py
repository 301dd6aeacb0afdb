"""One learned token per task asks the patches of an image what they show (DyTox, Douillard et al., 2022)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snv.errors import UserError
from snv.networks.body import Body, linear, uniform
from snv.networks.encoder import MapEncoder, PatchEncoder, default_patch, matching_width, perceptron, small
from snv.networks.head import Network, n_parameters
from snv.networks.resnet import ResNet18
from snv.seeding import generator
from snv.shapes import Features, Logits

Embeddings = Float[Tensor, "b t d"]  # e_i: one per task


class TaskAttention(nn.Module):
    """c_i = θ_i + W·attention(θ_i; [θ_i, patches]), e_i = c_i + MLP(LN(c_i)): the same weights for every token θ_i.

    A token sees itself and the patches, never another token. So keys and values of the patches are computed once, and
    a further token costs next to nothing.
    """

    def __init__(self, dim: int, heads: int, rng: torch.Generator) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.second_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query = linear(dim, dim, rng=rng, bias=False)
        self.key_value = linear(dim, 2 * dim, rng=rng, bias=False)
        self.out = linear(dim, dim, rng=rng)
        self.mlp = perceptron(dim, rng)

    def forward(self, tokens: Float[Tensor, "t d"], patches: Float[Tensor, "b n d"]) -> Embeddings:
        own, seen = self.norm(tokens), self.norm(patches)
        query = self._split(self.query(own)) * (tokens.shape[1] // self.heads) ** -0.5  # (h, t, d / h)
        own_key, own_value = map(self._split, self.key_value(own).chunk(2, dim=-1))
        key, value = map(self._split, self.key_value(seen).chunk(2, dim=-1))  # (b, h, n, d / h)
        of_patches = query @ key.mT  # (b, h, t, n)
        of_itself = (query * own_key).sum(-1, keepdim=True).expand(len(patches), -1, -1, 1)
        weights = torch.cat([of_itself, of_patches], dim=-1).softmax(-1)
        mixed = weights[..., :1] * own_value + weights[..., 1:] @ value
        c = tokens + self.out(mixed.transpose(1, 2).flatten(2))
        return cast(Tensor, c + self.mlp(self.second_norm(c)))

    def _split(self, x: Tensor) -> Tensor:
        """Heads as an axis of their own: (…, n, d) becomes (…, h, n, d / h)."""
        return x.view(*x.shape[:-1], self.heads, -1).transpose(-3, -2)


class TokenHead(nn.Linear):
    """All that a task has for itself: its token, and a linear head that reads the normalised embedding of the token."""

    def __init__(self, dim: int, k: int, seed: int, start: int) -> None:
        super().__init__(dim, k, device="meta")
        uniform(self, generator(seed, "head", start))
        self.token = nn.Parameter(small(torch.empty(dim), generator(seed, "token", start)))  # θ
        self.norm = nn.LayerNorm(dim)

    def forward(self, embedding: Features) -> Logits:
        logits: Logits = super().forward(self.norm(embedding))
        return logits


class TokenNetwork(Network):
    """A body whose features are patches in a row, task attention, and a token with its head for every task."""

    def __init__(self, body: Body, dim: int, heads: int, seed: int) -> None:
        super().__init__(body, seed)
        self.dim = dim
        self.attention = TaskAttention(dim, heads, generator(seed, "task attention"))

    def fresh_head(self, start: int, k: int) -> TokenHead:
        head = TokenHead(self.dim, k, self.seed, start)
        return head.to(next(self.body.parameters()).device)

    def classify(self, features: Features, task: int | None = None) -> Logits:
        """Logits of one task, whose token alone is asked, or of all."""
        if len(self.heads) == 0:
            return super().classify(features, task)  # which says what is missing
        heads = self.of(range(len(self.heads)) if task is None else [task])
        return answers_of(heads, self.embeddings(features, heads))

    def of(self, tasks: Iterable[int]) -> list[TokenHead]:
        return [cast(TokenHead, self.heads[t]) for t in tasks]

    def embeddings(self, features: Features, heads: Sequence[TokenHead]) -> Embeddings:
        """e_i of the tokens of some heads."""
        tokens = torch.stack([head.token for head in heads])
        embeddings: Embeddings = self.attention(tokens, features.unflatten(1, (-1, self.dim)))
        return embeddings


def answers_of(heads: Sequence[TokenHead], embeddings: Embeddings) -> Logits:
    """Each head's logits of its own embedding, side by side."""
    return torch.cat([head(e) for head, e in zip(heads, embeddings.unbind(1), strict=True)], dim=1)


def token_network(
    beside: Network,
    shape: tuple[int, int, int],
    seed: int,
    encoder: str = "patches",
    dim: int | None = None,
    heads: int | None = None,
    depth: int = 5,
    patch: int | None = None,
) -> TokenNetwork:
    """For images of ``shape``: a transformer about as large as the network it stands in for, or the first stages of it.

    ``encoder`` is "patches" or "resnet", for which ``dim``, ``depth`` and ``patch`` have no meaning.
    """
    rng = generator(seed, "encoder")
    if encoder == "resnet":
        if not isinstance(beside.body, ResNet18):
            kind = type(beside.body).__name__
            raise UserError(
                f"learner.encoder=resnet takes the stages of a ResNet-18; got {kind}. Set network.name=resnet18."
            )
        maps = MapEncoder(beside.body, heads or 12, rng)
        return TokenNetwork(maps, maps.dim, heads or 12, seed)
    dim = dim or matching_width(n_parameters(beside.body), depth)
    heads = heads or max(4, dim // 32)
    if dim % heads:
        raise UserError(
            f"learner.dim is a multiple of learner.heads; got {dim} and {heads}. Try {heads * (dim // heads)}."
        )
    patch = patch or default_patch(min(shape[1:]))
    return TokenNetwork(PatchEncoder(shape, patch, dim, depth, heads, rng), dim, heads, seed)


def divergence_head(dim: int, block: range, seed: int) -> nn.Module:
    """d: reads the embedding of the newest token; one output for all old classes, one for each class of ``block``."""
    return nn.Sequential(
        nn.LayerNorm(dim), linear(dim, len(block) + 1, rng=generator(seed, "divergence head", block.start))
    )
