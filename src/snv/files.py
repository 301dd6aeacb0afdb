"""Files that are either the old version or the new one, never half of it; and states saved without pickle."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from snv.errors import UserError

LARGEST_TEXT = 2**26
"""Bytes of a JSON or TOML file; the largest record kept has a few hundred thousand."""
DEEPEST = 40
"""Levels of tables and lists in one another; a config has four."""

State: TypeAlias = Any
"""Nested dicts and lists whose leaves are tensors, numbers, strings, booleans or None."""


def write_atomic(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary neighbour of ``path``, make it durable, then put it in place at once.

    Whatever goes wrong in between (a full disk, a kill, an exception) leaves the old file as it was; only a kill can
    leave the temporary file behind, and `sweep` removes it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # some file systems do not let a directory be synced
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def sweep(directory: Path) -> None:
    """Remove temporary files that a killed process left in ``directory`` (call it only while holding its lock)."""
    for pattern in (".*.tmp", ".tmp*"):  # ours, and those safetensors makes beside them
        for leftover in directory.glob(pattern):
            leftover.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    write_atomic(path, write)


def write_json(path: Path, value: object) -> None:
    """One JSON value, readable by people; not-a-number is refused (use None for what was not measured)."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_sealed(path: Path, value: Mapping[str, Any]) -> None:
    """The same of an object, with a checksum of it, so that `read_json` notices any change."""
    write_json(path, {**value, "checksum": _checksum_of_json(value)})


