"""A model directory: what was written is what is read, whatever else happens to its files."""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from snv.errors import UserError
from snv.model import manifest, store
from snv.model.store import Store, Stored
from stored import file_of, forge, save, states_of

FRESH = multiprocessing.get_context("forkserver")
FRESH.set_forkserver_preload(["pytest", "snv.model.store"])


def generation(stored: Stored) -> int:
    """Which generation was read; all its parts must be of the same."""
    n = stored.content["n"]
    expected = states_of(n)
    assert stored.states.keys() == expected.keys()
    assert torch.equal(stored.states["body"]["weight"], expected["body"]["weight"])
    assert torch.equal(stored.states["task-birds"]["weight"], expected["task-birds"]["weight"])
    assert stored.states["Task «Vögel»/../x"] == {"n": n}
    return n


def test_what_was_written_is_read_and_nothing_is_wrong_with_it(tmp_path):
    model = save(tmp_path / "pets.snv", 3)
    stored = Store(tmp_path / "pets.snv").read()
    assert generation(stored) == 3
    assert stored.content["tasks"] == ["birds", "Vögel"]
    assert stored.states["body"]["at"] == [1, None, 0.5]
    assert stored.states["body"]["frozen"].dtype == torch.bool
    assert model.damage() == []


def test_the_content_is_read_as_JSON_has_it(tmp_path):
    model = Store(tmp_path)
    with model.writing():
        model.write({10: (1, 2), 9: "ten"}, {})
    assert model.read() == Stored({"10": [1, 2], "9": "ten"}, {})


def test_only_new_content_is_written_and_old_files_go(tmp_path):
    model = save(tmp_path, 0)
    body, birds = file_of(model, "body"), file_of(model, "task-birds")
    before = body.stat()
    save(tmp_path, 1)
    assert (body.stat().st_ino, body.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not birds.exists()
    assert len(list(tmp_path.iterdir())) == 5  # three states, the manifest, the lock


def test_leftovers_of_a_killed_writer_are_no_damage_and_go_with_the_next_save(tmp_path):
    model = save(tmp_path / "a", 0)
    other = file_of(save(tmp_path / "b", 1), "task-birds")
    leftovers = [model.path / other.name, model.path / ".model.json.x1.tmp"]
    leftovers[0].write_bytes(other.read_bytes())
    leftovers[1].write_bytes(b"{")
    (model.path / "notes.txt").write_text("mine")
    assert [sentence for sentence in model.damage() if "notes.txt" not in sentence] == []
    save(model.path, 2)
    assert not any(path.exists() for path in leftovers)
    assert (model.path / "notes.txt").read_text() == "mine"


def test_a_save_repairs_a_damaged_file_that_has_not_changed(tmp_path):
    model = save(tmp_path, 0)
    flip(file_of(model, "body"), 100)
    assert model.damage()
    save(tmp_path, 0)
    assert model.damage() == []


def test_a_save_that_fails_leaves_the_old_model(tmp_path, monkeypatch):
    model = save(tmp_path, 0)

    def full(path, write):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "write_atomic", full)
    with pytest.raises(UserError, match=r"could not be saved.*No space left.*held before is intact"):
        save(tmp_path, 1)
    assert generation(model.read()) == 0


def test_content_that_is_not_JSON_is_refused_before_anything_is_on_disk(tmp_path):
    model = save(tmp_path, 0)
    names = sorted(tmp_path.iterdir())
    with model.writing(), pytest.raises(ValueError, match="JSON compliant"):
        model.write({"accuracy": float("nan")}, states_of(1))
    assert sorted(tmp_path.iterdir()) == names


def flip(path: Path, at: int, bits: int = 0x01) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= bits
    path.write_bytes(data)


