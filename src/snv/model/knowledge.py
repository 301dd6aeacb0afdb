"""All that a model knows: the network with its specialists, and of each task its names, temperatures and proof."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from snv.data import Preprocess
from snv.errors import UserError, unknown
from snv.files import State, cloned
from snv.model.checked import require_content, require_room, require_task
from snv.model.network import Spec, detail, picture_format, shrunk, without_tasks
from snv.model.store import Stored
from snv.model.task import TaskInfo
from snv.seeding import generator
from snv.shapes import Images, Logits, Pixels, Values
from snv.subnetworks import Budget, Kept, Specialists

AT_ONCE = 256
"""Images that go through the network together."""
LARGEST = 0.4
"""Share of neurons a task's subnetwork may have, so that it stays small enough to be worth cutting out."""


class Knowledge:
    """What answers pictures and proves that it does not change; tasks are in the order of their heads."""

    def __init__(self, spec: Spec, specialists: Specialists, tasks: Sequence[TaskInfo] = (), next_uid: int = 0) -> None:
        self.spec, self.specialists = spec, specialists
        self.preprocess: Preprocess = picture_format(spec)
        self.tasks = list(tasks)
        self.values: list[Values] = []  # of all neurons, for each task
        self.probes: dict[int, Logits] = {}  # by uid: answers to the probe images when the task was frozen
        self.next_uid = next_uid

    # ---- tasks

    def names(self) -> list[str]:
        return [task.name for task in self.tasks]

    def index(self, name: str) -> int:
        """The place of the task of that name."""
        if not self.tasks:
            raise UserError(f"This model has no tasks yet, so there is no {name!r}.")
        if name not in self.names():
            raise unknown("task", name, self.names())
        return self.names().index(name)

    def blocks(self) -> list[range]:
        """The classes of each task, numbered through all tasks."""
        stops = [sum(len(task.classes) for task in self.tasks[: t + 1]) for t in range(len(self.tasks))]
        return [range(stop - len(task.classes), stop) for stop, task in zip(stops, self.tasks, strict=True)]

    def used(self) -> int:
        """How many neurons belong to a task."""
        return int(self.specialists.frozen.sum())

    def budget(self, capacity: float | None = None) -> Budget:
        """How many neurons a task takes, by default as the model was made."""
        neurons, share = self.specialists.neurons, self.spec["capacity"] if capacity is None else capacity
        return Budget(neurons.n, share, of_free=True, layers=len(neurons.layers), largest=int(LARGEST * neurons.n))

    def forget(self, name: str) -> None:
        """Remove the task, and every weight that no other task reads."""
        t = self.index(name)
        self.specialists.forget(t, generator(self.spec["seed"], "forgotten", t, len(self.tasks)))
        del self.probes[self.tasks[t].uid], self.tasks[t], self.values[t]
        issued = zip(self.tasks, self.specialists.certificates, strict=True)
        self.tasks = [dataclasses.replace(task, certificate=certificate.state()) for task, certificate in issued]

    # ---- answers

    @torch.inference_mode()
    def logits(self, pixels: Pixels, t: int | None) -> Logits:
        """Of the classes of task t, or of all classes."""
        parts = []
        for part in pixels.split(AT_ONCE):
            images: Images = self.preprocess(part, self.specialists.device, None, True)
            small = shrunk(images, detail(self.spec))
            parts.append(self.specialists.logits(small, t, detailed=images).cpu())
        return torch.cat(parts)

    # ---- kept on disk

    def content(self) -> dict[str, Any]:
        """All but the tensors, as JSON."""
        tasks = [dataclasses.asdict(task) for task in self.tasks]
        return {"spec": self.spec, "tasks": tasks, "next_uid": self.next_uid}

    def states(self) -> dict[str, State]:
        """The network once, and what each task adds to it."""
        state = self.specialists.state()
        body = {name: x for name, x in state["network"].items() if not name.startswith("heads.")}
        states: dict[str, State] = {"network": {"body": body, "frozen": state["frozen"]}}
        if "common" in state:
            states["common space"] = {"space": state["common"]["space"]}
        for t, task in enumerate(self.tasks):
            states[_part(task)] = {
                "head": dict(self.specialists.network.head(t).state_dict()),
                "subnetwork": state["subnetworks"][t],
                "values": self.values[t].float(),
                "probe": self.probes[task.uid],
            }
            of_all = ("common", state["common"]["tasks"]) if "common" in state else ("statistics", state["statistics"])
            states[_part(task)][of_all[0]] = of_all[1][t]
        return states

    @staticmethod
    def restored(stored: Stored, own: nn.Module | None, device: str) -> Knowledge:
        """The inverse of `content` and `states`."""
        content, states = stored.content, stored.states
        require_content(content)
        require_room(content["spec"], states)
        tasks = [TaskInfo(**task | {"classes": tuple(task["classes"])}) for task in content["tasks"]]
        spec = content["spec"]
        knowledge = Knowledge(spec, without_tasks(spec, own, device, _file(states)), tasks, content["next_uid"])
        parts = [states[_part(task)] for task in tasks]
        for task, part in zip(tasks, parts, strict=True):
            require_task(part, len(task.classes), knowledge.specialists.neurons.n)
        heads = {f"heads.{t}.{name}": x for t, part in enumerate(parts) for name, x in part["head"].items()}
        kept: Kept = {
            "network": states["network"]["body"] | heads,
            "frozen": states["network"]["frozen"],
            "subnetworks": [part["subnetwork"] for part in parts],
            "certificates": [task.certificate for task in tasks],
            "statistics": [part["statistics"] for part in parts if "statistics" in part],
        }
        if "common" in spec:
            common = [part["common"] for part in parts]
            kept["common"] = {"space": states["common space"]["space"], "tasks": common, "products": None}
        knowledge.specialists.load(kept)
        knowledge.values = [part["values"].double() for part in parts]
        knowledge.probes = {task.uid: part["probe"] for task, part in zip(tasks, parts, strict=True)}
        knowledge.specialists.network.eval()
        return knowledge

    @contextmanager
    def undone_on_failure(self) -> Iterator[None]:
        """Whatever goes wrong, everything is what it was."""
        state = cloned(self.specialists.state())
        others = list(self.tasks), list(self.values), dict(self.probes), self.next_uid
        try:
            yield
        except BaseException:
            self.tasks, self.values, self.probes, self.next_uid = others
            self.specialists.network.remove_heads()  # they may be others by now; each is made anew
            self.specialists.load(state)
            self.specialists.network.eval()
            raise


def _file(states: dict[str, State]) -> bytes | None:
    """The pretrained network, if the model has one."""
    file = states.get("common space", {}).get("space", {}).get("file")
    return None if file is None else bytes(file.numpy())


def _part(task: TaskInfo) -> str:
    """The name of the state that a task adds."""
    return f"task {task.uid} {task.name}"