def read_bytes(path: Path, most: int = LARGEST_TEXT) -> bytes:
    """All bytes of an ordinary file, or of one behind a link; a pipe or a device, which may never end, is refused."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is not an ordinary file, so it is not read. Remove it, or name another.")
    with path.open("rb") as file:
        size = min(os.fstat(file.fileno()).st_size, most)
        data = file.read(size + 1)  # no more: as many bytes are taken from memory before the first is read
        if len(data) > size:  # it grew meanwhile
            data += file.read(most + 1 - len(data))
    if len(data) > most:
        raise UserError(f"{path} has more than {most:,} bytes, which is more than such a file needs. Name another.")
    return data


def read_json(path: Path) -> Any:
    """One JSON value, no deeper than `DEEPEST`; whatever else the file holds is one sentence.

    Damage to a sealed object is noticed; others, as older versions wrote them, are read as they are.
    """
    try:
        value = parsed_json(read_bytes(path))
    except FileNotFoundError:
        raise UserError(f"{path} is missing. Restore it from a copy.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}). Check the path and its permissions.") from None
    except ValueError as error:
        raise UserError(
            f"{path} is not valid JSON ({error}). It was edited or damaged; restore it or remove it."
        ) from None
    if isinstance(value, dict) and (checksum := value.pop("checksum", None)) not in (None, _checksum_of_json(value)):
        raise UserError(
            f"{path} was edited or damaged: its checksum {checksum} is not that of its content. "
            "Restore it from a copy, or remove it."
        )
    return value


def _checksum_of_json(value: Mapping[str, Any]) -> str:
    """Of what will be read again, in any order."""
    text = json.dumps(json.loads(json.dumps(value)), sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def parsed_json(data: bytes) -> Any:
    """What JSON says; deeper nesting than anybody needs is a ValueError, like whatever else is wrong with it."""
    try:
        return require_shallow(json.loads(data.decode("utf-8")))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def plain_toml(path: Path) -> dict[str, Any]:
    """A TOML file as it is."""
    try:
        found: dict[str, Any] = require_shallow(tomllib.loads(read_bytes(path).decode("utf-8")))
    except FileNotFoundError:
        raise UserError(f"There is no file {path}.") from None
    except (OSError, ValueError) as error:  # of decoding or parsing, too
        raise UserError(f"{path} is not a readable TOML file: {error}.") from None
    except RecursionError:
        raise UserError(f"{path} is not a readable TOML file: it is nested too deeply.") from None
    return found


def require_shallow(value: Any) -> Any:
    """The same value, unless it is nested deeper than `DEEPEST`: others go through it by recursion."""
    level = [value]
    for _ in range(DEEPEST):
        parts = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        level = [item for part in parts for item in part if isinstance(item, dict | list)]
        if not level:
            return value
    raise ValueError(f"it is nested deeper than {DEEPEST} levels")


def save_state(path: Path, state: State) -> None:
    """A dict in one safetensors file: tensors as such, the tree around them with a checksum as JSON in its header."""
    tensors: dict[str, Tensor] = {}
    tree = pack(state, "", tensors)
    sealed = {**tree, "$checksum": _checksum_of_state(tree, tensors)}
    metadata = {"state": json.dumps(sealed, allow_nan=True, separators=(",", ":"))}  # one entry: they have no order

    def write(temporary: Path) -> None:
        try:
            safetensors.torch.save_file(tensors, temporary, metadata=metadata)
        except safetensors.SafetensorError as error:  # in which an error of the system is text
            if (found := re.search(r"os error (\d+)", str(error))) is None:
                raise
            number = int(found[1])
            raise OSError(number, os.strerror(number), str(path)) from None

    write_atomic(path, write)


def load_state(path: Path, device: torch.device | str = "cpu") -> State:
    """What `save_state` wrote, every bit of it checked; a damaged file is named, never half-read.

    Note: files of older versions have no checksum, and are read as far as their format lets them.
    """
    try:
        if not path.is_file():
            raise ValueError("there is no ordinary file of that name")
        with safetensors.safe_open(path, framework="pt", device=str(device)) as file:
            tree = json.loads(file.metadata()["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if tree.pop("$checksum", None) not in (None, _checksum_of_state(tree, tensors)):
            raise ValueError("its checksum is wrong")
        return unpack(tree, tensors)
    except (
        safetensors.SafetensorError,
        OSError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as error:
        raise UserError(
            f"{path} is damaged or is no state saved by snv ({error}). Restore it from a copy, or remove it."
        ) from None


def _checksum_of_state(tree: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.blake2b(json.dumps(tree, allow_nan=True).encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def cloned(state: State) -> State:
    """A copy that later changes to the original do not reach."""
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {key: cloned(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return [cloned(value) for value in state]
    return state


def digest(state: State) -> str:
    """A short hash of all bits in it."""
    tensors: dict[str, Tensor] = {}
    return _checksum_of_state(pack(state, "", tensors), tensors)


def bytes_in(state: State) -> int:
    """Of all its tensors."""
    if isinstance(state, Tensor):
        return state.nbytes
    parts = state.values() if isinstance(state, dict) else state if isinstance(state, list | tuple) else ()
    return sum(bytes_in(part) for part in parts)


def pack(value: State, path: str, tensors: dict[str, Tensor]) -> Any:
    match value:
        case Tensor():
            tensors[path] = value.detach().cpu().contiguous().clone()  # a clone: two names may share memory
            return {"$tensor": path}
        case dict() if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: pack(item, f"{path}/{key}", tensors) for key, item in value.items()}
        case dict():
            return {"$items": [[key, pack(item, f"{path}/{key}", tensors)] for key, item in value.items()]}
        case list() | tuple():
            return [pack(item, f"{path}/{i}", tensors) for i, item in enumerate(value)]
        case None | bool() | int() | float() | str():
            return value
    raise TypeError(
        f"a state holds tensors, numbers, strings, dicts and lists; found {type(value).__name__} at {path!r}"
    )


def unpack(tree: Any, tensors: dict[str, Tensor]) -> State:
    match tree:
        case {"$tensor": str(name)}:
            return tensors[name]
        case {"$items": list(items)}:
            return {key: unpack(item, tensors) for key, item in items}
        case dict():
            return {key: unpack(item, tensors) for key, item in tree.items()}
        case list():
            return [unpack(item, tensors) for item in tree]
    return tree
