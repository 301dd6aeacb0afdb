"""Records as they are read: what is in them is checked before anything counts with it, since they may be anybody's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,  # what pydantic asks for before Python 3.12
)

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from snv.errors import UserError

MOST_TASKS, MOST_CLASSES, MOST_THREADS = 2_000, 10_000, 1_024
"""A record's matrices have as many rows as these, and a machine as many threads."""
LARGE = 1e30
"""No cost is larger; beyond it, sums over runs would be no numbers any more."""

AsIs = ConfigDict(strict=True, extra="allow")
Word = Annotated[str, Field(max_length=10_000)]
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, le=LARGE, allow_inf_nan=False)]
Number = Annotated[float, Field(ge=-LARGE, le=LARGE, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Row = list[Percent | None]


@with_config(AsIs)
class DataPart(TypedDict):
    name: Word


@with_config(AsIs)
class ConfigPart(TypedDict):
    method: Word
    scenario: Literal["til", "cil"]
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)]
    data: DataPart
    network: NotRequired[dict[str, Any]]
    train: NotRequired[dict[str, Any]]
    learner: NotRequired[dict[str, Any]]


@with_config(AsIs)
class Account(TypedDict):
    estimator: Word
    stopped: Word
    certificate: Word
    evaluations: Amount
    efficiency_ratio: Number | None


@with_config(AsIs)
class DetailsPart(TypedDict):
    classes: list[list[Word]]
    confusion: list[str]
    top5: list[Percent | None]


@with_config(AsIs)
class Results(TypedDict, total=False):
    """What a run must reproduce; older records lack some of it."""

    tasks_done: Annotated[int, Field(ge=0, le=MOST_TASKS)]
    accuracy: Annotated[list[Row], Field(max_length=MOST_TASKS)]
    untrained: Annotated[Row, Field(min_length=1, max_length=MOST_TASKS)]
    known: list[Row]
    capacity: dict[Word, Amount] | None
    bytes_kept: list[Count]
    valuations: list[Account | None]
    details: DetailsPart


@with_config(AsIs)
class Cost(TypedDict, total=False):
    seconds: dict[Word, Amount]
    macs: dict[Word, Amount]
    latency_ms: dict[Word, Amount]
    valuation_seconds: list[Amount]
    parameters: Count
    bytes_on_disk: Count
    peak_bytes: Count
    peak_of: Word
    computed: dict[Word, Word | Count]


@with_config(AsIs)
class Environment(TypedDict):
    """What a run that goes on reads of the machine it began on."""

    data: Word
    device: Word
    precision: Word
    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)]


Kind = Callable[[Any], object]
CONFIG: Kind = TypeAdapter(ConfigPart).validate_python
RESULTS: Kind = TypeAdapter(Results).validate_python
COST: Kind = TypeAdapter(Cost).validate_python
ENVIRONMENT: Kind = TypeAdapter(Environment).validate_python


def require_record(config: Any, results: Any, cost: Any, where: Path) -> None:
    """Refuse a record with parts of the wrong kind or size."""
    require_config(config, where)
    _require(RESULTS, results, where)
    _require(COST, cost, where, "cost")
    if missing := next(
        (key for key in ("tasks_done", "accuracy", "untrained", "capacity") if key not in results), None
    ):
        raise _not_a_record(where, f"{missing} is missing")
    if "parameters" not in (results["capacity"] or {"parameters": 0}):
        raise _not_a_record(where, "capacity says nothing of parameters")
    n = len(results["untrained"])
    for name in ("accuracy", "known"):
        rows = results.get(name, results["accuracy"])
        if len(rows) != n or any(len(row) != n for row in rows):
            raise _not_a_record(where, f"{name} is no matrix of {n} × {n}")
    if results["tasks_done"] > n:
        raise _not_a_record(where, f"{results['tasks_done']} of {n} tasks are done")
    if "details" in results:
        _require_details(results["details"], n, where)


def _require_details(details: Mapping[str, Any], n: int, where: Path) -> None:
    """A row of the confusion matrix for every class, whose entries are classes and counts."""
    classes = sum(map(len, details["classes"]))
    if classes > MOST_CLASSES or len(details["confusion"]) != classes or len(details["classes"]) > n:
        raise _not_a_record(where, f"details are of {classes} classes and {len(details['confusion'])} rows")
    for row in details["confusion"]:
        for entry in row.split():
            j, _, count = entry.partition(":")
            if not (j.isdecimal() and count.isdecimal() and len(count) < 16 and len(j) < 6 and int(j) < classes):
                raise _not_a_record(where, f"details count {entry[:40]!r}")


def require_config(config: Any, where: Path) -> None:
    """Refuse what does not say which method learned what."""
    _require(CONFIG, config, where, "config")


def require_environment(environment: Any, where: Path) -> None:
    """Refuse what does not say where and how a run is computed."""
    _require(ENVIRONMENT, environment, where, "environment")


def _require(kind: Kind, value: Any, where: Path, part: str = "") -> None:
    try:
        kind(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, [*([part] if part else []), *first["loc"]])) or "it"
        raise _not_a_record(where, f"{place}: {first['msg'].lower()}; got {repr(first['input'])[:80]}") from None


def _not_a_record(where: Path, why: str) -> UserError:
    return UserError(f"{where} is no record of a run ({why}). It was edited or damaged; restore it or remove it.")


@contextmanager
def fitting(where: Path) -> Iterator[None]:
    """What is wrong with a checkpoint shows where its parts are put into place; said in one sentence."""
    try:
        yield
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, IndexError, OverflowError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise UserError(
            f"{where} holds a checkpoint that does not fit its run ({reason}). Remove the run, or restore a copy."
        ) from error
