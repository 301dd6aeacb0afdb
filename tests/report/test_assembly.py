"""A page is one file that loads nothing, and no string in its data can leave the element it stands in."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snv.report.assembly import SCRIPTS, embedded, page, plain, write_page

HOSTILE = "</script><script>alert(1)</script><!-- \u2028 ]]> &lt; '\"`${x}{{script}}"


class Elements(HTMLParser):
    """Tags with their attributes, and the text inside scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        if self.tags and (kind := self.tags[-1][0]) in self.inside and data.strip():
            self.inside[kind].append(data)


@settings(max_examples=40)
@given(st.recursive(st.text() | st.just(HOSTILE), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_whatever_strings_say_they_come_back_and_hold_no_markup(value):
    text = embedded(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


def test_the_element_of_data_ends_where_it_should():
    found = Elements(page({"kind": "runs", "name": HOSTILE}))
    assert [tag for tag, _ in found.tags].count("script") == 2
    assert json.loads(found.inside["script"][0])["name"] == HOSTILE


def test_the_page_names_no_other_address_and_allows_none():
    html = page({"kind": "runs"})
    assert set(re.findall(r"[a-z]+://[^\"'\s)]+", html)) == {"http://www.w3.org/2000/svg"}  # a name, never fetched
    assert not re.search(r"@import|url\(|<link|<img|<iframe|\.innerHTML|document\.write|eval\(", html)
    policy = next(a["content"] for tag, a in Elements(html).tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")


def test_only_the_pages_own_script_and_style_may_run():
    found = Elements(page({"kind": "runs"}))
    policy = next(a["content"] for tag, a in found.tags if "http-equiv" in a)
    for kind, text in (("script", found.inside["script"][-1]), ("style", found.inside["style"][0])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_every_script_of_the_package_is_part_of_the_page():
    assert {path.name for path in (files("snv.report") / "assets").iterdir() if path.name.endswith(".js")} == set(
        SCRIPTS
    )


@dataclass(frozen=True)
class Point:
    x: float
    names: tuple[str, ...]


def test_dataclasses_become_objects_and_what_is_no_number_null():
    value = {"a": [Point(float("nan"), ("b",)), Point(1.5, ())], 3: float("inf")}
    assert plain(value) == {"a": [{"x": None, "names": ["b"]}, {"x": 1.5, "names": []}], "3": None}


@pytest.mark.parametrize(("out", "file"), [("report", "report/index.html"), ("one.html", "one.html")])
def test_the_page_is_written_into_a_folder_or_under_the_name_given(tmp_path, out, file):
    assert write_page("<p>…", tmp_path / out) == tmp_path / file
    assert (tmp_path / file).read_text(encoding="utf-8") == "<p>…"
