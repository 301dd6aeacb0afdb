"""The eight commands for people with pictures: what they print, how they fail, and that a kill does no harm."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import pickle
import random
import shutil
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from drawn import FISH, TREES, contents, draw, make_pictures
from snv import Model
from snv.cli.main import main
from snv.model import manifest, store

FRESH = multiprocessing.get_context("forkserver")
FRESH.set_forkserver_preload(["pytest", "snv.cli.main", "snv.model", "snv.model.learning"])
COMMANDS = ("learn", "predict", "status", "verify", "plan", "forget", "export", "audit")
FILES = ("model.json", "network", "task-0-birds", "task-1-fish")


@pytest.fixture
def pets(taught, tmp_path) -> Path:
    return shutil.copytree(taught, tmp_path / "pets.snv")


def lines_of_json(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


# ---- what each says


def test_the_first_learn_makes_the_model_and_the_next_verifies_what_was_there(cli, pictures, tmp_path):
    target = tmp_path / "new.snv"
    small = ["--size", 16, "--width", 4, "--epochs", 1]
    first = cli("learn", pictures / "birds", "--model", target, *small)
    assert first.code == 0, first.err
    assert "learned 'birds': crow, robin" in first.out
    assert f"made {target}" in first.out
    second = cli("learn", pictures / "fish", "--model", target, "--task", "pond", "--epochs", 1)
    assert "learned 'pond': perch, pike, trout" in second.out
    assert "verified unchanged           birds" in second.out
    assert f"updated {target}" in second.out
    assert [task.name for task in Model.open(target).tasks] == ["birds", "pond"]
    late = cli("learn", pictures / "trees", "--model", target, "--width", 8)
    assert late.code == 2
    assert "--width is chosen when a model is made" in late.err


def test_learn_tells_machines_the_same(cli, pictures, pets):
    told = json.loads(cli("learn", pictures / "trees", "--model", pets, "--epochs", 1, "--json").out)
    assert (told["task"]["name"], told["task"]["classes"]) == ("trees", list(TREES))
    assert told["verified"] == ["birds", "fish"]
    assert 0 < told["new_neurons"] <= told["neurons"]


def test_predict_answers_files_and_folders(cli, pets, pictures):
    told = cli("predict", pictures / "birds" / "crow" / "0.png", pictures / "fish", "--model", pets)
    assert told.code == 0
    assert len(told.out.splitlines()) == 1 + 24
    file, answer = told.out.splitlines()[0].split("\t")
    assert file == str(pictures / "birds" / "crow" / "0.png")
    assert answer.endswith(" %")
    rows = lines_of_json(cli("predict", pictures / "fish", "--model", pets, "--top", 9, "--task", "fish", "--json").out)
    assert len(rows) == 24
    for row in rows:
        assert {best["class"] for best in row["best"]} == set(FISH)
        assert sum(best["probability"] for best in row["best"]) == pytest.approx(1, abs=1e-5)
        assert row["error"] is None


def test_predict_reads_a_list_from_standard_input(cli, pets, pictures, monkeypatch):
    files = sorted((pictures / "fish" / "pike").iterdir())
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{file}\n" for file in files) + "\n"))
    told = cli("predict", "-", "--model", pets)
    assert [line.split("\t")[0] for line in told.out.splitlines()] == [str(file) for file in files]


def test_a_broken_picture_is_told_and_the_others_are_answered(cli, pets, pictures, tmp_path):
    root = shutil.copytree(pictures / "birds", tmp_path / "mixed")
    (root / "crow" / "3.png").write_bytes(b"\x89PNG no more")
    told = cli("predict", root, "--model", pets)
    assert told.code == 1
    assert told.err == "1 picture could not be read.\n"
    wrong = [line for line in told.out.splitlines() if "\terror: " in line]
    assert len(wrong) == 1
    assert "crow/3.png" in wrong[0]
    assert len(told.out.splitlines()) == 16
    rows = lines_of_json(cli("predict", root, "--model", pets, "--json").out)
    assert [row["best"] for row in rows if row["error"]] == [[]]


def test_names_of_files_need_not_be_text(pets, tmp_path):
    odd = os.fsencode(tmp_path) + b"/caf\xe9.png"
    draw("crow", 0).save(os.fsdecode(odd))
    command = [sys.executable, "-m", "snv.cli.main", "predict", odd, "--model", str(pets)]
    strict = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8:strict"}
    told = subprocess.run(command, capture_output=True, env=strict, check=True)
    assert told.stdout.startswith(odd + b"\t")


def test_status_says_what_is_known_and_how_much_room_is_left(cli, pets):
    told = cli("status", "--model", pets)
    assert "perch, pike, trout" in told.out
    assert "neurons in use" in told.out
    facts = json.loads(cli("status", "--model", pets, "--json").out)
    assert [task["name"] for task in facts["tasks"]] == ["birds", "fish"]
    assert 0 < facts["used"] < facts["neurons"]
    assert facts["bytes"] == sum(map(len, contents(pets).values()))


def test_verify_says_ok_for_every_task(cli, pets):
    told = cli("verify", "--model", pets)
    assert told.code == 0
    asked = [f"ok       {task}, task {known}" for task in ("birds", "fish") for known in ("known", "unknown")]
    assert [line.split(":")[0] for line in told.out.splitlines()] == asked
    facts = json.loads(cli("verify", "--model", pets, "--json").out)
    assert (facts["unchanged"], facts["damage"], len(facts["tasks"])) == (True, [], 2)
    assert {"task", "unchanged", "known", "told", "evidence", "told_open"} == set(facts["tasks"][0])


@pytest.mark.parametrize(
    ("what", "ways"),
    {"temperature": ["known"], "open temperature": ["unknown"], "class names": ["known", "unknown"]}.items(),
)
def test_verify_fails_and_names_what_changed_though_every_checksum_is_right(what, ways, cli, pets):
    directory = store.Store(pets)
    stored = directory.read()
    task = stored.content["tasks"][1]
    if what == "class names":
        task["classes"] = task["classes"][::-1]
    else:
        task[what.replace(" ", "_")] *= 1.5
    with directory.writing():
        directory.write(stored.content, stored.states)
    told = cli("verify", "--model", pets)
    assert told.code == 1
    expected = [f"CHANGED  fish, task {way}: its {what} changed" for way in ways]
    assert [line for line in told.out.splitlines() if not line.startswith("ok ")] == expected
    facts = json.loads(cli("verify", "--model", pets, "--json").out)
    assert (facts["unchanged"], [task["unchanged"] for task in facts["tasks"]]) == (False, [True, False])


def test_verify_of_a_model_of_the_version_before_notes_what_was_not_certified_and_succeeds(cli, pets):
    directory = store.Store(pets)
    stored = directory.read()
    for task in stored.content["tasks"]:
        del task["fingerprints"], task["certificate"]["evidence"]
    with directory.writing():
        directory.write(stored.content, stored.states)
    told = cli("verify", "--model", pets)
    assert told.code == 0
    assert told.out.count("note     ") == 2
    assert "birds, task unknown: the version of snv that wrote it did not certify its evidence" in told.out


def test_plan_tells_what_fits_in_a_model_or_a_network(cli, pets):
    facts = json.loads(cli("plan", "--model", pets, "--json").out)
    new, free = facts["new"], facts["neurons"] - facts["used"]
    assert all(new[: facts["fit"]]) and sum(new) <= free
    assert not any(new[facts["fit"] + 1 :]), "after a task that gets less than it asks for nothing is left"
    assert len(facts["new"]) == 10
    assert f"{facts['fit']} more tasks" in cli("plan", "--model", pets).out
    assert json.loads(cli("plan", "--neurons", 100, "--capacity", 0.1, "--json").out)["fit"] == 10
    assert "full after task 5 of 6" in cli("plan", "--neurons", 100, "--tasks", 6).out


def test_forget_frees_neurons_and_keeps_the_rest(cli, pets):
    facts = json.loads(cli("forget", "birds", "--model", pets, "--json").out)
    assert (facts["forgotten"], facts["left"]) == ("birds", ["fish"])
    assert facts["freed"] > 0
    told = cli("forget", "fish", "--model", pets)
    assert "forgot 'fish'" in told.out
    assert "no other tasks" in told.out
    assert cli("verify", "--model", pets).out == "ok       the model has no tasks yet\n"


@pytest.mark.parametrize(("kind", "file"), [("onnx", "fish.onnx"), ("torch-export", "fish.pt2")])
def test_export_writes_one_task_and_checks_it(kind, file, cli, pets, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if kind == "onnx":
        pytest.importorskip("onnxruntime")
    told = cli("export", "--model", pets, "--task", "fish", "--format", kind, "--json")
    assert told.code == 0, told.err
    facts = json.loads(told.out)
    assert (facts["file"], facts["classes"], facts["shape"]) == (file, list(FISH), [3, 16, 16])
    assert facts["bytes"] == (tmp_path / file).stat().st_size
    assert facts["max_abs_error"] <= 1e-3  # of logits in the tens


def test_export_tells_people_too(cli, pets, tmp_path):
    told = cli("export", "--model", pets, "--task", "fish", "--format", "torch-export", "--out", tmp_path / "a.pt2")
    assert "classes in order   perch, pike, trout" in told.out


def test_audit_lists_every_file_and_tensor(cli, pets):
    facts = json.loads(cli("audit", "--model", pets, "--json").out)
    assert facts["files"] == {name: len(data) for name, data in contents(pets).items()}
    assert facts["bytes"] == sum(row["bytes"] for row in facts["tensors"]) < sum(facts["files"].values())
    assert all(row["role"] and row["part"] for row in facts["tensors"])
    told = cli("audit", "--model", pets).out
    assert all(name in told for name in contents(pets))
    assert "no picture among them" in told


def test_every_command_explains_itself(cli):
    for command in COMMANDS:
        told = cli(command, "--help")
        assert told.code == 0
        assert "--json" in told.out


# ---- mistakes


def bad_class(tmp: Path) -> Path:
    make_pictures(tmp / "trees", ("elm", "pike"), 8)
    return tmp / "trees"


def few(tmp: Path) -> Path:
    make_pictures(tmp / "trees", ("elm",), 8)
    make_pictures(tmp / "trees", ("oak",), 3)
    return tmp / "trees"


def bomb(tmp: Path) -> Path:
    """A picture of a few bytes that claims to have ten thousand million pixels."""
    root = make_pictures(tmp / "trees", TREES, 8)
    size = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", size), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    (root / "oak" / "0.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    return root


def text(tmp: Path) -> Path:
    root = make_pictures(tmp / "trees", TREES, 8)
    (root / "oak" / "0.png").write_text("I am no picture")
    return root


def link(tmp: Path) -> Path:
    root = make_pictures(tmp / "trees", TREES, 8)
    draw("oak", 0).save(tmp / "secret.png")
    (root / "oak" / "0.png").unlink()
    (root / "oak" / "0.png").symlink_to(tmp / "secret.png")
    return root


def trees(tmp: Path) -> Path:
    return make_pictures(tmp / "trees", TREES, 8)


MISTAKES = {
    "no folder": (lambda tmp: ["learn", tmp / "nowhere"], "nowhere is not a folder"),
    "name taken": (lambda tmp: ["learn", trees(tmp), "--task", "fish"], "(--task), or replace the old one (--replace)"),
    "class taken": (lambda tmp: ["learn", bad_class(tmp)], "(--repeat-classes)"),
    "too few": (lambda tmp: ["learn", few(tmp)], "'oak' has 3 pictures"),
    "no epochs": (lambda tmp: ["learn", trees(tmp), "--epochs", 0], "--epochs is at least 1"),
    "way out in a name": (lambda tmp: ["learn", trees(tmp), "--task", "../../x"], "cannot be the name of a task"),
    "no device": (lambda tmp: ["learn", trees(tmp), "--device", "cuda:99"], "Device 'cuda:99' cannot be used"),
    "a picture made to exhaust memory": (lambda tmp: ["learn", bomb(tmp)], "oak/0.png has more than"),
    "text for a picture": (lambda tmp: ["learn", text(tmp)], "oak/0.png cannot be read"),
    "a link out of the folder": (lambda tmp: ["learn", link(tmp)], "is a link to"),
    "no picture": (lambda tmp: ["predict", tmp / "a.png"], "a.png does not exist"),
    "a folder without pictures": (lambda tmp: ["predict", tmp / "nothing"], "no picture in"),
    "no answers": (lambda tmp: ["predict", "x.png", "--top", 0], "at least 1; got 0"),
    "unknown task": (lambda tmp: ["predict", "x.png", "--task", "fisch"], "Did you mean 'fish'?"),
    "nothing to forget": (lambda tmp: ["forget", "fisch"], "Did you mean 'fish'?"),
    "nothing to export": (lambda tmp: ["export", "--task", "fisch"], "Did you mean 'fish'?"),
    "unknown format": (lambda tmp: ["export", "--task", "fish", "--format", "pdf"], "onnx or torch-export; got 'pdf'"),
    "no place to export to": (
        lambda tmp: ["export", "--task", "fish", "--format", "torch-export", "--out", tmp / "file" / "a.pt2"],
        "cannot be written",
    ),
    "no capacity": (lambda tmp: ["plan", "--capacity", 0], "capacity is the share"),
    "two things to plan for": (lambda tmp: ["plan", "--neurons", 9], "either --model or --neurons"),
}


@pytest.mark.parametrize(("arguments", "answer"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_gets_one_sentence_and_exit_code_2_and_changes_nothing(arguments, answer, cli, pets, tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "nothing").mkdir()
    before = contents(pets)
    told = cli(*arguments(tmp_path), "--model", pets)
    assert told.code == 2
    assert answer in told.err
    assert told.err.startswith("error: ")
    assert told.err.count("\n") == 1
    assert contents(pets) == before


@pytest.mark.parametrize("command", [["status"], ["verify"], ["audit"], ["plan"], ["forget", "x"], ["predict", "x"]])
def test_a_path_without_a_model_is_said_to_be_one_and_nobody_is_told_to_remove_files(command, cli, pictures, tmp_path):
    for path, answer in ((pictures, "is not a model"), (tmp_path / "nowhere", "There is no model at")):
        told = cli(*command, "--model", path)
        assert told.code == 2
        assert answer in told.err
        assert "Remove it" not in told.err + told.out


def test_pictures_made_to_do_harm_are_reported_by_predict(cli, pets, tmp_path):
    root = bomb(tmp_path)
    (root / "elm" / "0.png").unlink()
    (root / "elm" / "0.png").symlink_to("/etc/hostname")
    told = cli("predict", root, "--model", pets)
    assert told.code == 1
    assert "0.png has more than" in told.out
    assert len(told.out.splitlines()) == 15, "the link is not followed"


# ---- damage


def path_of(pets: Path, part: str) -> Path:
    return next(path for path in pets.iterdir() if path.name.startswith(part))


@pytest.mark.parametrize("part", FILES)
def test_one_flipped_byte_in_any_file_is_found_and_the_file_is_named(part, cli, pets):
    path = path_of(pets, part)
    data = bytearray(path.read_bytes())
    data[random.Random(part).randrange(len(data))] ^= 1
    path.write_bytes(data)
    told = cli("verify", "--model", pets)
    assert told.code == 1
    assert f"DAMAGED  {path}" in told.out
    facts = json.loads(cli("verify", "--model", pets, "--json").out)
    assert not facts["unchanged"]
    assert any(path.name in problem for problem in facts["damage"])
    for command in (["status"], ["forget", "birds"], ["predict", "x.png"]):
        told = cli(*command, "--model", pets)
        assert (told.code, told.err.count("\n")) == (2, 1)
        assert path.name in told.err


@pytest.mark.parametrize("part", FILES)
def test_a_missing_file_is_found_too(part, cli, pets):
    path = path_of(pets, part)
    path.unlink()
    told = cli("verify", "--model", pets)
    assert told.code == 1
    assert path.name in told.out


def test_a_model_of_a_newer_format_is_refused_with_advice(cli, pets):
    fields = json.loads((pets / "model.json").read_text()) | {"format": manifest.FORMAT + 1, "snv": "9.1"}
    del fields["checksum"]
    (pets / "model.json").write_bytes(manifest._with_checksum(fields))
    told = cli("status", "--model", pets)
    assert told.code == 2
    assert "needs snv 9.1 or newer: pip install --upgrade snv" in told.err


class Trap:
    """What an attacker would put into a file: opening it makes a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_in_place_of_tensors_is_not_opened_even_if_the_manifest_vouches_for_it(cli, pets, tmp_path):
    trap = pickle.dumps(Trap(tmp_path / "sprung"))
    name, digest = "task-0-birds", manifest.digest(trap)
    path_of(pets, name).unlink()
    (pets / f"{name}-{digest[:16]}.safetensors").write_bytes(trap)
    fields = json.loads((pets / "model.json").read_text())
    fields["files"]["task 0 birds"] = {
        "file": f"{name}-{digest[:16]}.safetensors",
        "bytes": len(trap),
        "blake2b": digest,
    }
    del fields["checksum"]
    (pets / "model.json").write_bytes(manifest._with_checksum(fields))
    for command in (["status"], ["predict", "x.png"], ["audit"]):
        told = cli(*command, "--model", pets)
        assert told.code == 2
        assert "is not a state saved by snv" in told.err
    assert cli("verify", "--model", pets).code == 1
    assert not (tmp_path / "sprung").exists()


