"""What is known of a task once its pictures are gone, and what `learn` and `status` say."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from snv.data import Preprocess


@dataclass(frozen=True)
class TaskInfo:
    """What is known of a task; its pictures are gone."""

    name: str
    uid: int  # never given again, also after the task is forgotten
    classes: tuple[str, ...]
    pictures: int
    accuracy: float  # percent of held-out pictures answered right, the task known
    temperature: float  # of its own head
    open_temperature: float  # of all classes together
    calibration_error: float  # of the probabilities of held-out pictures, the task known
    seconds: float
    certificate: dict[str, Any]
    fingerprints: dict[str, str] = field(default_factory=dict)  # by `fingerprints`; of older models none


@dataclass(frozen=True)
class Learned:
    """What `learn` has to say."""

    task: TaskInfo
    new_neurons: int
    neurons: int  # of the task's subnetwork
    used: int
    n_neurons: int
    verified: tuple[str, ...]  # the earlier tasks, checked and unchanged
    warnings: tuple[str, ...] = ()  # what went wrong in training


@dataclass(frozen=True)
class Status:
    """What a model knows, and how much room is left."""

    tasks: tuple[TaskInfo, ...]
    neurons: tuple[int, ...]  # of each task's subnetwork
    used: int
    n_neurons: int
    files: dict[str, int]  # bytes of each; of a model in memory none

    @property
    def bytes(self) -> int:
        """On disk."""
        return sum(self.files.values())


def fingerprints(task: TaskInfo, preprocess: Preprocess) -> dict[str, str]:
    """Hashes of what turns a picture into input, and logits into an answer."""
    parts: dict[str, Any] = {
        "place": task.uid,
        "name": task.name,
        "class names": task.classes,
        "picture format": [preprocess.shape, preprocess.mean, preprocess.std],
        "temperature": task.temperature,
        "open temperature": task.open_temperature,
    }
    texts = {name: json.dumps(part).encode() for name, part in parts.items()}
    return {name: hashlib.blake2b(text, digest_size=16).hexdigest() for name, text in texts.items()}


def changed_fingerprints(task: TaskInfo, preprocess: Preprocess) -> dict[str, str]:
    """What of names, picture format and temperatures is not what it was, in words, as far as that was certified."""
    now = fingerprints(task, preprocess) if task.fingerprints else {}
    if "place" not in task.fingerprints:  # older models have it in their class means
        now.pop("place", None)
    return {part: f"its {part} changed" for part, digest in now.items() if task.fingerprints.get(part) != digest}
