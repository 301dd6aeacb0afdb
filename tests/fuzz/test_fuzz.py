"""What was spoilt at random is read, or refused in a sentence; `make fuzz` goes on for longer."""

from __future__ import annotations

import random

import pytest

from fuzz.fuzz import Failed, fuzz
from fuzz.mutate import mutated
from fuzz.parsers import PARSERS, Parser
from snv.errors import UserError


@pytest.mark.parametrize("name", PARSERS)
def test_a_spoilt_file_is_read_or_refused_in_a_sentence(name, tmp_path, monkeypatch):
    if name == "onnx":
        pytest.importorskip("onnxruntime")
    monkeypatch.setenv("SNV_CACHE", str(tmp_path / "cache"))
    found = fuzz(PARSERS[name], tmp_path)
    assert found["refused"] > 0, "nothing was spoilt"


@pytest.mark.parametrize("error", [KeyError("x"), RecursionError(), MemoryError(), UserError("no")])
def test_the_fuzzer_notices_what_is_no_sentence(error, tmp_path):
    def read(path) -> None:
        if path.read_bytes() != b"good":
            raise error

    with pytest.raises(Failed, match=r"snv-fuzz/0-file: "):
        fuzz(Parser("file", lambda: [b"good"], read, lambda data, rng: b"bad"), tmp_path)


def test_one_seed_spoils_one_way():
    once, again, other = (mutated(bytes(100), random.Random(seed)) for seed in (7, 7, 8))
    assert once == again != other
