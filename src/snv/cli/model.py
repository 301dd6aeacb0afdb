"""Four commands for people with a folder of pictures, and four more: learn, predict, status, verify, plan, …"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snv.errors import UserError
from snv.text import printable, printable_lines

if TYPE_CHECKING:
    from snv.model import Prediction
    from snv.networks import Pretrained

ModelPath = Annotated[Path, typer.Option("--model", help="The model's directory, such as pets.snv.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]

PROVED = {True: "ok     ", False: "CHANGED", None: "note   "}
"""Of a verdict: it holds, it does not, or nothing was certified."""


def register(app: typer.Typer) -> None:
    for command in (learn, predict, status, verify, plan, forget, export, audit):
        app.command(command.__name__)(command)


def learn(
    pictures: Annotated[Path, typer.Argument(help="A folder with one sub-folder of pictures per class.")],
    model: ModelPath,
    task: Annotated[str | None, typer.Option(help="Name of the task; default: the folder's name.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Times each picture is shown; default: by their number.")] = None,
    size: Annotated[int | None, typer.Option(help="Side of the pictures in pixels, for a new model: 64.")] = None,
    width: Annotated[int | None, typer.Option(help="Width of the network, for a new model; more holds more.")] = None,
    capacity: Annotated[
        float | None, typer.Option(help="Share of free neurons a task may take, for a new model: 0.12.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="For a new model: an ONNX file with a pretrained network, which sees more.")
    ] = None,
    features_size: Annotated[
        int | None, typer.Option(help="Side of the pictures it takes; default: what the file says, or 224.")
    ] = None,
    features_mean: Annotated[
        tuple[float, float, float] | None, typer.Option(help="Taken off pixels in [0, 1]; default: ImageNet's.")
    ] = None,
    features_std: Annotated[
        tuple[float, float, float] | None, typer.Option(help="And divided by; default: ImageNet's.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For a new model.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Forget a task of this name first.")] = False,
    repeat_classes: Annotated[
        bool, typer.Option("--repeat-classes", help="Allow a class that another task has too.")
    ] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda …")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Teach the model a folder of pictures; the first call makes the model. Old tasks stay exactly as they are."""
    import dataclasses

    from snv.cli.output import say, say_json
    from snv.cli.progress import Bar
    from snv.model import Model, Store

    if epochs is not None and epochs < 1:
        raise UserError(f"--epochs is at least 1; got {epochs}.")
    new = not Store(model).exists()
    options: dict[str, Any] = {"size": size, "width": width, "capacity": capacity, "seed": seed, "features": features}
    own = {"size": features_size, "mean": features_mean, "std": features_std}
    own = {name: value for name, value in own.items() if value is not None}
    if own and features is None:
        raise UserError(f"--features-{next(iter(own))} belongs to a features file. Give that too: --features FILE.onnx")
    options = {name: value for name, value in options.items() if value is not None}
    if not new and options:
        name = next(iter(options))
        raise UserError(f"--{name} is chosen when a model is made, and {model} exists already. Leave it out.")
    if features is not None:
        options["features"] = _pretrained(features, own, quiet=as_json)
    target = Model.create(model, device=device, **options) if new else Model.open(model, device=device)
    with Bar(quiet=as_json) as bar:
        learned = target.learn(
            pictures, task, epochs=epochs, replace=replace, repeat_classes=repeat_classes, progress=bar
        )
    if as_json:
        say_json(dataclasses.asdict(learned))
        return
    info = learned.task
    say(f"learned {info.name!r}: {_list(info.classes)}")
    say(f"  right on held-out pictures   {info.accuracy:.1f} % of its {len(info.classes)} classes")
    say(f"  calibration error            {100 * info.calibration_error:.1f} %")
    say(f"  neurons                      {learned.neurons:,}, of which {learned.new_neurons:,} new")
    say(f"  room left                    {learned.n_neurons - learned.used:,} of {learned.n_neurons:,} neurons")
    if learned.verified:
        say(f"  verified unchanged           {_list(learned.verified)}")
    say(f"  time                         {info.seconds:.0f} s")
    for warning in learned.warnings:
        say(f"  warning                      {warning}")
    say(f"{'made' if new else 'updated'} {model}")


def _pretrained(path: Path, own: dict[str, Any], quiet: bool) -> Pretrained:
    """The features file, tried once; what was found is told."""
    from snv.cli.output import say
    from snv.networks import read_pretrained

    found = read_pretrained(path, **own)
    if not quiet:
        n, size = found.n_features, found.size
        say(f"{path}: {n:,} features of pictures of {size} × {size} pixels, {1e3 * found.seconds:.0f} ms each")
    return found


