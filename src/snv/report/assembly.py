"""One self-contained page: a template, a style sheet and scripts around data, without a way out or in.

The page's own policy lets nothing run but the script it was made with, and nothing be loaded from anywhere.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

from snv.files import write_text

SCRIPTS = (
    "dom.js",
    "colours.js",
    "table.js",
    "heat.js",
    "standing.js",
    "curves.js",
    "matrices.js",
    "packed.js",
    "neurons.js",
    "costs.js",
    "details.js",
    "model.js",
    "page.js",
)
"""In the order in which they need each other; they share one scope."""


def page(data: Any) -> str:
    """The page of a dataclass of plain values; the same data make the same page, byte for byte."""
    style, script = _asset("page.css"), '(() => {\n"use strict";\n' + "\n".join(map(_asset, SCRIPTS)) + "})();\n"
    allowed = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    policy = f"{allowed}; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    parts = {"policy": policy, "style": style, "data": embedded(data), "script": script}
    before, *pieces = _asset("page.html").split("{{")
    named = (piece.split("}}", 1) for piece in pieces)
    return before + "".join(parts[name] + after for name, after in named)


def write_page(html: str, out: Path) -> Path:
    """Write ``index.html`` into a folder, or the file itself if a name ends in .html."""
    path = out if out.suffix == ".html" else out / "index.html"
    write_text(path, html)
    return path


def embedded(data: Any) -> str:
    """JSON that cannot end the element it stands in, whatever the strings in it say."""
    text = json.dumps(plain(data), separators=(",", ":"), allow_nan=False)  # ASCII, so no U+2028 either
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def plain(value: Any) -> Any:
    """Dataclasses as objects; what is not a finite number as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(x) for key, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(x) for x in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _asset(name: str) -> str:
    return (files("snv.report") / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Of what stands between tags, as a policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