@pytest.mark.parametrize("bits", [0x01, 0x20, 0x80, 0x2A])  # 0x2a turns a blank into a line feed and back
@pytest.mark.parametrize("name", ["model.json", "body", "task-birds", "Task «Vögel»/../x"])
def test_a_flipped_byte_anywhere_is_found_and_its_file_named(tmp_path, name, bits):
    model = save(tmp_path)
    path = tmp_path / "model.json" if name == "model.json" else file_of(model, name)
    whole = path.read_bytes()
    draw = random.Random(f"{name}{bits}")
    for at in {0, 1, 7, 8, 9, 30, len(whole) - 1, *(draw.randrange(len(whole)) for _ in range(25))}:
        flip(path, at, bits)
        assert any(path.name in sentence for sentence in model.damage()), f"byte {at}"
        with pytest.raises(UserError, match=path.name):
            model.read()
        path.write_bytes(whole)
    assert model.damage() == []


def test_every_kind_of_damage_is_one_sentence_that_names_the_file(tmp_path):
    model = save(tmp_path)
    body, birds, third = (file_of(model, name) for name in states_of(0))
    body.unlink()
    birds.write_bytes(birds.read_bytes()[:-1])
    third.write_bytes(third.read_bytes() + b"\0")
    (tmp_path / "lock").write_bytes(b"x")
    (tmp_path / "extra.safetensors").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    (tmp_path / "old-0123456789abcdef.safetensors").write_bytes(b"not what the name says")
    problems = model.damage()
    told = {
        body.name: "is missing",
        birds.name: "bytes instead of",
        third.name: "bytes instead of",
        "lock": "1 bytes instead of at most 0",
        "extra.safetensors": "does not belong",
        "link": "does not belong",
        "folder": "does not belong",
        "old-0123456789abcdef.safetensors": "does not belong",
    }
    assert len(problems) == len(told)
    for name, words in told.items():
        assert any(f"{tmp_path / name} " in problem and words in problem for problem in problems), name


def test_a_missing_or_unreadable_manifest_is_damage_and_no_model(tmp_path):
    model = save(tmp_path)
    for content in (b"", b"\xff\xfe", b"[1]", b"null", b"{}", b"[" * 100_000, b'{"format": 1e999}'):
        (tmp_path / "model.json").write_bytes(content)
        assert ["model.json" in sentence for sentence in model.damage()] == [True], content[:20]
        with pytest.raises(UserError, match=r"model\.json was edited or damaged"):
            model.read()
    (tmp_path / "model.json").unlink()
    assert ["model.json is missing" in sentence for sentence in model.damage()] == [True]
    with pytest.raises(UserError, match=r"is not a model: model\.json is missing"):
        model.read()


def write_for_ever(path: Path, first: int) -> None:
    for n in range(first, 1_000_000):
        save(path, n)


