"""Valid files made invalid: bytes at random, values of JSON and TOML where it hurts. One seed, one file."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from hostile import NAMES

BYTES = (
    b"\x00",
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x00" * 8,
    b"\xff" * 8,
    b"\x80\x04",
    b"((((",
    b"\n",
)
DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]
VALUES = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**70), 10**40, 1.5, -0.0, 1e300, -1e308, float("nan")),
    *(float("inf"), "", "x", "1", [], {}, [[]], [None], {"": None}, {"a": {"a": {"a": 1}}}, DEEP, [1] * 1000, *NAMES),
)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, cut out, doubled or put in."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(changed) + 1)
        length = rng.choice((1, 2, 4, 16, 256))
        match rng.randrange(6):
            case 0 if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                del changed[at : at + length]
            case 2:
                changed[at:at] = changed[at : at + length]
            case 3:
                word = rng.choice(BYTES)
                changed[at : at + len(word)] = word
            case 4:
                changed[at:at] = rng.choice(BYTES)
            case _:
                changed[at : at + length] = rng.randbytes(length)
    return bytes(changed[: rng.randrange(len(changed) + 1)] if rng.random() < 0.1 else changed)


def spoilt(value: Any, rng: random.Random) -> Any:
    """A JSON value in which some parts are others, or gone."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        places = list(_places(value))
        if not places:
            return rng.choice(VALUES)
        holder, key = rng.choice(places)
        match rng.randrange(8):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 2 if isinstance(holder, dict):
                holder[rng.choice(NAMES)] = holder.pop(key)
            case _:
                holder[key] = copy.deepcopy(rng.choice(VALUES))
    return value


def _places(value: Any) -> Any:
    """Every place in lists and dictionaries within a value, except inside what was put in to be deep."""
    stack = [(value, 0)]
    while stack:
        holder, depth = stack.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            yield holder, key
            if depth < 12:
                stack.append((holder[key], depth + 1))


def spoilt_json(data: bytes, rng: random.Random) -> bytes:
    """A JSON file with other values in it, or with other bytes."""
    if rng.random() < 0.2:
        return mutated(data, rng)
    return json.dumps(spoilt(json.loads(data), rng)).encode("utf-8", "replace")


WORDS = (
    *("nan", "-inf", "1e400", "-1", "0", "9" * 30, "[]", "{}", '""', "true", "'../../x'", "[" * 300 + "]" * 300),
    *('"\\u001b]0;x"', "1979-05-27", "[[1], [2, [3]]]", "'/dev/zero'", "[1, 'a']", "[99999999999]", "'evil.py:Evil'"),
)


def spoilt_toml(data: bytes, rng: random.Random) -> bytes:
    """A TOML file with other values in it, or with other bytes."""
    if rng.random() < 0.3:
        return mutated(data, rng)
    lines = data.decode().splitlines()
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(lines))
        key, equals, _ = lines[at].partition("=")
        lines[at] = (
            f"{key}= {rng.choice(WORDS)}" if equals else rng.choice((f"[{rng.choice(WORDS)}]", "[groups.'../x']", ""))
        )
    return "\n".join(lines).encode()
