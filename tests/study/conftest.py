"""What tests of searches share."""

from __future__ import annotations

import pytest
from searched import small

from snv.config import RunConfig


@pytest.fixture
def config() -> RunConfig:
    return small("method=ewc")
