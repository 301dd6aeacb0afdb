"""A copy elsewhere is at every moment a run directory as a kill could have left it."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import fsspec
import pytest

from quick_run import QUICK
from snv.cli.run import split_arguments
from snv.config import load_config
from snv.errors import UserError
from snv.runs import Mirror, but_checkpoints, is_url, mirrored
from snv.runs.run import run


@pytest.fixture
def url():
    """A place in memory."""
    place = f"memory://{uuid.uuid4().hex}"
    yield place
    files, root = fsspec.url_to_fs(place)
    if files.exists(root):
        files.rm(root, recursive=True)


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / "here"
    (made / "checkpoints").mkdir(parents=True)
    for name in ("config.json", "record.json", "log.jsonl", "lock", "checkpoints/now.safetensors", ".a.tmp"):
        (made / name).write_text(name)
    return made


def names(url: str) -> set[str]:
    files, root = fsspec.url_to_fs(url)
    return {name.removeprefix(root).lstrip("/") for name in files.find(root)}


def test_what_goes_up_comes_down_and_what_is_nobody_elses_business_stays(folder, url, tmp_path):
    Mirror(folder, url).push()
    assert names(url) == {"config.json", "record.json", "log.jsonl", "checkpoints/now.safetensors"}
    Mirror(tmp_path / "there", url).pull()
    assert (tmp_path / "there" / "checkpoints" / "now.safetensors").read_text() == "checkpoints/now.safetensors"
    Mirror(tmp_path / "small", url).pull(but_checkpoints)
    assert not (tmp_path / "small" / "checkpoints").exists()


def test_only_what_has_changed_is_written_again_and_what_is_gone_goes(folder, url, monkeypatch):
    mirror = Mirror(folder, url)
    mirror.push()
    written: list[str] = []
    put = Mirror._put
    monkeypatch.setattr(Mirror, "_put", lambda self, name: (written.append(name), put(self, name)))
    (folder / "log.jsonl").write_text("more of it")
    (folder / "checkpoints" / "task-001.safetensors").write_text("done")
    (folder / "checkpoints" / "now.safetensors").unlink()
    mirror.push()
    assert written == ["checkpoints/task-001.safetensors", "log.jsonl"]
    assert names(url) == {"config.json", "record.json", "log.jsonl", "checkpoints/task-001.safetensors"}


def test_checkpoints_go_first_and_what_makes_it_a_run_last(folder, url, monkeypatch):
    written: list[str] = []
    monkeypatch.setattr(Mirror, "_put", lambda self, name: written.append(name))
    Mirror(folder, url).push()
    assert written == ["checkpoints/now.safetensors", "log.jsonl", "record.json", "config.json"]


def test_an_upload_that_is_cut_leaves_the_old_file(folder, tmp_path, monkeypatch):
    url = (tmp_path / "store").as_uri()
    mirror = Mirror(folder, url)
    mirror.push()
    (folder / "checkpoints" / "now.safetensors").write_text("half of it is lost")

    def cut(path, there, **_):
        Path(there).write_text(Path(path).read_text()[:4])
        raise OSError("connection lost")

    monkeypatch.setattr(mirror._files, "put_file", cut)
    with pytest.raises(UserError, match="cannot be written: OSError: connection lost"):
        mirror.push()
    Mirror(tmp_path / "there", url).pull()
    found = [path.name for path in (tmp_path / "there" / "checkpoints").iterdir()]
    assert found == ["now.safetensors"]
    assert (tmp_path / "there" / "checkpoints" / found[0]).read_text() == "checkpoints/now.safetensors"


def test_a_run_goes_on_in_another_folder_from_its_copy_to_the_same_bits(tmp_path, url):
    config = load_config(None, split(QUICK))
    run(config, tmp_path / "whole")

    class DiedError(Exception):
        pass

    saves: list[int] = []

    def dying(push):
        def saved() -> None:
            push()
            saves.append(1)
            if len(saves) == 3:
                raise DiedError

        return saved

    with pytest.raises(DiedError), mirrored(tmp_path / "first", url) as push:
        run(config, tmp_path / "first", saved=dying(push))
    shutil.rmtree(tmp_path / "first")
    with mirrored(tmp_path / "second", url) as push:
        assert (tmp_path / "second" / "checkpoints" / "task-003.safetensors").exists()
        run(config, tmp_path / "second", saved=push)
    Mirror(tmp_path / "third", url).pull()
    for whole in [*(tmp_path / "whole" / "checkpoints").iterdir(), tmp_path / "whole" / "record.json"]:
        name = whole.relative_to(tmp_path / "whole")
        assert (tmp_path / "third" / name).read_bytes() == whole.read_bytes(), name


def split(arguments: list[str]) -> list[str]:
    """Settings as a config takes them."""
    return ["data.name=digits", "data.tasks=5", "train.epochs=4", *split_arguments(arguments[6:])[1]]


def test_a_store_that_is_not_there_is_told_before_anything_is_done(tmp_path):
    with pytest.raises(UserError, match="cannot be opened"):
        Mirror(tmp_path, "nowhere://bucket/runs")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be written: .*Error"):
        Mirror(tmp_path, (tmp_path / "file" / "runs").as_uri()).check()


def test_a_url_is_told_from_a_path():
    assert is_url("s3://bucket/runs")
    assert not is_url(Path("runs/s3"))
    assert not is_url("C:/runs")


def test_without_a_url_there_is_nothing_to_copy(tmp_path):
    with mirrored(tmp_path / "run", None) as push:
        push()
    assert not (tmp_path / "run").exists()
