"""Errors of setting up and running the services; each message names the remedy.

TidemillError
├── ToolError       a tool is missing or can't be fetched: rerun, or install it
└── StackError      a service of the local stack did not start, stop or answer
    └── FlinkError  Flink refused or failed a request
"""

from __future__ import annotations

from tidemill.errors import TidemillError


class ToolError(TidemillError):
    """A tool or download is missing, broken or of a version that does not fit."""


class StackError(TidemillError):
    """A service of the local stack failed; the message says where its log lies."""


class FlinkError(StackError):
    """Flink's answer to a request was an error."""
