"""The shape of the house: rooms and their order, and figures that say whether it can still be read.

    python tools/shape.py              figures, as a table
    python tools/shape.py --readme     writes the tree and the table of methods into README.md
    python tools/shape.py --json       figures for machines

The order of the rooms is stated here once: the architecture test walks it, the README prints it.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "snv"
TESTS = ROOT / "tests"


@dataclass(frozen=True)
class Room:
    """Modules or packages of one level; a file imports from its own level or lower, other rooms by their doors."""

    level: int
    names: tuple[str, ...]
    purpose: str


HOUSE = (
    Room(0, ("errors", "seeding", "shapes", "text", "files", "threads"), "what everything stands on"),
    Room(0, ("machine",), "what there is to compute with: devices, memory, the processes of one training"),
    Room(1, ("data",), "tasks, splits, datasets, cache, augmentation"),
    Room(1, ("metrics",), "numbers from the accuracy matrix"),
    Room(1, ("shapley",), "games, estimators, error bars: the theory, which knows no network"),
    Room(2, ("networks",), "ResNet-18, small networks, one head per task; kinds of layers, norm state"),
    Room(3, ("neurons",), "filter or unit ⇄ (layer, channel) ⇄ its weights; gates, wiring"),
    Room(4, ("valuation",), "networks as games: what each neuron is worth"),
    Room(5, ("components",), "what several methods share: freezing, penalties, replay, teachers"),
    Room(5, ("subnetworks",), "which neurons a task keeps; its subnetwork, cut out, certified, believed"),
    Room(6, ("training",), "the one training loop"),
    Room(7, ("learners",), "one file per method"),
    Room(8, ("config",), "a run as frozen dataclasses ⇄ TOML"),
    Room(9, ("runs",), "who runs what, when; the run directory"),
    Room(10, ("study",), "many runs: sweeps and tuning"),
    Room(11, ("model",), "a model that lives in a directory and learns folders of pictures"),
    Room(12, ("report",), "tables, figures and pages, from records and models"),
    Room(13, ("cli",), "the commands"),
)
LEVEL = {name: room.level for room in HOUSE for name in room.names}
START, END = "<!-- tree: made by tools/shape.py -->\n", "<!-- end of tree -->"
TABLE_START, TABLE_END = "<!-- methods: made by tools/shape.py -->\n", "<!-- end of methods -->"


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    """The room a file stands in; the public names of the library stand above everything."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def module_of(path: Path) -> str:
    parts = ("snv", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, when_loaded: bool = False) -> list[tuple[str, str]]:
    """(module, name) of everything a file imports from the library, also inside functions unless ``when_loaded``."""
    found = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if when_loaded else ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "snv":
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names if alias.name.split(".")[0] == "snv"]
    return found


def upward() -> list[str]:
    """Imports from a higher level."""
    wrong = []
    for path in files():
        if path.parent == SOURCE and path.name in ("__init__.py", "__main__.py"):
            continue
        for module, name in imports(path):
            target = f"{module}.{name}".split(".")[1]
            if target in LEVEL and LEVEL[target] > LEVEL[room_of(path)]:
                wrong.append(f"{path.relative_to(SOURCE)} imports {module}")
    return wrong


def past_doors() -> list[str]:
    """Imports of another room's inside, or of a private name across rooms."""
    wrong = []
    for path in files():
        own = room_of(path)
        for module, name in imports(path):
            parts = module.split(".")
            if (
                len(parts) > 1
                and parts[1] != own
                and (len(parts) > 2 or name.startswith("_"))
                and path.parent != SOURCE
            ):
                wrong.append(f"{path.relative_to(SOURCE)} imports {module}.{name}")
            if len(parts) > 2 and path.parent == SOURCE and path.name not in ("__init__.py", "__main__.py"):
                wrong.append(f"{path.relative_to(SOURCE)} imports {module}.{name}")
    return wrong


def cycles() -> list[str]:
    """Files that import each other, however far around."""
    known = {module_of(path): path for path in files()}
    graph = {}
    for module, path in known.items():
        targets = {f"{m}.{n}" if f"{m}.{n}" in known else m for m, n in imports(path, when_loaded=True)}
        graph[module] = {target for target in targets if target in known and target not in (module, "snv")}
    found, state = [], dict.fromkeys(graph, 0)

    def visit(module: str, trail: list[str]) -> None:
        state[module] = 1
        for target in graph[module]:
            if state[target] == 1:
                found.append(" → ".join([*trail[trail.index(target) if target in trail else 0 :], module, target]))
            elif state[target] == 0:
                visit(target, [*trail, module])
        state[module] = 2

    for module in graph:
        if state[module] == 0 and module != "snv":
            visit(module, [])
    return found


def classes() -> dict[str, int]:
    """Methods of every class, properties included."""
    found = {}
    for path in files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[f"{node.name} ({path.relative_to(SOURCE)})"] = sum(
                    isinstance(item, ast.FunctionDef) for item in node.body
                )
    return found


def function_lengths() -> list[int]:
    lengths = []
    for path in files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                doc = ast.get_docstring(node) is not None
                first = node.body[1].lineno if doc and len(node.body) > 1 else node.body[0].lineno
                lengths.append((node.end_lineno or first) - first + 1)
    return lengths


def mirrored() -> tuple[int, int, list[str]]:
    """Modules with a test file of their name, how many there are, and those without."""
    tests = {path.stem for path in TESTS.rglob("test_*.py")}
    modules = [path for path in files() if path.name != "__init__.py"]
    without = [str(path.relative_to(SOURCE)) for path in modules if f"test_{path.stem}" not in tests]
    return len(modules) - len(without), len(modules), without


THREADS = {
    "an EWC task": "ewc",
    "an SNV task": "snv",
    "predict": "predict",
}


