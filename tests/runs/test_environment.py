"""What a run says of the machine and the data it ran on."""

from __future__ import annotations

import json

from toy import toy_stream

from snv.runs.environment import data_fingerprint, describe


def test_the_description_is_plain_json_and_names_the_versions():
    described = json.loads(json.dumps(describe()))
    assert {"snv", "torch", "python"} <= described.keys()


def test_the_same_data_have_the_same_fingerprint_and_others_have_another():
    assert data_fingerprint(toy_stream(2).source) == data_fingerprint(toy_stream(2).source)
    assert data_fingerprint(toy_stream(2).source) != data_fingerprint(toy_stream(3).source)
