"""A run as frozen dataclasses ⇄ TOML, with key=value overrides; a typo is answered with the nearest valid key."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from snv.data import Half, Judged, Parts
from snv.errors import UserError, unknown
from snv.files import plain_toml, require_shallow
from snv.learners import LEARNERS, SCENARIOS, is_own, method_named, resolved
from snv.machine import Resources
from snv.training import Scenario, TrainSettings

DEFAULT_TASKS = 5
MOST_THREADS, MOST_WORKERS = 1024, 256
"""More than any machine has, few enough for one to start."""
WIDEST = 100_000
"""Channels of a layer, or units."""


@dataclass(frozen=True)
class DataConfig:
    """Which images, and how they become tasks."""

    name: str = "digits"  # see `snv list datasets`; folder:PATH and npz:PATH for your own
    tasks: int | tuple[int, ...] = DEFAULT_TASKS  # number of tasks, or the number of classes of each
    classes: int | None = None  # use only so many classes
    per_class: int | None = None  # use only so many images of each class
    order: tuple[str | int, ...] | tuple[tuple[str | int, ...], ...] | None = None  # classes by name or index, or those
    # of each task; None: the seed decides
    split: Parts = "70/10/20"  # per class; official: the data set's own test images; a tenth of the others validates
    size: int | None = None  # side in pixels; None = the data set's own
    dir: str | None = None  # where the files are; None = $SNV_DATA, then the cache folder
    workers: int = 0  # processes that decode large images
    half: Half | None = None  # use only the tasks with the first half of the classes, or with the second
    judged_on: Judged = "test"  # validation: to choose settings by; test images are then out of reach

    def __post_init__(self) -> None:
        if not 0 <= self.workers <= MOST_WORKERS:
            raise UserError(f"data.workers is a number of processes, 0 to {MOST_WORKERS}; got {self.workers}.")
        for name in ("classes", "per_class", "size"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise UserError(f"data.{name} is at least 1, or left out; got {getattr(self, name)}.")
        sizes = tuple(len(part) for part in self.order or () if isinstance(part, tuple))
        if sizes:
            self._take_tasks_from(sizes)

    def _take_tasks_from(self, sizes: tuple[int, ...]) -> None:
        """An order that lists classes task by task says how many tasks there are, too."""
        if self.tasks not in (DEFAULT_TASKS, len(sizes), sizes):
            raise UserError(f"data.order lists {len(sizes)} tasks, and data.tasks is {self.tasks!r}. Leave that out.")
        object.__setattr__(self, "tasks", sizes)


@dataclass(frozen=True)
class NetworkConfig:
    """Which network; None takes its default."""

    name: str = "auto"  # by image size: convnet up to 28 px, ResNet-18 above
    width: int | None = None  # ResNet-18: 64 is the paper's; 16, 20, 32 for small machines
    stem: Literal["3x3", "3x3/2", "3x3/4", "7x7/2"] | None = None
    hidden: tuple[int, ...] | None = None  # of an MLP

    def __post_init__(self) -> None:
        widest = max([self.width or 1, *(self.hidden or ())])
        if widest > WIDEST:
            raise UserError(f"A layer has at most {WIDEST:,} channels or units; got {widest:,}.")


@dataclass(frozen=True)
class RunConfig:
    """One run: a method learns one stream of tasks with one seed."""

    method: str = "sgd"  # see `snv list methods`; FILE.py:CLASS for one of your own, whose file is executed
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
    resources: Resources = field(default_factory=Resources)  # of a machine or cluster, where many runs share it

    def __post_init__(self) -> None:
        if self.threads is not None and not 1 <= self.threads <= MOST_THREADS:
            raise UserError(f"threads are 1 to {MOST_THREADS}, or left out; got {self.threads}.")
        if is_own(self.method):
            object.__setattr__(self, "method", resolved(self.method))
        allowed = method_named(self.method).card.scenarios
        if self.scenario not in allowed:
            raise UserError(
                f"{self.method} cannot do {self.scenario.upper()}: it works only in "
                f"{' and '.join(s.upper() for s in allowed)}. Use --scenario {allowed[0]}."
            )
        self.learner_config()

    def learner_config(self) -> Any:
        """The method's own settings, checked."""
        return build(method_named(self.method).Config, self.learner, "learner")

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as in the TOML file, with the method's own settings spelt out; what it may take is left out."""
        values = dataclasses.asdict(self) | {"learner": dataclasses.asdict(self.learner_config())}
        del values["resources"]
        return values


def build(kind: type[Any], values: Mapping[str, Any], where: str = "") -> Any:
    """A dataclass from plain values: unknown keys and wrong types are refused with one sentence."""
    _check_keys(kind, values, where)
    hints = get_type_hints(kind)
    words = {key: "none" for key, value in values.items() if value is None and _takes_word(hints[key], "none")}
    read = _reader(kind)  # type: ignore[arg-type]  # a class is hashable
    try:
        return read({**values, **words})  # "key=none" can mean a word of that name
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join([*([where] if where else []), *(str(part) for part in first["loc"] if not _is_tag(part))])
        raise UserError(f"{key}: {first['msg'].lower()}; got {first['input']!r}.") from None


def _takes_word(hint: Any, word: str) -> bool:
    return hint is str or (get_origin(hint) is Literal and word in get_args(hint))


@cache
def _reader(kind: type[Any]) -> Callable[[Any], Any]:
    """What makes such a dataclass of plain values, and checks them; many records ask for the same one."""
    return TypeAdapter(kind).validate_python


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


