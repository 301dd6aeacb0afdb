"""`snv report`: one page about runs or about a model."""

from __future__ import annotations

from pathlib import Path

RECORD = Path(__file__).parents[2] / "results" / "small-cifar" / "sgd-cil-seed0.json"


def test_runs_and_models_become_pages(cli, taught, tmp_path):
    told = cli("report", RECORD, "--out", tmp_path / "page")
    assert told.code == 0, told.err
    assert str(tmp_path / "page" / "index.html") in told.out
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert '"kind":"runs"' in page
    assert "snv run method=sgd scenario=cil seed=0 data.name=cifar100" in page
    told = cli("report", "--model", taught, "--out", tmp_path / "model.html")
    assert told.code == 0, told.err
    assert '"kind":"model"' in (tmp_path / "model.html").read_text(encoding="utf-8")


def test_a_report_is_of_runs_or_of_a_model(cli, taught, tmp_path):
    for arguments in ((), (tmp_path, "--model", taught)):
        told = cli("report", *arguments)
        assert told.code == 2
        assert "Give runs, or a model" in told.err
