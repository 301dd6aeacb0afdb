"""Commands start quickly: what they do not need is not loaded."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drawn import draw

ROOT = Path(__file__).parents[2]


def test_help_loads_neither_pytorch_nor_anything_that_reads_or_draws():
    code = """
import sys
from snv.cli.main import main
sys.argv = ["snv", "--help"]
try:
    main()
finally:
    slow = [name for name in ("torch", "numpy", "PIL", "matplotlib", "pandas", "pydantic") if name in sys.modules]
    raise SystemExit(slow or 0)
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")
    assert "predict" in process.stdout


@pytest.mark.slow
def test_a_command_takes_little_longer_than_loading_pytorch(tmp_path):
    spec = importlib.util.spec_from_file_location("startup_benchmark", ROOT / "benchmarks" / "startup.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    model = shutil.copytree(ROOT / "tests" / "before" / "digits.snv", tmp_path / "digits.snv")
    draw("crow", 1).save(tmp_path / "a.png")
    starts = bench.measured(bench.commands(model, tmp_path / "a.png"), turns=3)
    torch = starts["import torch"]["cpu_seconds"]
    assert starts["help"]["cpu_seconds"] < 0.3 * torch
    assert starts["import snv"]["cpu_seconds"] < 0.1 * torch
    assert starts["predict"]["cpu_seconds"] < 1.6 * torch