# ---- killed


def snv(*arguments: str) -> None:
    """The command line in a process of its own."""
    sys.argv = ["snv", *arguments]
    sys.stdout = io.StringIO()
    main()


def test_a_learn_killed_at_twenty_moments_leaves_the_old_model_or_the_new_one(cli, pets, pictures):
    arguments = ("learn", str(pictures / "trees"), "--model", str(pets), "--epochs", "2", "--replace")
    births = {info.name: info.uid for info in Model.open(pets).tasks}

    def started() -> multiprocessing.Process:
        process = FRESH.Process(target=snv, args=arguments)
        process.start()
        return process

    started().join()  # the first brings up the server that the others are forked from
    start = time.monotonic()
    whole = started()
    whole.join()
    took = time.monotonic() - start
    assert whole.exitcode == 0
    rng, killed = random.Random(0), 0
    for i in range(20):
        process = started()
        process.join((i + rng.random()) / 20 * took)
        process.kill()
        process.join()
        killed += process.exitcode != 0
        model = Model.open(pets)
        assert [info.name for info in model.tasks] == ["birds", "fish", "trees"]
        assert {info.name: info.uid for info in model.tasks}.items() >= births.items()
        assert all(verdict.unchanged for verdict in model.verify())
        if i % 10 == 0:
            assert cli("status", "--model", pets).code == 0
            assert cli("verify", "--model", pets).code == 0
    assert killed >= 5  # the rest were faster than the one that was timed
    assert cli(*arguments).code == 0
    assert cli("verify", "--model", pets).code == 0
    assert not list(pets.glob("*.tmp")) + list(pets.glob(".*.tmp")), "the next save clears up"