def predict(
    files: Annotated[list[str], typer.Argument(help="Pictures, folders of them, or - for a list on standard input.")],
    model: ModelPath,
    task: Annotated[str | None, typer.Option(help="If you know which task the pictures belong to.")] = None,
    top: Annotated[int, typer.Option(help="How many answers to each picture.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda …")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per picture and line.")] = False,
) -> None:
    """Say what the pictures show, with calibrated probabilities. Any number of pictures, in constant memory."""
    from snv.cli.output import say, say_json
    from snv.model import Model

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files are bytes, and come out as they went in
    opened = Model.open(model, device=device)
    wrong = 0
    for prediction in opened.stream(_named(files), task, top):
        wrong += prediction.error is not None
        if as_json:
            best = [{"task": t, "class": c, "probability": p} for t, c, p in prediction.best]
            say_json({"file": prediction.source, "best": best, "error": prediction.error})
        else:
            say(_line(prediction))
    if wrong:
        sys.stderr.write(f"{wrong} picture{'s' * (wrong != 1)} could not be read.\n")
        raise typer.Exit(1)


def _named(files: list[str]) -> Iterator[str]:
    """The arguments as paths; - stands for a list of paths, one per line, on standard input."""
    for file in files:
        if file == "-":
            yield from (line.rstrip("\n") for line in sys.stdin if line.strip())
        else:
            yield file


def _line(prediction: Prediction) -> str:
    source = prediction.source
    if sys.stdout.isatty() or not source.isprintable():
        source = printable(source) if sys.stdout.isatty() else _one_line(source)
    if prediction.error is not None:
        return f"{source}\terror: {_one_line(prediction.error)}"
    best = "\t".join(f"{printable(c)} ({printable(t)}) {100 * p:.1f} %" for t, c, p in prediction.best)
    return f"{source}\t{best}"


def _one_line(text: str) -> str:
    """In one line and one column, with the bytes of file names as they are."""
    return printable_lines(text).replace("\n", "\\n").replace("\t", "\\t")


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(printable, names))


def status(model: ModelPath, as_json: AsJson = False) -> None:
    """What the model knows, and how much room is left."""
    import dataclasses

    from snv.cli.output import say, say_json, say_table
    from snv.model import Model

    opened = Model.open(model)
    now = opened.status()
    if as_json:
        tasks = [dataclasses.asdict(task) for task in now.tasks]
        figures = {"neurons": now.n_neurons, "used": now.used, "bytes": now.bytes}
        say_json({"tasks": tasks, **figures, "spec": opened.spec})
        return
    rows = [
        [
            task.name,
            ", ".join(task.classes),
            str(task.pictures),
            f"{task.accuracy:.1f}",
            f"{100 * task.calibration_error:.1f}",
            f"{neurons:,}",
        ]
        for task, neurons in zip(now.tasks, now.neurons, strict=True)
    ]
    say_table(str(model), ["task", "classes", "pictures", "accuracy %", "calibration error %", "neurons"], rows)
    say(f"{now.used:,} of {now.n_neurons:,} neurons in use; {now.bytes / 1e6:.1f} MB on disk")


def verify(model: ModelPath, as_json: AsJson = False) -> None:
    """Prove that no task changed since it was learned; exit code 1 if one did, or if a file is damaged.

    With the task known, answers are bit-identical for ever. Without it, what each task brings to the choice is.
    """
    import dataclasses

    from snv.cli.output import say, say_json
    from snv.model import check

    result = check(model)
    if as_json:
        tasks = [dataclasses.asdict(verdict) | {"unchanged": verdict.unchanged} for verdict in result.verdicts]
        say_json({"unchanged": result.unchanged, "damage": result.damage, "tasks": tasks})
    else:
        for problem in result.damage:
            say(f"DAMAGED  {printable(problem)}")
        for verdict in result.verdicts:
            name = printable(verdict.task)
            say(f"{PROVED[verdict.known]}  {name}, task known: {printable(verdict.told)}")
            say(f"{PROVED[verdict.evidence]}  {name}, task unknown: {printable(verdict.told_open)}")
        if not result.damage and not result.verdicts:
            say("ok       the model has no tasks yet")
    if not result.unchanged:
        raise typer.Exit(1)


