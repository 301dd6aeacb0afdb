"""A Ray cluster: the connection to it, what its nodes have, and whether runs can be done there."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from snv.errors import UserError
from snv.machine import Resources, joined
from snv.study.node import Origin, look_around, unseen, versions

ANSWER = 300.0
"""Seconds a node may take to load PyTorch and say what it sees."""


class Cluster:
    """Connected while it is used as a context: see `snv.machine.joined`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._ending = ExitStack()

    def __enter__(self) -> Cluster:
        self.ray = self._ending.enter_context(joined(self.address))
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def part(self, name: str) -> Any:
        """A module of Ray."""
        return importlib.import_module(f"ray.{name}")

    def on(self, node: str, soft: bool = False) -> Any:
        """Where something is to be done: on a node, or, if ``soft``, elsewhere if that is gone."""
        return self.part("util.scheduling_strategies").NodeAffinitySchedulingStrategy(node, soft=soft)

    def seats(self, need: Resources) -> int:
        """How many such runs there is room for when no others are there."""
        return sum(_seats(node, need) for node in self._nodes())

    def check_fits(self, need: Resources) -> None:
        """Refuse a run that would wait for ever."""
        if not self.seats(need):
            found = "; ".join(map(_described, self._nodes()))
            raise UserError(
                f"A run takes {need}, and no node of the Ray cluster has that much: {found}. Ask for less by "
                "resources.cpus, resources.gpus and resources.memory of its config, or add a node."
            )

    def check_nodes(self, needs: Sequence[Resources], origin: Origin) -> None:
        """Every node that runs may come to sees the shared folder and has what this process has."""
        look = self.ray.remote(num_cpus=0)(look_around)
        nodes = [node for node in self._nodes() if any(_seats(node, need) for need in needs)]
        asked = [look.options(scheduling_strategy=self.on(node["NodeID"])).remote(origin) for node in nodes]
        self.ray.wait(asked, num_returns=len(asked), timeout=ANSWER)
        for node, answer in zip(nodes, asked, strict=True):
            self._check_node(node["NodeManagerAddress"], answer, origin)

    def _check_node(self, name: str, answer: Any, origin: Origin) -> None:
        try:
            sees, installed = self.ray.get(answer, timeout=0)
        except self.ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise UserError(f"Node {name} of the cluster cannot run snv: {reason}. Install the same there.") from None
        if not sees:
            raise unseen(origin, name)
        if installed != versions():
            raise UserError(f"Node {name} of the cluster has {installed}, and here is {versions()}. Install the same.")

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self.ray.nodes() if node["Alive"]]


def _seats(node: dict[str, Any], need: Resources) -> int:
    """How many such runs a node has room for."""
    has, asked = node["Resources"], {"CPU": need.cpus, "GPU": need.gpus, "memory": need.bytes}
    return min(int(has.get(name, 0) / amount + 1e-9) for name, amount in asked.items() if amount)


def _described(node: dict[str, Any]) -> str:
    has = node["Resources"]
    counts = f"{has.get('CPU', 0):g} CPUs, {has.get('GPU', 0):g} GPUs"
    return f"{node['NodeManagerAddress']} has {counts}, {has.get('memory', 0) / 1e9:.1f} GB of memory"
