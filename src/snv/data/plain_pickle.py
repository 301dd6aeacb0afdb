"""Pickled plain values read without unpickling: the opcodes are taken one by one, and none of them can call anything.

Python's own reader, however few names it may import, still lets a file hang it (a key made of nested tuples) or take
all memory (one number of a memo); and NumPy trusts the state of a pickled dtype.
"""

from __future__ import annotations

import pickletools
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 2_000_000
"""Opcodes; the largest official file has a tenth."""
VALUES = {
    *("BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "BINFLOAT", "FLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "UNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
}
TEXTS = {"STRING", "BINSTRING", "SHORT_BINSTRING"}
"""Of Python 2, which are bytes."""
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
PUTS, GETS = {"PUT", "BINPUT", "LONG_BINPUT"}, {"GET", "BINGET", "LONG_BINGET"}
TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
SILENT = {"PROTO", "FRAME", "STOP"}
ARRAY = {f"numpy.{core}.multiarray _reconstruct" for core in ("core", "_core")}
DTYPE = "numpy dtype"
NAMES = {*ARRAY, DTYPE, "numpy ndarray"}
NUMBERS = re.compile("[iu][1248]")


class NotPlainError(ValueError):
    """The pickle holds, or asks for, something else."""


@dataclass(frozen=True)
class _Name:
    text: str


@dataclass
class _Array:
    """An array on its way: a place for it, then its state."""

    made: NDArray[Any] | None = None


@dataclass
class _Numbers:
    """A kind of number."""

    code: str
    order: str = "|"


def read_plain(data: bytes) -> Any:
    """Dictionaries, lists, tuples, strings, numbers and arrays of integers; whatever else is asked for is an error."""
    machine = _Machine()
    try:
        for n, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if n >= MOST:
                raise NotPlainError(f"it has more than {MOST:,} parts")
            machine.do(opcode.name, argument)
        (result,) = machine.stack
    except NotPlainError:
        raise
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise NotPlainError(f"{type(error).__name__}: {error}") from None
    return _finished(result)


@dataclass
class _Machine:
    """What pickle describes: a stack, marks in it, and a memo."""

    stack: list[Any] = field(default_factory=list)
    marks: list[list[Any]] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def do(self, name: str, argument: Any) -> None:
        """One opcode."""
        if name in VALUES:
            self.stack.append(argument)
        elif name in TEXTS:
            self.stack.append(argument.encode("latin-1"))
        elif name in PUTS:
            self.memo[int(argument)] = self.stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = self.stack[-1]
        elif name in GETS:
            self.stack.append(self.memo[int(argument)])
        elif name in CONSTANTS:
            self.stack.append(CONSTANTS[name])
        elif name in TUPLES:
            n = TUPLES[name]
            self.stack[len(self.stack) - n :] = [tuple(self.popped(n))]
        elif name not in SILENT:
            self._compose(name, argument)

    def popped(self, n: int) -> list[Any]:
        """The newest values, which stay where they are."""
        if n > len(self.stack):
            raise IndexError("the stack is empty")
        return self.stack[len(self.stack) - n :]

    def _compose(self, name: str, argument: Any) -> None:
        stack = self.stack
        match name:
            case "MARK":
                self.marks.append(stack)
                self.stack = []
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_LIST":
                stack.append([])
            case "TUPLE" | "LIST" | "DICT" | "APPENDS" | "SETITEMS":
                self.stack = self.marks.pop()
                self._gather(name, stack)
            case "APPEND":
                _list(stack[-2]).append(_finished(stack.pop()))
            case "SETITEM":
                _put(stack[-3], [stack[-2], stack[-1]])
                del stack[-2:]
            case "GLOBAL":
                stack.append(_named(str(argument)))
            case "STACK_GLOBAL":
                module, word = stack.pop(-2), stack.pop()
                stack.append(_named(f"{module} {word}"))
            case "REDUCE":
                stack[-2:] = [_reduced(*self.popped(2))]
            case "BUILD":
                _build(*self.popped(2))
                stack.pop()
            case _:
                raise NotPlainError(f"it holds {name}, as no official file does")

    def _gather(self, name: str, items: list[Any]) -> None:
        """What stood since the last mark goes into a new value, or into the one below."""
        match name:
            case "TUPLE":
                self.stack.append(tuple(items))
            case "LIST":
                self.stack.append([_finished(item) for item in items])
            case "DICT":
                self.stack.append(_put({}, items))
            case "APPENDS":
                _list(self.stack[-1]).extend(_finished(item) for item in items)
            case _:
                _put(self.stack[-1], items)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise NotPlainError("it appends to what is no list")
    return value


def _put(into: Any, items: list[Any]) -> dict[Any, Any]:
    """Keys and values in turn; a key is a string or a number, so that its hash costs nothing."""
    if not isinstance(into, dict) or len(items) % 2:
        raise NotPlainError("it puts pairs into what is no dictionary")
    for key, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(key, bytes | str | int):
            raise NotPlainError("a key is neither a string nor a number")
        into[key] = _finished(value)
    return into


def _named(text: str) -> _Name:
    if text not in NAMES:
        raise NotPlainError(f"it asks for {'.'.join(text.split(' ')[:2])[:80]}, as no official file does")
    return _Name(text)


def _reduced(name: Any, arguments: Any) -> Any:
    """What stands for an array, or for a kind of number, until its state comes."""
    if isinstance(name, _Name) and name.text in ARRAY:
        return _Array()
    if isinstance(name, _Name) and name.text == DTYPE and isinstance(arguments, tuple):
        code = _text(arguments[0])
        if NUMBERS.fullmatch(code):
            return _Numbers(code)
    raise NotPlainError("it makes something else than arrays of integers")


def _build(thing: Any, state: Any) -> None:
    match thing, state:
        case _Numbers(), (int(), (str() | bytes()) as order, *_) if _text(order) in ("<", ">", "|", "="):
            thing.order = _text(order)
        case _Array(), (int(), tuple(shape), _Numbers() as kind, False | 0, bytes(data)):
            flat = np.frombuffer(data, f"{kind.order}{kind.code}")
            thing.made = flat.reshape([_length(n) for n in shape])
        case _:
            raise NotPlainError("the state of an array is not one")


def _length(n: Any) -> int:
    if not isinstance(n, int) or n < 0:
        raise NotPlainError("an array has a length that is none")
    return n


def _text(word: Any) -> str:
    return word.decode("latin-1") if isinstance(word, bytes) else str(word)


def _finished(value: Any) -> Any:
    """A value as it is; an array instead of its place. What only helps to make one is none."""
    if isinstance(value, _Array):
        if value.made is None:
            raise NotPlainError("an array is empty-handed")
        return value.made
    if isinstance(value, _Name | _Numbers):
        raise NotPlainError("it holds names instead of values")
    return value