@contextmanager
def another_process(target, *args) -> Iterator[None]:
    """Run ``target`` beside the block and kill it afterwards."""
    process = FRESH.Process(target=target, args=args, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def test_a_writer_killed_at_any_moment_leaves_a_whole_model(tmp_path):
    model = save(tmp_path, 0)
    draw = random.Random(0)
    for _ in range(6):
        before = generation(model.read())
        with another_process(write_for_ever, tmp_path, before + 1):
            deadline = time.monotonic() + 15
            while generation(model.read()) == before:  # reading while it writes
                assert time.monotonic() < deadline
            for _ in range(3):
                assert generation(model.read()) > before
                assert model.damage() == []
            time.sleep(draw.uniform(0, 0.05))
        assert model.damage() == []
        assert generation(model.read()) > before
    save(tmp_path, 0)  # the lock of a killed process is free
    assert len(list(tmp_path.iterdir())) == 5


def test_a_first_save_that_was_killed_can_be_done_again(tmp_path):
    (tmp_path / "lock").touch()
    (tmp_path / "body-0123456789abcdef.safetensors").write_bytes(b"")
    (tmp_path / ".model.json.abc.tmp").write_bytes(b"")
    assert not Store(tmp_path).exists()
    assert generation(save(tmp_path, 4).read()) == 4


def hold(path: Path, held) -> None:
    with Store(path).writing():
        held.set()
        time.sleep(60)


def test_a_second_writer_is_refused_at_once_while_readers_go_on(tmp_path):
    model = save(tmp_path, 0)
    held = FRESH.Event()
    with another_process(hold, tmp_path, held):
        assert held.wait(20)
        start = time.monotonic()
        with pytest.raises(UserError, match=r"is being changed by another process\. Wait"), model.writing():
            pass
        assert time.monotonic() - start < 1
        assert generation(model.read()) == 0
        assert model.damage() == []
    save(tmp_path, 1)


def test_a_second_writer_in_the_same_process_is_refused_too(tmp_path):
    model = save(tmp_path)
    with model.writing(), pytest.raises(UserError, match="is being changed"), Store(tmp_path).writing():
        pass


def test_writing_without_the_lock_is_a_mistake_of_the_caller(tmp_path):
    model = save(tmp_path)
    with pytest.raises(RuntimeError, match="only inside"):
        model.write({}, {})


def test_a_reader_overtaken_by_a_writer_reads_the_newer_model(tmp_path, monkeypatch):
    model = save(tmp_path, 0)
    plain, overtaken = Store._state, []

    def overtaking(self, entry):
        if not overtaken:
            overtaken.append(entry)
            save(tmp_path, 1)
        return plain(self, entry)

    monkeypatch.setattr(Store, "_state", overtaking)
    assert generation(model.read()) == 1
    overtaken.clear()
    save(tmp_path, 0)
    assert model.damage() == []


def test_a_model_of_an_older_format_is_upgraded_when_read_and_saved_in_the_new_one(tmp_path, monkeypatch):
    model = save(tmp_path, 5)
    forge(model, format=0, content={"number": 5})
    with pytest.raises(UserError, match=r"is of format 0, which snv .* cannot read"):
        model.read()
    monkeypatch.setitem(store.UPGRADES, 0, lambda old: Stored({"n": old.content["number"]}, old.states))
    assert generation(model.read()) == 5
    with model.writing():
        model.write(*vars(model.read()).values())
    assert json.loads((tmp_path / "model.json").read_text())["format"] == manifest.FORMAT
    assert generation(model.read()) == 5


def test_what_is_no_model_is_refused_and_left_alone(tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "holiday.jpg").write_bytes(b"jpg")
    (tmp_path / "file.snv").write_bytes(b"")
    for path, reason in [
        (photos, "is not a model: model.json is missing"),
        (tmp_path / "file.snv", "it is a file"),
        (tmp_path / "nothing", "nothing is there"),
    ]:
        with pytest.raises(UserError, match=reason):
            Store(path).read()
    with pytest.raises(UserError, match=r"holds no model \(found holiday.jpg\)"), Store(photos).writing():
        pass
    for path in (tmp_path / "file.snv", tmp_path / "file.snv" / "deeper"):
        with pytest.raises(UserError, match=r"it is a file|cannot be written"), Store(path).writing():
            pass
    assert [path.name for path in photos.iterdir()] == ["holiday.jpg"]


@pytest.mark.parametrize("name", ["body", "model.json", "lock"])
def test_a_symbolic_link_is_neither_followed_nor_written_through(tmp_path, name):
    model = save(tmp_path / "pets.snv", 0)
    path = file_of(model, "body") if name == "body" else model.path / name
    outside = tmp_path / "outside"
    path.rename(outside)
    path.symlink_to(outside)
    before = outside.read_bytes()
    assert f"{path} is a symbolic link" in model.damage()[0]
    if name == "lock":
        with pytest.raises(UserError, match="lock is a symbolic link"):
            save(model.path, 1)
    else:
        with pytest.raises(UserError, match="is a symbolic link"):
            model.read()
        assert generation(save(model.path, 1).read()) == 1  # put in its place, not written through it
        assert not path.is_symlink()
    assert outside.read_bytes() == before


class Bomb:
    """Unpickling this creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_a_pickle_under_the_name_of_a_state_is_never_unpickled(tmp_path):
    model = save(tmp_path / "pets.snv")
    path = file_of(model, "body")
    torch.save({"weight": torch.zeros(3), "bomb": Bomb(tmp_path / "exploded")}, path)
    with pytest.raises(UserError, match=path.name):
        model.read()
    data = path.read_bytes()
    forge(model, files={"body": {"file": path.name, "bytes": len(data), "blake2b": manifest.digest(data)}})
    with pytest.raises(UserError, match=f"{path.name} is not a state saved by snv"):
        model.read()
    assert not (tmp_path / "exploded").exists()
