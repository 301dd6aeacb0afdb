"""How threads wait: a default before PyTorch is loaded, unless the user has decided."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import snv.threads
from snv.threads import DECIDING, ROUNDS, VARIABLE

COMMAND = """
import os, sys
os.getloadavg = lambda: (0.0, 9.0, 9.0)
from snv.cli.main import main
sys.argv = ["snv", "list", "methods"]
try:
    main()
except SystemExit:
    pass
"""
TELL = f"""
import os, sys
sys.stderr.write(str({{name: os.environ[name] for name in {DECIDING} if name in os.environ}}))
"""


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python in a process of its own, in which nobody has decided how threads wait but ``environment``."""
    inherited = {key: value for key, value in os.environ.items() if key not in DECIDING}
    return subprocess.run(
        [sys.executable, "-c", code], env=inherited | environment, capture_output=True, text=True, check=True
    )


def test_a_command_sets_the_default():
    assert run_python(COMMAND + TELL).stderr == str({VARIABLE: ROUNDS["idle"]})


@pytest.mark.parametrize(("load", "word"), [(0.2, "idle"), (0.9, "idle"), (1.0, "busy"), (2.5, "busy")])
def test_a_machine_is_busy_when_half_of_its_cores_are(monkeypatch, load, word):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    assert snv.threads.waiting_default() == {VARIABLE: ROUNDS[word]}


def test_the_runtime_of_torch_sees_what_is_set_before_it_is_loaded():
    told = run_python(COMMAND + "import torch", OMP_DISPLAY_ENV="verbose").stderr
    if VARIABLE not in told:
        pytest.skip("this PyTorch has another OpenMP than GNU's, which knows no such variable")
    assert f"{VARIABLE} = '{ROUNDS['idle']}'" in told


def test_processes_started_by_a_command_inherit_the_default():
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {TELL!r}], check=True)"
    assert run_python(COMMAND + child).stderr == str({VARIABLE: ROUNDS["idle"]})


@pytest.mark.parametrize("theirs", [("GOMP_SPINCOUNT", "77"), ("OMP_WAIT_POLICY", "PASSIVE"), ("KMP_BLOCKTIME", "5")])
def test_the_setting_of_the_user_stands(theirs):
    assert run_python(COMMAND + TELL, **dict([theirs])).stderr == str(dict([theirs]))


def test_nothing_is_set_once_torch_is_loaded():
    assert run_python("import torch\n" + COMMAND + TELL).stderr == "{}"


def test_importing_the_library_sets_nothing():
    code = "import snv; snv.run, snv.Model\n"
    assert run_python(code + TELL).stderr == "{}"


def test_the_command_line_is_there_before_torch_is_loaded():
    run_python("import sys, snv.cli.main; assert 'torch' not in sys.modules")


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({}, f"set {VARIABLE}={ROUNDS['busy']} before Python starts"),
        ({VARIABLE: ROUNDS["idle"]}, f"{VARIABLE}={ROUNDS['idle']} (the default of snv's commands"),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, "OMP_WAIT_POLICY=PASSIVE (your setting)"),
    ],
    ids=["nothing", "default", "own"],
)
def test_the_doctor_tells_how_threads_wait_and_calls_none_of_it_a_problem(cli, monkeypatch, setting, told):
    for name in DECIDING:
        monkeypatch.delenv(name, raising=False)
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("snv.cli.doctor.training_speed", lambda _: 1.0)
    monkeypatch.setattr("snv.cli.doctor.gradients", lambda: ("right", []))
    answer = cli("doctor")
    line = next(line for line in answer.out.splitlines() if line.startswith("waiting threads"))
    assert told in line
    assert "problem: " not in answer.out
