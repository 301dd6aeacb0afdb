"""A manifest is believed only byte for byte, and names nothing but files beside it."""

from __future__ import annotations

import json

import pytest

from snv import __version__
from snv.errors import UserError
from snv.model import manifest, store
from stored import file_of, forge, save


def test_blanks_of_the_manifest_count_too(tmp_path):
    model = save(tmp_path)
    path = tmp_path / "model.json"
    text = path.read_text()
    for edited in (text + "\n", text.replace("\n ", "\n\t", 1), text.rstrip(), text.replace("\n", "\r\n")):
        assert edited != text
        path.write_bytes(edited.encode())
        assert any("model.json" in sentence for sentence in model.damage())


def test_a_model_of_a_newer_snv_says_what_it_needs(tmp_path):
    model = save(tmp_path)
    forge(model, format=9, snv="7.1.0")
    reads = rf"snv {__version__} reads formats up to {manifest.FORMAT}"
    needed = rf"is of format 9, and {reads}\. It needs snv 7\.1\.0 or newer: pip"
    with pytest.raises(UserError, match=needed):
        model.read()
    assert "model.json is of format 9" in model.damage()[0]


@pytest.mark.parametrize(
    "file",
    [
        *(
            "../x",
            "../body-0123456789abcdef.safetensors",
            "sub/a-0123456789abcdef.safetensors",
            "/etc/passwd",
            "..",
            "",
        ),
        *("C:\\a-0123456789abcdef.safetensors", "a-0123456789abcdef.safetensors\n", "model.json", ".a.tmp", 7, None),
    ],
)
def test_a_manifest_can_name_nothing_but_files_beside_it(tmp_path, file):
    model = save(tmp_path / "pets.snv")
    outside = (tmp_path / "body-0123456789abcdef.safetensors", model.path / "sub" / "a-0123456789abcdef.safetensors")
    outside[1].parent.mkdir()
    for path in outside:
        path.write_bytes(file_of(model, "body").read_bytes())
    entry = json.loads((model.path / "model.json").read_text())["files"]["body"]
    forge(model, files={"body": entry | {"file": file}})
    with pytest.raises(UserError, match=r"model\.json names a file that no model contains"):
        model.read()
    assert any("model.json" in sentence for sentence in model.damage())
    with model.writing():
        model.write({}, {})
    assert all(path.exists() for path in outside)


@pytest.mark.parametrize("changes", [{"files": []}, {"files": {"body": []}}, {"files": {"body": {"bytes": 1}}}])
def test_a_manifest_of_another_shape_is_refused(tmp_path, changes):
    model = save(tmp_path)
    forge(model, **changes)
    with pytest.raises(UserError, match=r"model\.json"):
        model.read()


def test_a_manifest_that_is_too_long_is_not_even_read(tmp_path):
    model = save(tmp_path)
    with (tmp_path / "model.json").open("r+b") as file:
        file.truncate(store.LARGEST_MANIFEST + 1)  # takes no room on the disk
    with pytest.raises(UserError, match=r"model\.json has 67,108,865 bytes instead of at most 67,108,864"):
        model.read()


def test_a_length_beyond_all_bounds_is_a_wrong_length(tmp_path):
    model = save(tmp_path)
    files = json.loads((tmp_path / "model.json").read_text())["files"]
    forge(model, files={"body": files["body"] | {"bytes": 10**30}})
    with pytest.raises(UserError, match="bytes instead of 1,000,000"):
        model.read()
