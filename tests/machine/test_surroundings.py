"""What processes find around them is put back, and a cluster is joined or refused."""

from __future__ import annotations

import os
import socket
import sys
import time

import pytest

from snv.errors import UserError
from snv.machine.surroundings import joined, with_environment


def test_variables_are_there_in_the_block_only(monkeypatch):
    monkeypatch.setenv("OLD", "before")
    monkeypatch.delenv("NEW", raising=False)
    with pytest.raises(ValueError, match="x"), with_environment({"OLD": "within", "NEW": "within"}):
        assert (os.environ["OLD"], os.environ["NEW"]) == ("within", "within")
        raise ValueError("x")
    assert os.environ["OLD"] == "before"
    assert "NEW" not in os.environ


def test_without_ray_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"Use pip install 'snv\[ray\]'"), joined("auto"):
        raise AssertionError("joined")


def test_where_nobody_listens_the_answer_comes_at_once():
    pytest.importorskip("ray")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    began = time.monotonic()
    for where in (address, f"ray://{address}"):
        with pytest.raises(UserError, match=r"no Ray cluster at .* `ray start --head`"), joined(where):
            raise AssertionError("joined")
    assert time.monotonic() - began < 60, "Ray alone would try for minutes"
