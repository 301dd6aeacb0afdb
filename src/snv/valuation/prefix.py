"""Forward passes for many coalitions that compute everything they have in common only once.

Changing one neuron of layer l leaves all activations before l as they were. So a batch of coalitions starts as one
copy of the images, and at each layer it splits into as many copies as there are different settings of the neurons up
to there: one flip costs only what comes after its layer, and a walk through a permutation restarts at the layer that
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from jaxtyping import Float, Int64
from torch import Tensor, fx, nn

from snv.networks import MAPS
from snv.neurons import Forward, Means, Neurons, gate_output, graph_of
from snv.shapes import Gates


@dataclass(frozen=True, eq=False)
class Sharing:
    """Coalition j uses copy ``copy[j]`` of a value that exists ``n`` times."""

    copy: Int64[Tensor, " p"]
    n: int

    @property
    def example(self) -> Int64[Tensor, " n"]:
        """One coalition per copy."""
        return torch.empty(self.n, dtype=torch.long).scatter_(0, self.copy, torch.arange(len(self.copy)))


Sharings: TypeAlias = dict[fx.Node, tuple[Sharing, Sharing]]
"""How many copies of each value there are, before and after its layer's gates."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Coalitions that share a forward pass, how many examples at a time, and the forward passes that costs."""

    gates: Gates
    examples: int
    cost: float  # per example, for all coalitions together
    sharing: Sharings = field(default_factory=dict)


@dataclass(eq=False)
class Step:
    """One operation of the network."""

    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    parents: list[fx.Node]
    layer: int | None  # position of the layer of players it belongs to
    finished: list[fx.Node]  # values nobody needs after this step
    shape: tuple[int, ...] = ()  # of its result for one example
    bytes: int = 0
    macs: int = 0  # multiply-accumulates for one example


