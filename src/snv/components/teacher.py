"""The network as it was before a task: what a new network is compared with, saved and brought back."""

from __future__ import annotations

from torch import Tensor

from snv.networks import Network, frozen_copy


def teacher_state(teacher: Network | None) -> dict[str, Tensor] | None:
    return dict(teacher.state_dict()) if teacher is not None else None


def restored_teacher(state: dict[str, Tensor] | None, network: Network) -> Network | None:
    """The teacher of a stored state, which may have fewer heads than ``network``."""
    if state is None:
        return None
    heads = {name.split(".")[1] for name in state if name.startswith("heads.")}
    teacher = frozen_copy(network, len(heads))
    teacher.load_state_dict(state)
    return teacher
