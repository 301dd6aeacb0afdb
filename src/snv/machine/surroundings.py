"""What processes that are started find around them: variables of the environment, and a Ray cluster to be joined."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from snv.errors import UserError

KNOCK = 20.0
"""Seconds within which a cluster opens; Ray itself would try for minutes."""

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS_SKIP_REGEX": ".*"}
"""Ray reports nothing to its makers, and prints nothing between our lines."""


@contextmanager
def with_environment(variables: dict[str, str]) -> Iterator[None]:
    """The environment that a process started in the block gets."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def joined(address: str) -> Iterator[Any]:
    """Ray, connected while the block runs; a cluster that was started for it ends with it.

    ``address`` is what `ray.init` takes: ``auto``, ``host:port``, ``ray://host:port``, or ``local``, a cluster of this
    machine. A connection that the caller has made is taken, and left as it is.
    """
    with with_environment(QUIET | _lock(address)):
        ray = load_ray()
        if ray.is_initialized():
            yield ray
            return
        _join(ray, address)
        try:
            yield ray
        finally:
            ray.shutdown()


def load_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise UserError("The package ray is needed for that and not installed. Use pip install 'snv[ray]'.") from None


def _join(ray: Any, address: str) -> None:
    alone = {"include_dashboard": False} if address == "local" else {}
    try:
        _knock(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **alone)
    except Exception as error:  # Ray has many
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise UserError(
            f"There is no Ray cluster at {address!r} ({reason}). Start one with `ray start --head`, or take `local` "
            "for this machine alone."
        ) from error


def _knock(address: str) -> None:
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=KNOCK).close()


def _lock(address: str) -> dict[str, str]:
    """A cluster of ours is closed to others, by a token that is nowhere on disk, unless the user has decided."""
    if address != "local" or "RAY_AUTH_MODE" in os.environ:
        return {}
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex()}
