"""Log lines of the worker's processes: one line of text, or one JSON object, on standard error."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

HUMAN = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# What a line is about, given by `extra=`; a line has those that it has.
SUBJECTS = ("task", "frame", "control_version")


class HumanLines(logging.Formatter):
    """One line of text; what it is about stands in brackets at its end."""

    def __init__(self) -> None:
        super().__init__(HUMAN)

    def format(self, record: logging.LogRecord) -> str:
        """The line, and a trace if there is one."""
        about = " ".join(f"{name}={value}" for name, value in _subjects(record).items())
        return super().format(record) + (f" [{about}]" if about else "")


class JsonLines(logging.Formatter):
    """time (ISO, UTC), level, logger, message, pid, subjects; error with its trace if any."""

    def format(self, record: logging.LogRecord) -> str:
        """One JSON object without line breaks."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        line.update(_subjects(record))
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _subjects(record: logging.LogRecord) -> dict[str, object]:
    return {name: record.__dict__[name] for name in SUBJECTS if name in record.__dict__}


def start_logging(style: str, level: str) -> None:
    """`style`: human or json. Replaces what was set up before."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if style == "json" else HumanLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
