"""Limits of the job of this folder."""

from __future__ import annotations

from typing import Final

SLA_MS: Final = 20_000
OUT_OF_ORDERNESS_MS: Final = 3000
# An order with less time left than this goes to the rules: long, so that it is not yet over when
# the job on a busy machine sees it.
MARGIN_MS: Final = 8000
