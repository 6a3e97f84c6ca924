"""Who may change what: claims on knobs, and what was found put back, whatever happens.

    with Claim(device, "a sweep") as claim:
        claim.apply(Setting({"power_limit": 200.0}))    # journalled, then written, then read back
        claim.settle()                                  # until the effect is seen, within a time
        ...                                             # touch() says that the work goes on
                                                        # here the limit is what it was before

Imported when first used: the watchdog, which is a process of its own, needs little of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowjoule.control.advice import Advice, Advised, advise
    from lowjoule.control.claim import Claim
    from lowjoule.control.effect import Effect
    from lowjoule.control.journal import Entry, Journal
    from lowjoule.control.replay import Outcome, Replayed, replay_all

_HOMES = {
    "Advice": "advice",
    "Advised": "advice",
    "Claim": "claim",
    "Effect": "effect",
    "Entry": "journal",
    "Journal": "journal",
    "Outcome": "replay",
    "Replayed": "replay",
    "advise": "advice",
    "replay_all": "replay",
}

__all__ = [
    "Advice",
    "Advised",
    "Claim",
    "Effect",
    "Entry",
    "Journal",
    "Outcome",
    "Replayed",
    "advise",
    "replay_all",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lowjoule.control' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"lowjoule.control.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
