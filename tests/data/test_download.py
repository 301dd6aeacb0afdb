from __future__ import annotations

import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from snv.data import load_source, tiny_imagenet
from snv.data.download import DownloadError, Remote, download
from snv.data.locate import Options, obtain, silent
from snv.errors import UserError

DATA = bytes(range(256)) * 4000


class Server(ThreadingHTTPServer):
    """Serves DATA; ``cut`` answers in turn end after that many bytes, and ``ranges`` may be switched off."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.cut: list[int] = []
        self.ranges = True
        self.asked: list[str | None] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        if self.path != "/file.bin":
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.ranges else 0
        if start >= len(DATA):
            self.send_error(416)
            return
        body = DATA[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(DATA) - 1}/{len(DATA)}")
        self.end_headers()
        self.wfile.write(body[: self.server.cut.pop(0)] if self.server.cut else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def remote(server):
    return Remote(f"http://127.0.0.1:{server.server_port}/file.bin", hashlib.md5(DATA).hexdigest())


def test_a_download_is_the_file(remote, tmp_path):
    calls = []
    download(remote, tmp_path / "new" / "file.bin", lambda *call: calls.append(call))
    assert (tmp_path / "new" / "file.bin").read_bytes() == DATA
    assert calls[-1] == ("Downloading file.bin", len(DATA), len(DATA))
    assert not list(tmp_path.rglob("*.part"))


def test_a_file_that_is_there_is_not_fetched_again(server, remote, tmp_path):
    download(remote, tmp_path / "file.bin", silent)
    download(remote, tmp_path / "file.bin", silent)
    assert len(server.asked) == 1


def test_a_cut_connection_is_resumed_where_it_stopped(server, remote, tmp_path):
    server.cut = [300_000, 300_000]
    download(remote, tmp_path / "file.bin", silent)
    assert (tmp_path / "file.bin").read_bytes() == DATA
    assert server.asked == [None, "bytes=300000-", "bytes=600000-"]


def test_a_later_attempt_goes_on_from_the_part_that_is_there(server, remote, tmp_path):
    server.cut = [400_000, 0]
    with pytest.raises(DownloadError):
        download(remote, tmp_path / "file.bin", silent)
    assert (tmp_path / "file.bin.part").stat().st_size == 400_000
    download(remote, tmp_path / "file.bin", silent)
    assert (tmp_path / "file.bin").read_bytes() == DATA
    assert server.asked[-1] == "bytes=400000-"


def test_a_server_that_does_not_know_ranges_sends_the_file_anew(server, remote, tmp_path):
    server.ranges = False
    (tmp_path / "file.bin.part").write_bytes(DATA[:1000])
    download(remote, tmp_path / "file.bin", silent)
    assert (tmp_path / "file.bin").read_bytes() == DATA


def test_a_server_that_knows_no_ranges_and_always_cuts_is_given_up(server, remote, tmp_path):
    server.ranges, server.cut = False, [300_000] * 50
    with pytest.raises(DownloadError, match="300000 of 1024000 bytes"):
        download(remote, tmp_path / "file.bin", silent)
    assert len(server.asked) < 5


def test_a_whole_part_is_checked_and_kept(remote, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(DATA)
    download(remote, tmp_path / "file.bin", silent)
    assert (tmp_path / "file.bin").read_bytes() == DATA


def test_a_wrong_checksum_is_noticed_and_the_file_removed(remote, tmp_path):
    with pytest.raises(UserError, match=r"file\.bin has the checksum"):
        download(replace(remote, md5="0" * 32), tmp_path / "file.bin", silent)
    assert [file.name for file in tmp_path.iterdir() if file.suffix != ".lock" and file.is_file()] == []


def test_a_part_of_something_else_is_noticed_and_removed(remote, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(b"x" * 1000)
    with pytest.raises(UserError, match="checksum"):
        download(remote, tmp_path / "file.bin", silent)
    download(remote, tmp_path / "file.bin", silent)
    assert (tmp_path / "file.bin").read_bytes() == DATA


def test_the_answer_of_the_server_is_the_reason(remote, tmp_path):
    with pytest.raises(DownloadError, match="404"):
        download(replace(remote, url=remote.url + "x"), tmp_path / "file.bin", silent)


def test_without_network_the_error_says_which_file_to_put_where(tmp_path, monkeypatch):
    monkeypatch.setattr(tiny_imagenet, "REMOTE", Remote("http://127.0.0.1:9/tiny-imagenet-200.zip", ""))
    with pytest.raises(UserError) as error:
        load_source("tiny-imagenet", data_dir=tmp_path)
    text = str(error.value)
    assert text.startswith("Tiny-ImageNet was not found and could not be downloaded (")
    assert text.endswith(f"Put tiny-imagenet-200.zip into {tmp_path}, or pass --data-dir.")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("mnist", "train-images-idx3-ubyte.gz into {}/mnist"),
        ("fashion-mnist", "train-images-idx3-ubyte.gz into {}/fashion-mnist"),
        ("cifar10", "cifar-10-python.tar.gz into {}"),
        ("cifar100", "cifar-100-python.tar.gz into {}"),
        ("tiny-imagenet", "tiny-imagenet-200.zip into {}"),
        ("imagenet-1k", "class folders into {}/imagenet-1k/train"),
    ],
)
def test_without_download_the_error_says_which_file_to_put_where(name, file, cache):
    with pytest.raises(UserError) as error:
        load_source(name, download=False)
    assert file.format(cache) in str(error.value)


def test_a_missing_file_is_fetched_into_the_data_folder_once(server, remote, tmp_path):
    for _ in range(2):
        path = obtain("The file", ["file.bin"], remote, Options(data_dir=tmp_path), folder="sub")
        assert path == tmp_path / "sub" / "file.bin"
        assert path.read_bytes() == DATA
        path = obtain("The file", ["sub/file.bin"], remote, Options(data_dir=tmp_path))
    assert len(server.asked) == 1
