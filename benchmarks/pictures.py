"""Three folders of five classes learned one after the other, then asked about pictures nobody showed.

    python benchmarks/pictures.py TINY-IMAGENET.zip [--features FILE.onnx --mean … --std …] [--each 400]

Classes are those of the page on pictures; every step is a command of its own in a fresh process. The last line is JSON:
seconds of each `snv learn`, shares of unseen pictures named right among all fifteen classes (``open``) and with the
task known (``known``), and seconds of `snv predict` per picture.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

FOLDERS = {
    "water": {
        "black-stork": "n02002724",
        "bullfrog": "n01641577",
        "goldfish": "n01443537",
        "spiny-lobster": "n01984695",
        "trilobite": "n01768244",
    },
    "beach": {
        "German-shepherd": "n02106662",
        "Yorkshire-terrier": "n02094433",
        "albatross": "n02058221",
        "dugong": "n02074367",
        "golden-retriever": "n02099601",
    },
    "zoo": {
        "African-elephant": "n02504458",
        "Arabian-camel": "n02437312",
        "ladybug": "n02165456",
        "standard-poodle": "n02113799",
        "tabby": "n02123045",
    },
}


def lay_out(archive: Path, root: Path, each: int, unseen: int) -> None:
    """Folders to learn, and the last training pictures of each class to ask about."""
    with zipfile.ZipFile(archive) as pictures:
        names = pictures.namelist()
        for folder, classes in FOLDERS.items():
            for label, wnid in classes.items():
                found = sorted(name for name in names if f"/train/{wnid}/images/" in name)
                if len(found) < each + unseen:
                    raise SystemExit(f"{archive} has {len(found)} pictures of {label}; {each + unseen} are needed")
                for part, chosen in (("learn", found[:each]), ("ask", found[len(found) - unseen :])):
                    target = root / part / folder / label
                    target.mkdir(parents=True)
                    for name in chosen:
                        (target / Path(name).name).write_bytes(pictures.read(name))


def snv(*arguments: object) -> tuple[float, str]:
    """Seconds and output of a command."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "snv.cli.main", *map(str, arguments)]
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE)
    return time.perf_counter() - start, done.stdout


def given(options: argparse.Namespace) -> list[object]:
    """What `snv learn` is told about the pretrained network."""
    names = {"--features": [options.features], "--features-mean": options.mean, "--features-std": options.std}
    return [word for name, values in names.items() if values and values[0] is not None for word in (name, *values)]


def share_right(model: Path, root: Path, known: bool) -> tuple[float, float]:
    """Percent of pictures whose class is named right, and seconds per picture."""
    right = n = 0
    seconds = 0.0
    for folder in FOLDERS:
        took, told = snv("predict", root / "ask" / folder, "--model", model, "--json", *(["--task", folder] * known))
        seconds += took
        for line in map(json.loads, told.splitlines()):
            right += line["best"][0]["class"] == Path(line["file"]).parent.name
            n += 1
    return 100 * right / n, seconds / n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--features", type=Path, help="a pretrained network; default: random filters")
    parser.add_argument("--mean", type=float, nargs=3, help="taken off pixels for it")
    parser.add_argument("--std", type=float, nargs=3, help="and divided by")
    parser.add_argument("--each", type=int, default=400, help="pictures of a class to learn")
    parser.add_argument("--unseen", type=int, default=50, help="pictures of a class to ask about")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        lay_out(options.archive, root, options.each, options.unseen)
        model, learned = root / "pets.snv", []
        for i, name in enumerate(FOLDERS):
            took, told = snv("learn", root / "learn" / name, "--model", model, *(given(options) if i == 0 else []))
            print(told, end="", flush=True)
            learned.append(round(took, 1))
        open_right, seconds = share_right(model, root, known=False)
        known_right, _ = share_right(model, root, known=True)
        verified = snv("verify", "--model", model)[1].count("ok ")
        size = sum(file.stat().st_size for file in model.iterdir())
    result = {"learn_seconds": learned, "open": open_right, "known": known_right, "predict_seconds": seconds}
    print(json.dumps(result | {"verified": verified, "megabytes": size / 1e6}))


if __name__ == "__main__":
    main()
