"""`snv doctor`: is this machine fit?"""

from __future__ import annotations

import json


def test_the_doctor_finds_this_machine_healthy(cli):
    told = cli("doctor", "--json")
    facts = json.loads(told.out)
    assert told.code == (1 if facts["problems"] else 0)
    assert facts["torch"]
    assert "digits" in facts["data found"]
