"""tidemill: real-time inference on streams; this package is what other programs import.

    from tidemill import Tidemill

    with Tidemill() as client:
        answer = client.predict({"order_id": "o-1", "event_id": "e-1", "features": {...}})

Names are loaded when they are first used, so importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill.aio import AsyncTidemill, Ticket
    from tidemill.answer import Answer
    from tidemill.client import Tidemill
    from tidemill.errors import (
        ContractError,
        DeadlineExceeded,
        InvalidEvent,
        NotDelivered,
        SettingsError,
        TidemillError,
        Unavailable,
    )
    from tidemill.settings import Settings, load_settings

__all__ = [
    "Answer",
    "AsyncTidemill",
    "ContractError",
    "DeadlineExceeded",
    "InvalidEvent",
    "NotDelivered",
    "Settings",
    "SettingsError",
    "Ticket",
    "Tidemill",
    "TidemillError",
    "Unavailable",
    "load_settings",
]

_HOMES = {
    "Answer": "answer",
    "AsyncTidemill": "aio",
    "Settings": "settings",
    "Ticket": "aio",
    "Tidemill": "client",
    "load_settings": "settings",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return __all__
