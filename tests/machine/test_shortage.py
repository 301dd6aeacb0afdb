"""Memory that runs out is told from other errors, and work goes on with less of it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from snv.machine.shortage import halving, is_shortage

REAL = """
import resource, torch
from snv.machine.shortage import is_shortage
resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
for make in (lambda: torch.zeros(2**34), lambda: bytes(2**34)):
    try:
        make()
    except Exception as error:
        print(is_shortage(error))
"""


def test_real_shortages_are_recognised():
    """Of PyTorch's allocator and of Python's, in a process that may have 8 GiB."""
    told = subprocess.run([sys.executable, "-c", REAL], capture_output=True, text=True, check=True)
    assert told.stdout == "True\nTrue\n"


def test_other_errors_are_none():
    assert is_shortage(torch.OutOfMemoryError("CUDA out of memory."))
    assert is_shortage(RuntimeError("could not create a primitive"))
    assert not is_shortage(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_shortage(OSError(28, "No space left on device"))


def test_work_is_halved_until_it_fits_and_the_size_is_told(caplog):
    def work(size: int) -> int:
        if size > 10:
            raise MemoryError
        return 100 + size

    assert halving(work, 64) == (108, 8)
    assert len(caplog.messages) == 3
    assert "Memory ran out (MemoryError)" in caplog.messages[0]


def test_what_never_fits_and_what_is_no_shortage_is_raised_as_it_is():
    def never(size: int) -> None:
        raise MemoryError(size)

    with pytest.raises(MemoryError, match="4"):
        halving(never, 64, least=4)
    with pytest.raises(ZeroDivisionError):
        halving(lambda size: size // 0, 64)
