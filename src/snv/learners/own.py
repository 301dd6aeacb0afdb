"""A method of one's own: a class in a Python file, named FILE.py:CLASS, so that its name says where it is."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from snv.errors import UserError, unknown
from snv.learners.base import Learner
from snv.learners.card import Card


def is_own(name: str) -> bool:
    """Whether a method's name is that of a class in a file."""
    return name.rpartition(":")[0].endswith(".py")


def resolved(name: str) -> str:
    """The same name with the whole path, so that other processes and folders find the file too."""
    path, _, kind = name.rpartition(":")
    return f"{Path(path).expanduser().resolve()}:{kind}"


def own_method(name: str) -> type[Learner[Any]]:
    """The class that ``name`` stands for; its file is executed."""
    path, _, kind = name.rpartition(":")
    module = _executed(Path(path))
    found = {
        key: value for key, value in vars(module).items() if _is_method(value) and value.__module__ == module.__name__
    }
    if kind not in found:
        if not found:
            raise UserError(
                f"{path} holds no method: a subclass of snv.Learner with a card. See CONTRIBUTING.md for one."
            )
        raise unknown(f"method in {path}", kind, found)
    method: type[Learner[Any]] = found[kind]
    return method


def mark_of_file(name: str) -> str:
    """A fingerprint of the file of a method of one's own."""
    return _digest(_read(Path(name.rpartition(":")[0])))


def require_method(kind: object) -> None:
    """Refuse what cannot be run as a method."""
    if not _is_method(kind):
        raise UserError(
            f"A method is a subclass of snv.Learner with a card; got {kind!r}. See CONTRIBUTING.md for one."
        )


def _is_method(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Learner) and isinstance(getattr(kind, "card", None), Card)


def _executed(path: Path) -> ModuleType:
    """The file as a module: executed once for each of its versions."""
    source = _read(path)
    name = f"snv_method_{_digest(f'{path}'.encode() + source)}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except Exception as error:
        del sys.modules[name]
        raise UserError(
            f"{path} cannot be executed ({type(error).__name__}: {error}). Mend it, or name another."
        ) from error
    return module


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(
            f"The file of the method, {path}, cannot be read ({error.strerror}). A method of your own is FILE.py:CLASS."
        ) from None


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