class Replay:
    """A network as a list of steps, run for many coalitions at once; made by `traced`."""

    def __init__(self, root: nn.Module, graph: fx.Graph, neurons: Neurons) -> None:
        self.neurons = neurons
        self.steps = _steps(root, graph, neurons)
        self.input = next(node for node in graph.nodes if node.op == "placeholder")
        self.output = next(node for node in graph.nodes if node.op == "output").args[0]

    def profile(self, example: Tensor) -> None:
        """Note the size and the multiply-accumulates of every step for one example (a batch of one)."""
        everyone, no_means = torch.ones(1, self.neurons.n), torch.zeros(0)
        self._run(example, everyone, self.sharing(everyone), no_means, _measure)

    @property
    def macs(self) -> int:
        return sum(step.macs for step in self.steps.values())

    def sharing(self, gates: Gates) -> Sharings:
        """How many copies of each value the coalitions need, before and after its layer's gates."""
        alone = Sharing(torch.zeros(len(gates), dtype=torch.long), 1)
        by_layer = [_distinct(part) for _, part in self.neurons.by_layer(gates)]
        sharings = {self.input: (alone, alone)}
        for node, step in self.steps.items():
            before = _joint([alone, *(sharings[parent][1] for parent in step.parents)])
            after = before if step.layer is None else _joint([before, by_layer[step.layer]])
            sharings[node] = (before, after)
        return sharings

    def peak(self, sharing: Sharings) -> int:
        """Bytes of activations alive at once, per example."""
        alive: dict[fx.Node, int] = {}
        most = 0
        for node, step in self.steps.items():
            before, after = sharing[node]
            alive[node] = step.bytes * after.n
            widened = sum(self._bytes(parent) * before.n for parent in step.parents if sharing[parent][1] is not before)
            gating = step.bytes * (before.n + after.n) if step.layer is not None else 0
            most = max(most, sum(alive.values()) + widened + gating)
            for done in step.finished:
                alive.pop(done, None)
        return most

    def cost(self, sharing: Sharings) -> float:
        """Multiply-accumulates per example, in units of one forward pass."""
        return sum(step.macs * sharing[node][0].n for node, step in self.steps.items()) / max(self.macs, 1)

    def plan(self, gates: Gates, examples: int, memory: int) -> Plan:
        """As many of the coalitions, and then of the examples, as fit into ``memory`` bytes of activations."""
        while True:
            sharing = self.sharing(gates)
            needed = self.peak(sharing)
            if len(gates) == 1 or needed * examples <= memory:
                break
            gates = gates[: max(1, min(len(gates) // 2, len(gates) * memory // (needed * examples)))]
        return Plan(gates, max(1, min(examples, memory // max(needed, 1))), self.cost(sharing), sharing)

    def logits(self, images: Tensor, plan: Plan, means: Means) -> Float[Tensor, "p b k"]:
        """The logits of every coalition for ``images``."""
        copies = plan.sharing[self.output][1]
        values = self._run(images, plan.gates, plan.sharing, means)
        return torch.unflatten(values, 0, (copies.n, -1))[copies.copy.to(values.device)]

    def _run(
        self,
        images: Tensor,
        gates: Gates,
        sharing: Sharings,
        means: Means,
        watch: Callable[[Step, Tensor], None] | None = None,
    ) -> Tensor:
        values: dict[fx.Node, Tensor] = {self.input: images}
        for node, step in self.steps.items():
            before, after = sharing[node]
            ready = {parent: _widened(values[parent], sharing[parent][1], before) for parent in step.parents}
            args, kwargs = fx.node.map_arg((step.args, step.kwargs), ready.__getitem__)
            if watch is None and self._is_silent(step, gates):
                values[node] = self._constant(step, len(images) * after.n, means)
            else:
                result = step.call(*args, **kwargs)
                if not isinstance(result, Tensor):
                    raise NotImplementedError(f"{node} gives {type(result).__name__}; only tensors can be followed")
                if watch is not None:
                    watch(step, result)
                if step.layer is not None:
                    result = self._gate(step.layer, _widened(result, before, after), gates, after, means)
                values[node] = result
                del result
            del ready, args, kwargs
            for done in step.finished:
                del values[done]
        return values[self.output]

    def _is_silent(self, step: Step, gates: Gates) -> bool:
        """Whether no coalition has a neuron of this layer, so that its output need not be computed."""
        if step.layer is None:
            return False
        layer = self.neurons.layers[step.layer]
        plain = layer.batch_axis == 0 and layer.axis == 1 and layer.width == 1
        return plain and not bool(gates[:, layer.neurons].any())

    def _constant(self, step: Step, batch: int, means: Means) -> Tensor:
        """Every neuron of a layer at its mean."""
        assert step.layer is not None
        own = means[self.neurons.layers[step.layer].responses]
        return own.view(1, -1, *[1] * (len(step.shape) - 1)).expand(batch, *step.shape)

    def _gate(self, index: int, result: Tensor, gates: Gates, copies: Sharing, means: Means) -> Tensor:
        layer = self.neurons.layers[index]
        own = gates[copies.example, layer.neurons]
        if bool((own == 1).all()):
            return result
        return gate_output(layer, result, own, means[layer.responses])

    def _bytes(self, node: fx.Node) -> int:
        return self.steps[node].bytes if node in self.steps else 0


class Untraceable(Exception):  # noqa: N818 - an answer, not a mistake
    """Why a model cannot be followed step by step."""


def traced(model: nn.Module, neurons: Neurons, forward: Forward | None = None) -> Replay:
    """The model as steps; `Untraceable` if Python code in it depends on the data or hides a layer of players."""
    root = _Root(model, forward or model)
    try:
        return Replay(root, graph_of(root), neurons)
    except Exception as error:  # of the model's own code, run on a value that is not a tensor
        raise Untraceable(f"{type(error).__name__}: {str(error).strip().rstrip('.')}") from error


class _Root(nn.Module):
    """Gives the tracer a module that contains the model, also where logits come from another callable."""

    def __init__(self, model: nn.Module, forward: Forward) -> None:
        super().__init__()
        self.model = model
        self._logits = [forward]  # in a list, so that a model is not registered twice

    def forward(self, images: Tensor) -> Tensor:
        return self._logits[0](images)


def _steps(root: nn.Module, graph: fx.Graph, neurons: Neurons) -> dict[fx.Node, Step]:
    positions = {layer.module: i for i, layer in enumerate(neurons.layers)}
    last = {parent: node for node in graph.nodes for parent in node.all_input_nodes}
    steps: dict[fx.Node, Step] = {}
    for node in graph.nodes:
        if node.op in {"placeholder", "output"}:
            continue
        module = root.get_submodule(str(node.target)) if node.op == "call_module" else None
        finished = [parent for parent in node.all_input_nodes if last[parent] is node]
        layer = positions.get(module) if module is not None else None
        steps[node] = Step(_callable(node, module), node.args, node.kwargs, node.all_input_nodes, layer, finished)
    missing = {layer.name for i, layer in enumerate(neurons.layers) if all(step.layer != i for step in steps.values())}
    if missing or any(isinstance(layer.module, nn.MultiheadAttention) for layer in neurons.layers):
        raise NotImplementedError(f"layers inside other modules cannot be followed: {sorted(missing)}")
    return steps


def _callable(node: fx.Node, module: nn.Module | None) -> Callable[..., Any]:
    if module is not None:
        return module
    if node.op == "call_function" and callable(node.target):
        return node.target
    if node.op == "call_method":
        name = str(node.target)
        return lambda self, *args, **kwargs: getattr(self, name)(*args, **kwargs)
    raise NotImplementedError(f"{node.op} cannot be followed")


def _measure(step: Step, result: Tensor) -> None:
    step.shape = tuple(result.shape[1:])
    step.bytes = result.numel() * result.element_size()
    weight = getattr(step.call, "weight", None)
    if isinstance(step.call, MAPS) and isinstance(weight, Tensor):
        step.macs = result.numel() * weight[0].numel()


def _distinct(gates: Gates) -> Sharing:
    """Which coalitions set one layer's neurons alike."""
    if bool((gates == gates[:1]).all()):
        return Sharing(torch.zeros(len(gates), dtype=torch.long), 1)
    rows, copy = torch.unique(gates, dim=0, return_inverse=True)
    return Sharing(copy.cpu(), len(rows))


def _joint(sharings: Sequence[Sharing]) -> Sharing:
    """The coarsest sharing that tells apart whatever one of ``sharings`` tells apart."""
    finest = max(sharings, key=lambda sharing: sharing.n)
    key = finest.copy
    for sharing in sharings:
        if sharing is not finest and sharing.n > 1:
            key = key * sharing.n + sharing.copy
    if key is finest.copy:
        return finest
    distinct, copy = torch.unique(key, return_inverse=True)
    return finest if len(distinct) == finest.n else Sharing(copy, len(distinct))


def _widened(value: Tensor, now: Sharing, wanted: Sharing) -> Tensor:
    """``value`` (n of ``now`` times b, …) copied where ``wanted`` has more copies."""
    if now is wanted:
        return value
    source = now.copy[wanted.example].to(value.device)
    return torch.unflatten(value, 0, (now.n, -1)).index_select(0, source).flatten(0, 1)