def load_config(path: Path | None = None, overrides: Iterable[str] = (), preset: str | None = None) -> RunConfig:
    """A run from a TOML file (or the defaults), changed by overrides such as ``train.lr=0.01``.

    ``preset`` stands above the file and below the overrides: a name on the method's card, such as ``paper/cifar100``,
    or a TOML file of methods' own settings.
    """
    values = read_toml(path) if path is not None else {}
    if isinstance(values.get("groups"), dict):
        raise UserError(f"{path} is a study of many runs. Use snv bench {path}, or give the config of one run.")
    overrides = list(overrides)
    named = dict(map(parse_setting, overrides))
    asked = values | named
    if path is not None:
        require_no_code(values, path, [str(named.get("method"))])
    if preset is not None:
        names = {field: asked.get(field, getattr(RunConfig, field)) for field in ("method", "scenario")}
        merge(values, preset_settings(preset, **names))
    for override in overrides:
        _put(values, *parse_setting(override), override)
    config: RunConfig = build(RunConfig, values)
    return config


def preset_settings(preset: str, method: str, scenario: str) -> dict[str, Any]:
    """A method's own settings by the name of a preset or from a file, nested as in a file."""
    tree = own_settings(preset, {method: method_named(method)})
    if method not in tree:
        raise UserError(f"{preset} has no settings of {method}; it has some of {', '.join(tree) or 'no method'}.")
    return layered(own_of([tree], method, scenario))


def own_settings(preset: str, methods: Mapping[str, Any] = LEARNERS, folder: Path = Path()) -> dict[str, Any]:
    """Methods' own settings, a table each: those of a TOML file, or of all methods with a preset of that name."""
    if preset.endswith(".toml"):
        tree = read_toml(folder / preset)
        require_no_code(tree, folder / preset, methods)
        check_own(tree)
        return tree
    presets = {name: kind.card.presets for name, kind in {**LEARNERS, **methods}.items()}
    if preset not in (known := dict.fromkeys(name for found in presets.values() for name in found)):
        raise UserError(f"{unknown('preset', preset, known)} A TOML file of methods' own settings will do, too.")
    return {
        method: layered(nested(*pair) for pair in found[preset].items())
        for method, found in presets.items()
        if preset in found
    }


def require_no_code(values: Mapping[str, Any], where: Path, allowed: Iterable[str] = ()) -> None:
    """Refuse a file that names a method in a file of code, unless the user names it too: it would be executed."""
    known = {resolved(name) for name in allowed if is_own(name)}
    for word in _words(values):
        if is_own(word) and resolved(word) not in known:
            raise UserError(
                f"{where} names the method {word}, a file that would be executed. Read it, then allow it: "
                f"snv run --method {word}, or snv bench --own-method {word}"
            )


def _words(values: Any) -> Iterator[str]:
    """All keys, and all values that are strings."""
    if isinstance(values, str):
        yield values
    elif isinstance(values, Mapping | list | tuple):
        for key in values:
            yield from _words(key)
            yield from _words(values[key]) if isinstance(values, Mapping) else ()


def check_own(own: Mapping[str, Any]) -> None:
    """Own settings are tables by method, below it tables of settings, or of settings by scenario."""
    for method, table in own.items():
        method_named(method)
        if not isinstance(table, Mapping):
            raise UserError(f"own.{method} is a table of settings such as [own.{method}.learner]; got {table!r}.")


def own_of(trees: Sequence[Mapping[str, Any]], method: str, scenario: str) -> Iterator[Mapping[str, Any]]:
    """The layers of a method's own settings, the weakest first."""
    for tree in trees:
        table = tree.get(method, {})
        yield {key: value for key, value in table.items() if key not in SCENARIOS}
        yield table.get(scenario, {})


def layered(layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Settings joined, later ones standing above earlier ones."""
    values: dict[str, Any] = {}
    for layer in layers:
        merge(values, layer)
    return values


def changed(config: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    """The same run with other values of settings, by their dotted names."""
    whole = config.as_dict() | {"resources": dataclasses.asdict(config.resources)}
    made: RunConfig = build(RunConfig, layered([whole, *(nested(*pair) for pair in settings.items())]))
    return made


def nested(name: str, value: object) -> dict[str, Any]:
    """``train.lr`` as {"train": {"lr": value}}."""
    first, _, rest = name.partition(".")
    return {first: nested(rest, value) if rest else value}


def read_toml(path: Path) -> dict[str, Any]:
    """A file's settings; ``base = "other.toml"`` takes those of another file, beside it, first."""
    chain: list[dict[str, Any]] = []
    seen: set[Path] = set()
    following: Path | None = path
    while following is not None:
        if following.resolve() in seen:
            raise UserError(f"{path} is based on itself, by way of {following}. Remove one `base` line.")
        seen.add(following.resolve())
        if not following.exists():
            raise UserError(f"There is no config file {following}.")
        chain.append(plain_toml(following))
        base = chain[-1].pop("base", None)
        following = following.parent / str(base) if base is not None else None
    values: dict[str, Any] = {}
    for layer in reversed(chain):
        merge(values, layer)
    return values


def merge(values: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Put ``more`` into ``values``: tables are merged, single values replaced."""
    for key, value in more.items():
        if isinstance(value, Mapping):
            below = values[key] = dict(values[key]) if isinstance(values.get(key), Mapping) else {}
            merge(below, value)
        else:
            values[key] = value


def flat(settings: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested settings by dotted name; tuples become lists, as they are in a file."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{above}{key}.")
        else:
            found[above + key] = list(value) if isinstance(value, tuple) else value
    return found


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
        return key, require_shallow(tomllib.loads(f"x = {value}"))["x"]
    except (ValueError, RecursionError):
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
