"""What a search may look at: a stream that holds the images of its protocol and no others."""

from __future__ import annotations

from snv.config import RunConfig
from snv.data import TaskStream
from snv.errors import UserError
from snv.runs import Progress, stream_of


def stream_for(config: RunConfig, protocol: str, progress: Progress = lambda *_: None) -> TaskStream:
    """Training and validation images of the first task, or of the tasks with the first half of the classes.

    Nothing else is read from the source, and nothing else can be reached from what comes back: test images and other
    tasks are not in the memory of a process that has let go of the source, which happens here.
    """
    if protocol == "halves" and config.data.half:
        raise UserError("--protocol halves divides the classes itself. Leave data.half out.")
    whole = stream_of(config, progress)
    return (whole.first() if protocol == "first-task" else whole.half("first")).sealed()
