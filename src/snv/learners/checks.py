"""Settings out of their range are refused in one sentence: what is wrong, what was found, what to try."""

from __future__ import annotations

import math
from typing import Any

from snv.errors import UserError


def check_range(config: Any, name: str, least: float, most: float = math.inf, advice: str = "") -> None:
    """``least`` ≤ setting ≤ ``most``, and finite; a setting that is None is left to its default."""
    value = getattr(config, name)
    if value is None or (least <= value <= most and math.isfinite(value)):
        return
    allowed = f"lies in [{least}, {most}]" if math.isfinite(most) else f"is at least {least}, and finite"
    raise UserError(f"learner.{name} {allowed}; got {value}. {advice}".rstrip())


def check_least(config: Any, least: float, *names: str, advice: str | None = None) -> None:
    """Each of these settings is at least ``least``; the advice is to try its default, unless another is given."""
    for name in names:
        check_range(config, name, least, advice=f"Try {getattr(type(config), name)}." if advice is None else advice)