def plan(
    model: Annotated[Path | None, typer.Option("--model", help="The model's directory.")] = None,
    tasks: Annotated[int, typer.Option(help="How many more tasks to plan.")] = 10,
    capacity: Annotated[float | None, typer.Option(help="Share of neurons a task takes; default: the model's.")] = None,
    overlap: Annotated[
        float, typer.Option(help="With --neurons: share of a task's neurons that earlier ones have.")
    ] = 0.0,
    neurons: Annotated[int | None, typer.Option(help="Without a model: the neurons of the network.")] = None,
    as_json: AsJson = False,
) -> None:
    """How many more tasks fit, in a model or in a network of so many neurons."""
    from snv.cli.output import say, say_json
    from snv.subnetworks import Budget

    if (model is None) == (neurons is None):
        raise UserError("Give either --model or --neurons, so that there is something to plan for.")
    if model is not None:
        from snv.model import Model

        opened = Model.open(model)
        share, of = opened.spec["capacity"] if capacity is None else capacity, "the free neurons"
        course, fit = opened.plan(tasks, capacity)
    else:
        share, of = 0.2 if capacity is None else capacity, "all neurons"
        budget = Budget(neurons or 0, share, overlap=overlap)
        course, fit = budget.plan(tasks), budget.tasks_that_fit()
    n, used = course.n, course.before
    if as_json:
        say_json({"neurons": n, "used": used, "fit": fit, "new": list(course.new), "full_after": course.full_after})
        return
    say(f"{used:,} of {n:,} neurons are used. {fit} more task{'s' * (fit != 1)} of {100 * share:.0f} % of {of} fit.")
    say(f"New neurons of the next tasks: {', '.join(f'{k:,}' for k in course.new)}.")
    say(str(course))
    if course.full_after is not None:
        say("A full network still learns: later tasks reuse frozen neurons with their own norm layers and head.")


def forget(
    task: Annotated[str, typer.Argument(help="The task to remove.")],
    model: ModelPath,
    as_json: AsJson = False,
) -> None:
    """Remove a task: its head, and every neuron that only it used. All other tasks are verified unchanged."""
    from snv.cli.output import say, say_json
    from snv.model import Model

    opened = Model.open(model)
    freed = opened.forget(task)
    left = [info.name for info in opened.tasks]
    if as_json:
        say_json({"forgotten": task, "freed": freed, "left": left})
        return
    say(f"forgot {task!r}: {freed:,} neurons are free again; verified unchanged: {_list(left) or 'no other tasks'}")


def export(
    model: ModelPath,
    task: Annotated[str, typer.Option(help="The task to cut out.")],
    kind: Annotated[str, typer.Option("--format", help="onnx or torch-export.")] = "onnx",
    out: Annotated[Path | None, typer.Option(help="The file; default: TASK.onnx or TASK.pt2.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write one task's subnetwork as a small file of its own, checked against the model."""
    import dataclasses

    from snv.cli.output import say, say_json
    from snv.model import Model

    exported = Model.open(model).export(task, out, kind)
    if as_json:
        say_json(dataclasses.asdict(exported) | {"file": str(exported.file)})
        return
    shape = ", ".join(map(str, exported.shape))
    say(f"wrote {exported.file} ({exported.bytes / 1e3:.0f} kB): RGB pictures (n, {shape}) in [0, 1] to logits")
    say(f"  classes in order   {_list(exported.classes)}")
    say(f"  checked            100 random pictures, largest difference {exported.max_abs_error:.1e}")


def audit(model: ModelPath, as_json: AsJson = False) -> None:
    """List every file and tensor of the model with its role: proof that no training picture is kept."""
    from snv.cli.output import say, say_json, say_table
    from snv.model import Model

    opened = Model.open(model)
    files, rows = opened.status().files, opened.audit()
    total = sum(row.bytes for row in rows)
    if as_json:
        say_json({"files": files, "tensors": [row._asdict() for row in rows], "bytes": total})
        return
    say_table("files", ["file", "bytes"], [[name, f"{size:,}"] for name, size in files.items()])
    by_role: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        by_role.setdefault((row.part, row.role), []).append(row.bytes)
    shown = [[part, role, str(len(sizes)), f"{sum(sizes):,}"] for (part, role), sizes in by_role.items()]
    say_table("tensors", ["part", "role", "tensors", "bytes"], shown)
    say(f"{len(rows)} tensors, {total:,} bytes, each one named above (--json lists them all); no picture among them.")