PAGES = {"ewc": "learners/ewc.py", "snv": "learners/snv.py", "predict": "model/model.py"}
"""Where a reader of each begins."""


def files_run(what: str, *options: str) -> list[str]:
    """The files above level 1 whose functions run in an action, found by watching it in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--watch", what, *options], capture_output=True, text=True, cwd=ROOT
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found = json.loads(done.stdout.splitlines()[-1])
    return [name for name in found if LEVEL.get(name.split("/")[0].removesuffix(".py"), 0) >= 2]


def watch(what: str, direct: bool = False) -> list[str]:
    """Files of the library whose functions run while one task is learned, or one picture is answered.

    ``direct``: only those that the method's own file calls itself, which is what its reader looks up.
    """
    import tempfile

    import numpy as np
    import torch

    import snv

    torch.set_num_threads(1)
    seen: set[str] = set()
    page = str(SOURCE / PAGES.get(what, "")) if direct else None

    def note(frame, _event, _argument):
        name = frame.f_code.co_filename
        called = page is None or (frame.f_back is not None and frame.f_back.f_code.co_filename == page)
        if called and name.startswith(str(SOURCE)) and frame.f_code.co_name not in ("<module>", "<lambda>"):
            seen.add(str(Path(name).relative_to(SOURCE)))

    with tempfile.TemporaryDirectory() as folder:
        if what == "predict":
            images = torch.randint(0, 255, (40, 1, 8, 8), dtype=torch.uint8)
            model = snv.Model.create(f"{folder}/m.snv", network="convnet", size=8, channels=1, width=4)
            model.learn((images, torch.arange(40) % 2), "a", epochs=2)
            model = snv.Model.open(f"{folder}/m.snv")
            sys.setprofile(note)
            model.predict([np.zeros((8, 8), dtype=np.uint8)])
            sys.setprofile(None)
        else:
            from snv.data import Preprocess, TaskStream, load_source
            from snv.learners import LEARNERS
            from snv.networks import build_network
            from snv.training import Setting, TrainSettings, learn_task

            stream = TaskStream(load_source("digits"), 5, 0, per_class=20)
            network = build_network("convnet", stream.source.shape, 0, width=4)
            preprocess = Preprocess.of(stream.source)
            train = TrainSettings(epochs=2, precision="fp32")
            setting = Setting(network, "til", train, preprocess, torch.device("cpu"), 0, 5)
            learner = LEARNERS[what](setting)
            task = stream.task(0).without_test()
            sys.setprofile(note)
            learn_task(learner, task)
            sys.setprofile(None)
    return sorted(seen)


def figures() -> dict[str, object]:
    by_methods = sorted(classes().items(), key=lambda pair: -pair[1])
    lines = sorted(
        ((len(p.read_text(encoding="utf-8").splitlines()), str(p.relative_to(SOURCE))) for p in files()), reverse=True
    )
    lengths = function_lengths()
    n_mirrored, n_modules, without = mirrored()
    top = [p.name for p in SOURCE.glob("*.py") if p.name != "__init__.py"]
    return {
        "files, lines": f"{len(lines)}, {sum(n for n, _ in lines):,}",
        "modules at top level": f"{len(top)} ({', '.join(sorted(top))})",
        "largest classes (methods)": ", ".join(f"{name} {n}" for name, n in by_methods[:4]),
        "largest files (lines)": ", ".join(f"{name} {n}" for n, name in lines[:6]),
        "functions (median, 9 of 10, longest)": (
            f"{statistics.median(lengths):.0f}, {statistics.quantiles(lengths, n=10)[-1]:.0f}, {max(lengths)} lines"
        ),
        "imports upward": len(upward()),
        "imports past doors": len(past_doors()),
        "cycles": len(cycles()),
        "modules with a test file of their name": f"{n_mirrored} of {n_modules}",
        "without one": ", ".join(without),
        **{f"files that run in {name}": len(files_run(what)) for name, what in THREADS.items()},
        **{f"of these, called by {PAGES[what]}": len(files_run(what, "--direct")) for what in PAGES},
    }


def tree() -> str:
    """The rooms as the README shows them."""
    rows = defaultdict(list)
    for room in HOUSE:
        rows[room.level].append(room)
    out = ["```", "src/snv/"]
    for level, rooms in rows.items():
        for room in rooms:
            package = (SOURCE / room.names[0]).is_dir()
            names = " ".join(f"{name}/" if package else name for name in room.names)
            out.append(f"├─ {level:2}  {names:<38} {room.purpose}")
    return "\n".join([*out, "```", ""])


def with_tree(text: str) -> str:
    return between(START, tree(), END, text)


def with_methods(text: str) -> str:
    """The README with the table of methods as their cards have it."""
    from snv.learners import LEARNERS, method_table

    return between(TABLE_START, method_table(LEARNERS), TABLE_END, text)


def between(start: str, inside: str, end: str, text: str) -> str:
    """The text with what stands between two markers replaced."""
    return re.sub(re.escape(start) + ".*?" + re.escape(end), lambda _: start + inside + end, text, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readme", action="store_true", help="write the tree and the table of methods into README.md")
    parser.add_argument("--json", action="store_true", help="figures for machines")
    parser.add_argument("--direct", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--watch", choices=list(THREADS.values()), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.watch:
        print(json.dumps(watch(options.watch, options.direct)))
    elif options.readme:
        readme = ROOT / "README.md"
        readme.write_text(with_methods(with_tree(readme.read_text(encoding="utf-8"))), encoding="utf-8")
    elif options.json:
        print(json.dumps(figures()))
    else:
        for name, value in figures().items():
            print(f"{name:<42} {value}")


if __name__ == "__main__":
    main()
