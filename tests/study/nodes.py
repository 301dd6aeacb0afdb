"""A Ray cluster of two nodes on this machine, and whether anything is left of one."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from snv.study import Standing

QUICK_TO_NOTICE = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_failure_threshold": 5,
}
"""That a node is gone."""


def processes(folder: str) -> list[str]:
    """Commands of those that have to do with a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if folder in command:
            found.append(command)
    return found


def is_on(node: Any, standing: Standing) -> bool:
    """Whether a run is done by a process of this node."""
    owner = standing.directory / "owner.json"
    if not owner.exists():
        return False
    status = Path(f"/proc/{json.loads(owner.read_text())['pid']}/status").read_text()
    return f"PPid:\t{node.all_processes['raylet'][0].process.pid}\n" in status


@contextmanager
def short_folder() -> Iterator[str]:
    """A path short enough for sockets in it."""
    folder = tempfile.mkdtemp(prefix="ray-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def two_nodes() -> Iterator[tuple[Any, Any]]:
    """A cluster whose head does no runs, and the second of its nodes, which can be taken away."""
    from ray.cluster_utils import Cluster

    with short_folder() as folder:
        small = {"object_store_memory": 80 * 2**20, "include_dashboard": False, "temp_dir": folder}
        head = {"num_cpus": 0, "_system_config": QUICK_TO_NOTICE, **small}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            cluster.add_node(num_cpus=1, **small)
            yield cluster, cluster.add_node(num_cpus=1, num_gpus=1, **small)
        finally:
            cluster.shutdown()
