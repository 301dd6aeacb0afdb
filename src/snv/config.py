"""A run as frozen dataclasses ⇄ TOML, with key=value overrides; a typo is answered with the nearest valid key."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from snv.data import Judged
from snv.errors import UserError, unknown
from snv.learners import LEARNERS
from snv.training import Scenario, TrainSettings


@dataclass(frozen=True)
class DataConfig:
    """Which images, and how they become tasks."""

    name: str = "digits"  # see `snv list datasets`; folder:PATH and npz:PATH for your own
    tasks: int | tuple[int, ...] = 5  # number of tasks, or the number of classes of each
    classes: int | None = None  # use only so many classes
    per_class: int | None = None  # use only so many images of each class
    size: int | None = None  # side in pixels; None = the data set's own
    dir: str | None = None  # where the files are; None = $SNV_DATA, then the cache folder
    workers: int = 0  # processes that decode large images
    judged_on: Judged = "test"  # validation: to choose settings by; test images are then out of reach

    def __post_init__(self) -> None:
        for name in ("classes", "per_class", "size"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise UserError(f"data.{name} is at least 1, or left out; got {getattr(self, name)}.")


@dataclass(frozen=True)
class NetworkConfig:
    """Which network; None takes its default."""

    name: str = "auto"  # by image size: convnet up to 28 px, ResNet-18 above
    width: int | None = None  # ResNet-18: 64 is the paper's; 16, 20, 32 for small machines
    stem: Literal["3x3", "3x3/2", "3x3/4", "7x7/2"] | None = None
    hidden: tuple[int, ...] | None = None  # of an MLP


@dataclass(frozen=True)
class RunConfig:
    """One run: a method learns one stream of tasks with one seed."""

    method: str = "sgd"
    scenario: Scenario = "til"
    seed: int = 0
    data: DataConfig = field(default_factory=DataConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    train: TrainSettings = field(default_factory=TrainSettings)
    learner: Mapping[str, Any] = field(default_factory=dict)  # the method's own settings
    device: str = "auto"
    threads: int | None = None  # of PyTorch on the CPU; None = as the machine has
    keep: Literal["all", "last"] = "all"  # which tasks' final weights stay on disk
    checkpoint_seconds: float = 30.0  # how much work a kill may cost

    def __post_init__(self) -> None:
        if self.method not in LEARNERS:
            raise unknown("method", self.method, LEARNERS)
        allowed = LEARNERS[self.method].card.scenarios
        if self.scenario not in allowed:
            raise UserError(
                f"{self.method} cannot do {self.scenario.upper()}: it works only in "
                f"{' and '.join(s.upper() for s in allowed)}. Use --scenario {allowed[0]}."
            )
        self.learner_config()

    def learner_config(self) -> Any:
        """The method's own settings, checked."""
        return build(LEARNERS[self.method].Config, self.learner, "learner")

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as in the TOML file, with the method's own settings spelt out."""
        return dataclasses.asdict(self) | {"learner": dataclasses.asdict(self.learner_config())}


def build(kind: type[Any], values: Mapping[str, Any], where: str = "") -> Any:
    """A dataclass from plain values: unknown keys and wrong types are refused with one sentence."""
    _check_keys(kind, values, where)
    choices = {name: get_args(hint) for name, hint in get_type_hints(kind).items() if get_origin(hint) is Literal}
    words = {key: "none" for key, value in values.items() if value is None and "none" in choices.get(key, ())}
    try:
        return TypeAdapter(kind).validate_python({**values, **words})  # "key=none" can mean a word of that name
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join([*([where] if where else []), *(str(part) for part in first["loc"] if not _is_tag(part))])
        raise UserError(f"{key}: {first['msg'].lower()}; got {first['input']!r}.") from None


def without_retired(stored: Mapping[str, Any], where: Path) -> dict[str, Any]:
    """A stored run without settings that exist no more, if they said what is always done now, and with newer ones."""
    retired = LEARNERS[stored["method"]].card.retired if stored.get("method") in LEARNERS else {}
    learner = _added(stored) | stored.get("learner", {})
    for key in [key for key in retired if key in learner]:
        if (value := learner.pop(key)) != retired[key]:
            raise UserError(
                f"{where} was made by an older version with learner.{key}={value!r}, which {stored['method']} has no "
                "more. Repeat it in a new directory, or continue it with that version."
            )
    return {**stored, "learner": learner}


def as_begun(config: RunConfig, stored: Mapping[str, Any]) -> RunConfig:
    """A run that goes on in an older directory: what that does not name yet is done as it was then."""
    newer = _added(stored) if stored.get("method") == config.method else {}
    return dataclasses.replace(config, learner={**config.learner, **newer})


def _added(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the method that a stored run does not name, as it was before there were any."""
    added = LEARNERS[stored["method"]].card.added if stored.get("method") in LEARNERS else {}
    return {key: value for key, value in added.items() if key not in stored.get("learner", {})}


def load_config(path: Path | None = None, overrides: Iterable[str] = ()) -> RunConfig:
    """A run from a TOML file (or the defaults), changed by overrides such as ``train.lr=0.01``."""
    values = _read_toml(path) if path is not None else {}
    for override in overrides:
        _put(values, *parse_setting(override), override)
    config: RunConfig = build(RunConfig, values)
    return config


def _read_toml(path: Path) -> dict[str, Any]:
    """A file's settings; ``base = "other.toml"`` takes those of another file, beside it, first."""
    chain: list[dict[str, Any]] = []
    seen: set[Path] = set()
    following: Path | None = path
    while following is not None:
        if following.resolve() in seen:
            raise UserError(f"{path} is based on itself, by way of {following}. Remove one `base` line.")
        seen.add(following.resolve())
        try:
            chain.append(tomllib.loads(following.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise UserError(f"There is no config file {following}.") from None
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{following} is not a readable TOML file: {error}.") from None
        base = chain[-1].pop("base", None)
        following = following.parent / str(base) if base is not None else None
    values: dict[str, Any] = {}
    for layer in reversed(chain):
        _merge(values, layer)
    return values


def _merge(values: dict[str, Any], more: dict[str, Any]) -> None:
    """Tables are merged, single values replaced."""
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            _merge(values[key], value)
        else:
            values[key] = value


def _put(values: dict[str, Any], key: str, value: Any, override: str) -> None:
    *path, last = key.split(".")
    for part in path:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise UserError(f"{override!r}: {part!r} is a single value, so it has no {last!r}.")
    values[last] = value


def parse_setting(text: str) -> tuple[str, Any]:
    """``key=value`` with a TOML value; what is not one is a plain string, so a command line needs no quotes."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise UserError(f"A setting looks like train.lr=0.01; got {text!r}.")
    try:
        return key, tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        return key, None if value == "none" else value


def _check_keys(kind: type[Any], values: Mapping[str, Any], where: str) -> None:
    fields = {f.name: f for f in dataclasses.fields(kind)}
    for key, value in values.items():
        if key not in fields:
            raise unknown(f"setting in [{where}]" if where else "setting", key, fields)
        default: Any = fields[key].default_factory
        if dataclasses.is_dataclass(default):
            if not isinstance(value, Mapping):
                raise UserError(f"{key} is a table of settings such as [{key}]; got {value!r}.")
            _check_keys(default, value, key)  # type: ignore[arg-type]


def _is_tag(part: int | str) -> bool:
    """Pydantic names the member of a union it tried (``tuple[int, ...]``); a user did not write that."""
    return isinstance(part, str) and ("[" in part or part in {"int", "float", "str", "none", "constrained-int"})
