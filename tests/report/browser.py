"""A browser for tests of pages, if this machine has one, and pages for it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snv.runs import NeuronTable, Record

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@contextmanager
def a_browser() -> Iterator[Any]:
    """Chromium without a window; the test is skipped where it is missing."""
    if CHROMIUM is None:
        pytest.skip("needs chromium, which is not installed here")
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright, which is not installed here")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


class Visit:
    """A page opened from disk, with all it asked for and all it complained about."""

    def __init__(self, browser: Any, file: Path, **context: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1300, "height": 900}, **context)
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda box: (self.complaints.append(f"dialog: {box.message}"), box.dismiss()))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("html[data-ready]", state="attached")
        self.file = file

    def settled(self) -> Any:
        """The page after two frames, when what is drawn later has been drawn."""
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return self.page

    def heard(self) -> str:
        """What a screen reader was told last."""
        return str(self.page.text_content("#heard"))

    def processor_seconds(self) -> float:
        """What the page has cost so far; unlike the time on the wall, a busy machine does not count."""
        session = self.context.new_cdp_session(self.page)
        session.send("Performance.enable")
        metrics = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
        return float(metrics["ProcessTime"])

    def check_quiet(self) -> None:
        """It asked for nothing but itself, and had nothing to complain about."""
        assert self.asked == [self.file.as_uri()]
        assert self.complaints == []


def write_long_run(folder: Path, n_tasks: int = 50, n: int = 4800) -> NeuronTable:
    """A made-up record of many tasks with a table of its neurons beside it."""
    rng = np.random.default_rng(0)
    config = {
        "method": "snv",
        "scenario": "cil",
        "seed": 0,
        "data": {"name": "digits", "tasks": n_tasks},
        "network": {"name": "resnet18"},
        "learner": {},
    }
    record = Record.blank(config, n_tasks)
    record.accuracy[:], record.untrained[:] = np.tril(rng.random((n_tasks, n_tasks)) * 100), 1.0
    record.tasks_done, record.status = n_tasks, "finished"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "long.json").write_text(json.dumps(record.as_json()))
    sizes = (n // 8,) * 8
    values, masks = rng.normal(size=(n_tasks, n)).astype(np.float32), rng.random((n_tasks, n)) < 0.1
    table = NeuronTable(tuple(f"layer{k}.conv" for k in range(8)), sizes, values, masks)
    table.save(folder / "long.npz")
    return table
